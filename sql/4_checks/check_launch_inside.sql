-- A row is GPU work whose launching call does not lie inside the range that owns it directly.

select gpu_op.gpu_op_id, gpu_op.range_id
from gpu_op
join range using (range_id)
join attribution using (attribution_id)
where attribution.is_self
    and attribution.rule = 'direct'
    and (gpu_op.launch_start_ns < range.start_ns or gpu_op.launch_end_ns > range.end_ns)
