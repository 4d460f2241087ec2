-- A row is one of the 1,200 most expensive annotated paths of an input.
--
-- columns:
--   source_id          integer    the input
--   id                 bigint     the path
--   parent             bigint     the path above it
--   name               varchar    the last name of the path
--   path               varchar    the path
--   range_cnt          bigint     ranges
--   wall_ns            bigint     CPU time
--   launch_ns          bigint     time in launching calls, without what they waited for the GPU
--   kernel_ns          bigint     kernel time
--   direct_kernel_ns   bigint     kernel time of launches inside
--   own_ns             bigint     direct_kernel_ns without that of the paths below
--   launch_frac        double     launch_ns of itself and kernel_ns

with node as (
    select
        source_id,
        path_id as id,
        parent_path_id as parent,
        name,
        path,
        range_cnt,
        wall_ns,
        launch_api_ns - launch_wait_ns as launch_ns,
        kernel_ns,
        direct_kernel_ns
    from range_summary
    where kind = 'annotation'
    qualify row_number() over (partition by source_id order by kernel_ns + wall_ns desc, path_id) <= 1200
)
select
    node.*,
    greatest(0, node.direct_kernel_ns - coalesce(below.direct_kernel_ns, 0))::bigint as own_ns,
    node.launch_ns / nullif(node.launch_ns + node.kernel_ns, 0) as launch_frac
from node
left join (
    select source_id, parent, sum(direct_kernel_ns) as direct_kernel_ns
    from node
    group by source_id, parent
) as below on below.parent = node.id and below.source_id = node.source_id
order by node.source_id, node.kernel_ns desc, node.wall_ns desc, node.id
