-- A row is a row of range_summary, with the kernels that were launched in it alone: on its own thread, or by another while it
-- waited. Which range the backward of what ran in it belongs to does not count, as some recordings do not say it.
--
-- A path that the sequence number reaches first may be around what launched, too: then it is around a path that another rule
-- reached.
--
-- columns:
--   source_id   integer   the input
--   path        varchar   name path of the range
--   kind        varchar   as in range_summary
--   kernel_ns   bigint    summed duration of the kernels

with
launched as (
    select distinct attribution_id, attribution.source_id, path
    from attribution
    join range_path using (path_id)
    where rule <> 'sequence'
),
inside as (
    from launched
    union
    select launched.attribution_id, launched.source_id, around.path
    from launched
    join attribution using (attribution_id)
    join range_path as around using (path_id)
    where attribution.rule = 'sequence' and starts_with(launched.path, around.path || '/')
),
work as (
    select inside.source_id, inside.path, sum(set_work.kernel_ns) as kernel_ns
    from inside
    join set_work using (attribution_id)
    group by all
)
select range_summary.source_id, range_summary.path, range_summary.kind, coalesce(work.kernel_ns, 0)::bigint as kernel_ns
from range_summary
left join work using (source_id, path)
