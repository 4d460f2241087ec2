-- A row is one of the five ranges that own most of the time of a kernel of _page_kernel.
--
-- columns:
--   source_id    integer   the input
--   name_id      bigint    the kernel
--   path         varchar   the range, NULL for what was launched outside of ranges
--   kernel_cnt   bigint    executions that it owns
--   kernel_ns    bigint    their summed duration

with
owned as (
    select op.source_id, op.name_id, op.attribution_id, count(*) as kernel_cnt, sum(op.end_ns - op.start_ns) as kernel_ns
    from gpu_op as op
    semi join _page_kernel as kernel on kernel.source_id = op.source_id and kernel.name_id = op.name_id
    where op.kind = 'kernel'
    group by all
)
select
    owned.source_id,
    owned.name_id,
    range_path.path,
    sum(owned.kernel_cnt)::bigint as kernel_cnt,
    sum(owned.kernel_ns)::bigint as kernel_ns
from owned
left join _owner as own using (attribution_id)
left join range_path on range_path.path_id = own.path_id
group by owned.source_id, owned.name_id, range_path.path
qualify row_number() over (partition by owned.source_id, owned.name_id order by sum(kernel_ns) desc, path) <= 5
order by owned.source_id, owned.name_id, kernel_ns desc, path
