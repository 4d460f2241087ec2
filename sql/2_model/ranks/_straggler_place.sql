-- A row is a step in which a straggler was late because its device was idle: where its CPU was in the middle of the longest gap.
--
-- columns:
--   source_id   integer   the input
--   step        bigint    number of the step, NULL for an input without steps
--   place       varchar   the innermost range or Python frame

with
asked as (
    select judged.source_id, judged.step, stretch.start_ns, stretch.end_ns
    from _straggler as judged
    join _rank_stretch as stretch
        on stretch.source_id = judged.source_id
        and stretch.step is not distinct from judged.step
        and (stretch.collective_id is not null) = judged.is_by_arrival
    where judged.is_straggler
        and judged.cause like 'idle%'
        and (stretch.collective_id is null or list_contains(judged.collective_ids, stretch.collective_id))
),
busy as materialized (
    select source_id, device_id, start_ns, end_ns
    from _rank_activity
    where activity = 'busy' and source_id in (select source_id from asked)
),
-- before the first work and behind the last one, too: the first step begins with the data
free as (
    select
        source_id,
        coalesce(
            lag(end_ns) over (partition by source_id, device_id order by start_ns), -9223372036854775807
        ) as start_ns,
        start_ns as end_ns
    from busy
    union all
    select source_id, max(end_ns), 9223372036854775807
    from busy
    group by source_id, device_id
),
longest as (
    select
        asked.source_id,
        asked.step,
        arg_max(
            (greatest(free.start_ns, asked.start_ns) + least(free.end_ns, asked.end_ns)) // 2,
            least(free.end_ns, asked.end_ns) - greatest(free.start_ns, asked.start_ns)
        ) as time_ns
    from asked
    join free
        on free.source_id = asked.source_id and free.start_ns < asked.end_ns and free.end_ns > asked.start_ns
    group by asked.source_id, asked.step
)
select
    longest.source_id,
    longest.step,
    arg_max(coalesce(range_path.path, name.text), range.start_ns) as place
from longest
join range
    on range.source_id = longest.source_id
    and range.start_ns <= longest.time_ns
    and range.end_ns > longest.time_ns
join range_path using (path_id)
join name on name.name_id = range.name_id
join (select distinct source_id, thread_id from _step) as stepping
    on stepping.source_id = range.source_id and range.thread_id = coalesce(stepping.thread_id, range.thread_id)
where not regexp_matches(name.text, '^(gloo|nccl):')
group by longest.source_id, longest.step
