-- A row is a kernel and what kernel_summary adds up of it.
--
-- columns:
--   source_id    integer   the input
--   process      bigint    as in _timed_op
--   at_ns        bigint    as in _timed_op
--   key          bigint    its name
--   kernel_ns    bigint    how long it took
--   kernel_cnt   integer   1

select source_id, process, at_ns, name_id as key, gpu_op_ns as kernel_ns, 1 as kernel_cnt
from _timed_op
where kind = 'kernel'
