-- A row is an input and when its first event begins, whatever it is.
--
-- columns:
--   source_id   integer   the input
--   begin_ns    bigint    on the file's clock

select source_id, min(start_ns) as begin_ns
from (
    select source_id, start_ns from range
    union all
    select source_id, start_ns from api_call
    union all
    select source_id, start_ns from gpu_op
    union all
    select source_id, time_ns from memory_event
)
group by source_id
