-- A row is a step, and whether it is cold: before the first that takes no more than 1.5 times the median.
--
-- columns:
--   source_id   integer   the input
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   own_ns      bigint    how long it takes without what is between the steps (_step_length)
--   is_cold     boolean   whether it is before the first warm one

with
judged as (
    select
        step.source_id,
        step.start_ns,
        step.end_ns,
        length.own_ns,
        length.own_ns > 1.5 * median(length.own_ns) over (partition by step.source_id) as is_slow
    from _step as step
    join _step_length as length using (source_id, step_id)
)
select
    source_id,
    start_ns,
    end_ns,
    own_ns,
    start_ns < min(start_ns) filter (not is_slow) over (partition by source_id) as is_cold
from judged
