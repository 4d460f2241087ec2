-- A row is what a kernel takes in the ranges of one path.
--
-- columns:
--   source_id     integer   the input
--   kernel_name   varchar   the kernel
--   path          varchar   the path of the ranges
--   class         varchar   its class there
--   kernel_ns     bigint    how long its calls took
--   kernel_cnt    bigint    how many there were

select op.source_id, name.text as kernel_name, place.path, op_class.class, op.kernel_ns, op.kernel_cnt
from (
    select
        gpu_op.source_id,
        gpu_op.name_id,
        range.path_id,
        sum(gpu_op.end_ns - gpu_op.start_ns)::bigint as kernel_ns,
        count(*) as kernel_cnt
    from gpu_op
    join range using (range_id)
    where gpu_op.kind = 'kernel'
    group by all
) as op
join name using (name_id)
join range_path as place using (path_id)
join _op_class as op_class
    on op_class.name_id = op.name_id
    and op_class.path_id = op.path_id
    and op_class.kind = 'kernel'
