-- A row is an input with kernels: how many, and their summed duration.
--
-- columns:
--   source_id    integer   the input
--   kernel_cnt   bigint    kernels
--   kernel_ns    bigint    their summed duration

select source_id, count(*) as kernel_cnt, sum(end_ns - start_ns)::bigint as kernel_ns
from gpu_op
where kind = 'kernel'
group by source_id
