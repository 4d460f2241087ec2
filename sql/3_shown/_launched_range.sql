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
    select distinct attribution_id, path
    from attribution
    join range_path using (path_id)
    where rule <> 'sequence'
),
inside as (
    select attribution_id, path from launched
    union
    select own.attribution_id, own_path.path
    from attribution as own
    join range_path as own_path using (path_id)
    join launched
        on launched.attribution_id = own.attribution_id and starts_with(launched.path, own_path.path || '/')
    where own.rule = 'sequence'
),
work as (
    select attribution.source_id, inside.path, sum(set_work.kernel_ns) as kernel_ns
    from inside
    join set_work using (attribution_id)
    join (select distinct attribution_id, source_id from attribution) as attribution using (attribution_id)
    group by all
)
select range_summary.source_id, range_summary.path, range_summary.kind, coalesce(work.kernel_ns, 0)::bigint as kernel_ns
from range_summary
left join work using (source_id, path)
