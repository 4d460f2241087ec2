-- A row is a range whose GPU busy time is longer than its GPU operations together or than its own extent allows.

select range_id, measure.gpu_busy_ns, measure.gpu_op_ns
from range_measure as measure
join range using (range_id)
where measure.gpu_busy_ns > measure.gpu_op_ns
    or measure.gpu_busy_inside_ns > range.end_ns - range.start_ns
    or measure.gpu_busy_inside_ns > measure.gpu_busy_ns
    or measure.kernel_ns > measure.gpu_op_ns
    or range.covered_ns > range.end_ns - range.start_ns
