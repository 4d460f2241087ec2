-- A row is an idle gap of a device with its cause, as idle_gap has it, without texts.

select
    gap.source_id,
    gap.device_id,
    gap.start_ns,
    gap.end_ns,
    gap.end_ns - gap.start_ns as idle_ns,
    case
        when gpu_op.launch_start_ns >= gap.start_ns then 'host'
        when gap.end_ns - gap.start_ns < (select value from threshold where name = 'kernel_wait_ns') then 'kernel_wait'
        else 'dependency'
    end::enum('host', 'dependency', 'kernel_wait') as cause,
    gap.gpu_op_id,
    gpu_op.range_id,
    gpu_op.name_id
from _idle_gap as gap
join gpu_op using (gpu_op_id)
