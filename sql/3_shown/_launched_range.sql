-- A row is a row of range_summary, with the kernels that were launched in it alone: on its own thread, or by another while it
-- waited. Which range the backward of what ran in it belongs to does not count, as some recordings do not say it.
--
-- What the sequence number leads to is often around the launch, too (a step): the innermost ranges of each rule say so.
--
-- columns:
--   source_id   integer   the input
--   path        varchar   name path of the range
--   kind        varchar   as in range_summary
--   kernel_ns   bigint    summed duration of the kernels

with
kernel as (
    select gpu_op_id, api_call_id, attribution_id, end_ns - start_ns as ns
    from gpu_op
    where kind = 'kernel'
),
-- the innermost ranges of each kernel by the two rules
tip as (
    select kernel.gpu_op_id, kernel.ns, own.path_id, false as is_alone
    from kernel
    join attribution as own using (attribution_id)
    where own.is_self and own.rule <> 'sequence'
    union all
    select kernel.gpu_op_id, kernel.ns, range.path_id, reach.is_alone
    from kernel
    join reach using (api_call_id)
    join range using (range_id)
    where reach.rule <> 'sequence'
),
alike as (
    select tips, sum(ns) as ns
    from (
        select any_value(ns) as ns, list_sort(list_distinct(list({'path_id': path_id, 'is_alone': is_alone}))) as tips
        from tip
        group by gpu_op_id
    )
    group by tips
),
part as (
    select row_number() over () as number, alike.ns, unnest(alike.tips, recursive := true)
    from alike
),
inside as (
    select distinct part.number, part.ns, around.source_id, around.path
    from part
    join range_path as own using (path_id)
    join range_path as around
        on around.source_id = own.source_id
        and (around.path_id = own.path_id or not part.is_alone and starts_with(own.path, around.path || '/'))
),
work as (
    select source_id, path, sum(ns) as kernel_ns
    from inside
    group by source_id, path
)
select range_summary.source_id, range_summary.path, range_summary.kind, coalesce(work.kernel_ns, 0)::bigint as kernel_ns
from range_summary
left join work using (source_id, path)
