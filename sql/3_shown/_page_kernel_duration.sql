-- A row is how many executions of a kernel of _page_kernel were about equally long.
--
-- 24 bins of equal width in the logarithm, from the shortest to the longest.
--
-- columns:
--   source_id    integer   the input
--   name_id      bigint    the kernel
--   bin          integer   number of the bin, 0 for the shortest
--   kernel_cnt   bigint    executions

with
measured as (
    select
        kernel.source_id,
        kernel.name_id,
        ln(greatest(op.end_ns - op.start_ns, 1) / greatest(kernel.min_ns, 1))
        / nullif(ln(greatest(kernel.max_ns, 1) / greatest(kernel.min_ns, 1)), 0) as place
    from gpu_op as op
    join _page_kernel as kernel on kernel.source_id = op.source_id and kernel.name_id = op.name_id
    where op.kind = 'kernel'
)
select source_id, name_id, coalesce(least(floor(24 * place), 23), 0)::integer as bin, count(*) as kernel_cnt
from measured
group by all
order by source_id, name_id, bin
