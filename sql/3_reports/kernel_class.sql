-- A row is the GPU work of one class under one kernel name: what kind of work a device's time goes into.
--
-- The first rule of the table kernel_class_rule that matches decides, by the kernel's name or by the path of the range
-- that owns it, so that one kernel name can have a row as 'lora' and another as 'matmul'. Rules of your own come first
-- (`analyze --kernel-classes FILE.csv` with the columns subject, pattern, class). Where a name says nothing the operator
-- that launched the kernel does; what no rule knows is 'other'. Convolutions are 'matmul', pooling is 'reduction'. Copies and
-- memsets of the driver are 'copy'; kernels that copy, fill, concatenate, gather or index are 'data_movement'.
--
-- columns:
--   class         varchar   'matmul', 'attention', 'lora', 'quantise', 'dequantise', 'norm', 'elementwise', 'reduction',
--         'copy', 'data_movement', 'layout', 'optimizer', 'communication', 'routing', 'sort', 'graph' or 'other'
--   kernel_name   varchar   the kernel, or '[CUDA memcpy HtoD]', '[CUDA memset]', …
--   gpu_op_cnt    bigint    executions
--   gpu_op_ns     bigint    their summed duration
--   gpu_op_frac   double    gpu_op_ns as a fraction of all GPU time of the input
--   source_id     integer   the input, see trace_info
--   rank          integer   rank of the input, NULL if not recorded

select
    op.class,
    name.text as kernel_name,
    count(*) as gpu_op_cnt,
    sum(op.end_ns - op.start_ns)::bigint as gpu_op_ns,
    sum(op.end_ns - op.start_ns) / nullif(sum(sum(op.end_ns - op.start_ns)) over (partition by op.source_id), 0)
        as gpu_op_frac,
    op.source_id,
    any_value(source.rank) as rank
from _classed_op as op
join name using (name_id)
join source on source.source_id = op.source_id
group by op.source_id, op.class, name.text
order by op.source_id, gpu_op_ns desc, kernel_name, op.class
