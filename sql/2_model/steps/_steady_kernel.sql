-- A row is the kernel that takes most of what an input computes, in the time that the answer is about (_steady_time).
--
-- A CUDA graph that is recorded as a whole is one kernel here. Communication computes nothing.
--
-- columns:
--   source_id     integer   the input
--   short_name    varchar   the kernel, see kernel_summary
--   kernel_frac   double    its share of the summed time of all that computes

with
own as (
    select
        op.source_id,
        op.name_id,
        sum(op.end_ns - op.start_ns) as kernel_ns
    from gpu_op as op
    join _steady_time as steady using (source_id)
    where op.kind in ('kernel', 'graph')
        and op.name_id not in (select name_id from _op_class where class = 'communication')
        and op.start_ns >= steady.start_ns and op.start_ns < steady.end_ns
    group by op.source_id, op.name_id
),
largest as (
    select source_id, arg_max(name_id, (kernel_ns, -name_id)) as name_id, max(kernel_ns) / nullif(sum(kernel_ns), 0) as kernel_frac
    from own
    group by source_id
)
select largest.source_id, short.short_name, largest.kernel_frac
from largest
join _short_name as short using (source_id, name_id)
