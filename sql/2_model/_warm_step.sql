-- A row is a step, and whether it is cold: before the first that takes no more than 1.5 times the median.
--
-- columns:
--   source_id   integer   the input
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   is_cold     boolean   whether it is before the first warm one

with
judged as (
    select
        source_id,
        start_ns,
        end_ns,
        end_ns - start_ns > 1.5 * median(end_ns - start_ns) over (partition by source_id) as is_slow
    from _step
)
select
    source_id,
    start_ns,
    end_ns,
    start_ns < min(start_ns) filter (not is_slow) over (partition by source_id) as is_cold
from judged
