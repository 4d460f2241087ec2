-- A row is what the GPU work that one range owns itself (as the innermost) adds up to.
--
-- columns:
--   range_id          bigint   the range
--   self_gpu_op_cnt   bigint   GPU operations that it owns
--   self_gpu_op_ns    bigint   their summed duration
--   self_kernel_cnt   bigint   kernels among them
--   self_kernel_ns    bigint   summed duration of the kernels

select
    range_id,
    count(*) as self_gpu_op_cnt,
    sum(end_ns - start_ns)::bigint as self_gpu_op_ns,
    count(*) filter (kind = 'kernel') as self_kernel_cnt,
    coalesce(sum(end_ns - start_ns) filter (kind = 'kernel'), 0)::bigint as self_kernel_ns
from gpu_op
where range_id is not null
group by range_id
