-- A row is a name path whose instances account for less GPU work than the path, or that owns more work than it has.

with
instance as (
    select range.path_id, sum(measure.gpu_op_ns) as gpu_op_ns
    from range_measure as measure
    join range using (range_id)
    group by range.path_id
)
select range_summary.path_id, range_summary.gpu_op_ns as path_ns, instance.gpu_op_ns as instance_ns
from range_summary
left join instance using (path_id)
where range_summary.gpu_op_ns > coalesce(instance.gpu_op_ns, 0)
    or range_summary.self_gpu_op_ns > range_summary.gpu_op_ns
    or range_summary.gpu_busy_ns > range_summary.gpu_op_ns
