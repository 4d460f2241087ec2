-- A row is what a rank did in a stretch of _rank_stretch, one part of it: lengths of unions per device, added up.
--
-- columns:
--   source_id       integer   the input
--   collective_id   bigint    the matched collective, NULL for a step
--   step            bigint    number of the step, NULL outside of steps
--   start_ns        bigint    begin
--   end_ns          bigint    end
--   part            varchar   'busy', 'compute', 'communication', 'compute or communication', or 'idle: ' and what the idle time
--         is blamed on
--   part_ns         hugeint   how long it did that, devices added up

with
stretch as (
    select source_id, coalesce(device_id, -1) as device, activity as part, start_ns, end_ns
    from _rank_activity
    union all
    select source_id, coalesce(device_id, -1), 'idle: ' || coalesce(rule, cause)::varchar, start_ns, end_ns
    from _blamed_gap
    semi join _several_ranks using (source_id)
),
-- what was done up to a moment is a sum over what was done before: no pair of stretches is made
summed as (
    select
        *,
        sum(end_ns - start_ns) over (
            partition by source_id, device, part order by start_ns rows unbounded preceding
        ) - (end_ns - start_ns) as before_ns
    from stretch
),
border as (
    select asked.*, used.device, used.part, side.is_end, if(side.is_end, asked.end_ns, asked.start_ns) as time_ns
    from _rank_stretch as asked
    join (select distinct source_id, device, part from summed) as used using (source_id)
    cross join (values (false), (true)) as side(is_end)
),
until as (
    select
        border.*,
        coalesce(
            summed.before_ns + least(border.time_ns, summed.end_ns) - summed.start_ns, 0
        ) * if(border.is_end, 1, -1) as done_ns
    from border
    asof left join summed
        on summed.source_id = border.source_id
        and summed.device = border.device
        and summed.part = border.part
        and summed.start_ns <= border.time_ns
)
select source_id, collective_id, step, start_ns, end_ns, part, sum(done_ns) as part_ns
from until
group by source_id, collective_id, step, start_ns, end_ns, part
