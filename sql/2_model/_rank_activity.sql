-- A row is a stretch of time in which a rank was busy, computed, or computed or communicated: of several ranks only.
--
-- Of inputs with GPU work these are the stretches of their devices. On CPUs operators compute, and gloo's executions
-- communicate; that an operator waits for them does not make it one that computes.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device, NULL on CPUs
--   activity    varchar   'busy', 'compute', 'communication' or 'compute or communication'
--   start_ns    bigint    begin
--   end_ns      bigint    end

with
on_cpu as materialized (
    select source_id
    from _several_ranks
    where source_id not in (select source_id from _source_with_gpu)
        and source_id in (select source_id from collective where found_by = 'gloo')
),
work as (
    select range.source_id, range.start_ns, range.end_ns, ['busy', 'compute', 'compute or communication'] as activities
    from range
    join name using (name_id)
    left join range as parent on parent.range_id = range.parent_id
    where range.source_id in (from on_cpu)
        and range.kind = 'operator'
        and parent.kind is distinct from 'operator'
        and not regexp_matches(name.text, '^(c10d::|record_param_comms|gloo:)')
    union all
    select source_id, work_start_ns, work_end_ns, ['busy', 'compute or communication']
    from collective
    where source_id in (from on_cpu) and work_start_ns is not null
),
each_activity as (
    select source_id, unnest(activities) as activity, start_ns, end_ns
    from work
),
marked as (
    select
        *,
        max(end_ns) over (
            partition by source_id, activity
            order by start_ns, end_ns
            rows between unbounded preceding and 1 preceding
        ) as ended_ns,
        max(end_ns) over (partition by source_id, activity) as last_end_ns
    from each_activity
)
select source_id, device_id, activity::varchar as activity, start_ns, end_ns
from _device_activity
semi join _several_ranks using (source_id)
where activity in ('busy', 'compute', 'communication', 'compute or communication')
union all
select
    source_id,
    null as device_id,
    activity,
    start_ns,
    coalesce(lead(ended_ns) over (partition by source_id, activity order by start_ns), last_end_ns) as end_ns
from marked
where ended_ns is null or start_ns > ended_ns
