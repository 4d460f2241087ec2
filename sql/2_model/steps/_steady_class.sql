-- A row is a class of GPU work in the time that the answer is about (_steady_time).
--
-- columns:
--   source_id     integer   the input
--   class         varchar   the class, see kernel_class
--   gpu_op_frac   double    its share of the GPU work's summed time

select
    op.source_id,
    op.class,
    sum(op.end_ns - op.start_ns) / nullif(sum(sum(op.end_ns - op.start_ns)) over (partition by op.source_id), 0)
        as gpu_op_frac
from _classed_op as op
join _steady_time as steady using (source_id)
where op.start_ns >= steady.start_ns and op.start_ns < steady.end_ns
group by op.source_id, op.class
order by op.source_id, gpu_op_frac desc, op.class
