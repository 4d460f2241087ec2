-- A row is the waits of the CPU in the ranges of one path behind which the GPU works on: no idle gap is blamed on them.
--
-- The CPU stands still for as long, and is late sooner than it would be: what it would be ahead is lost. Whether that costs
-- anything a replay without these waits says. Waiting for work that is not recorded is none of it.
--
-- columns:
--   source_id        integer   the input
--   place            varchar   name path of the range that waits, NULL outside all ranges
--   saving_ns        double    how long they wait, the mean of the processes that wait
--   occurrence_cnt   bigint    waits
--   calls            varchar   the calls
--   is_copying       boolean   whether most of it is waiting for copies
--   wait_kind        varchar   what most of it waits for, as wait_kind_of has it; NULL for several

with
blamed as (
    select distinct source_id, start_ns, end_ns, rule
    from _judged_gap
    where rule in ('blocking_copy', 'pageable_async_copy', 'synchronisation', 'unrecorded_work')
),
wait as (
    select wait.*, wait.end_ns + (select value::bigint from threshold where name = 'clock_slack_ns') as until_ns
    from _gap_wait as wait
    join _steady_time as steady using (source_id)
    where wait.start_ns >= steady.start_ns and wait.end_ns <= steady.end_ns
),
-- how much of a wait is for what is not recorded, the longest piece
vain as (
    select wait.source_id, wait.start_ns, wait.end_ns, max(least(unknown.end_ns, wait.end_ns) - greatest(unknown.start_ns, wait.start_ns)) as ns
    from (select distinct source_id, start_ns, end_ns from wait) as wait
    join blamed as unknown
        on unknown.source_id = wait.source_id and unknown.start_ns < wait.end_ns and unknown.end_ns > wait.start_ns
    where unknown.rule = 'unrecorded_work'
    group by all
),
without_gap as (
    select wait.*, wait.end_ns - wait.start_ns - coalesce(vain.ns, 0) as wait_ns
    from wait
    left join vain on vain.source_id = wait.source_id and vain.start_ns = wait.start_ns and vain.end_ns = wait.end_ns
    asof left join blamed on blamed.source_id = wait.source_id and blamed.start_ns <= wait.until_ns
    where not coalesce(blamed.end_ns >= wait.end_ns, false)
),
called as (
    select
        wait.source_id,
        place.path as place,
        name.text as api_name,
        coalesce(wait_kind_of(name.text), '') as kind,
        sum(wait.wait_ns) as wait_ns,
        count(*) as wait_cnt,
        coalesce(sum(wait.wait_ns) filter (wait.kind = 'memcpy'), 0) as copy_ns
    from without_gap as wait
    join name using (name_id)
    left join range_path as place using (path_id)
    group by all
),
waiting as (
    select source_id, count(distinct process) as process_cnt
    from wait
    group by source_id
)
select
    source_id,
    place,
    (sum(wait_ns) / any_value(process_cnt))::double as saving_ns,
    sum(wait_cnt)::bigint as occurrence_cnt,
    string_agg(distinct api_name, ', ' order by api_name) as calls,
    2 * sum(copy_ns) > sum(wait_ns) as is_copying,
    if(2 * max(wait_ns) > sum(wait_ns), nullif(arg_max(kind, wait_ns), ''), null) as wait_kind
from called
join waiting using (source_id)
group by source_id, place
having sum(wait_ns) > 0
