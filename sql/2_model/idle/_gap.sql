-- A row is an idle gap of a device with its cause, as idle_gap has it, without texts.
--
-- The CPU was late when it launched the work after the gap had begun; unless the work then waited for more than half of
-- the gap and longer than the threshold late_launch_ns, which is no launching. It was late, too, when the call that launched a
-- kernel had begun before, but took more than half of a gap that is longer than the threshold kernel_wait_ns; and when that
-- call returned within the gap after longer than the threshold long_gap_ns, and the work began within twice as long after it:
-- the first launch of a kernel loads it, and the device begins some time after that. So it is with a copy or memset whose call had
-- returned when it began; a call that is longer may wait for it. Pages of managed memory that move without a
-- call while no kernel runs are touched by the CPU: the GPU has nothing to do because the CPU does something else.
-- A kernel is on its way to the device for some time, 5 to 10 us: one that comes as soon behind its launch as those that were
-- launched in a gap (the low decile of 20 or more, and a tenth more) came late, too, though its launch was over when the gap
-- began; unless the gap is no longer than the threshold near_kernel_ns.
--
-- The distance between two kernels is the device's own: twice the median of the gaps before kernels that were launched
-- already when the gap began, which is 1.3 to 3 us on NVIDIA's GPUs and next to nothing in AMD's traces; at most the
-- threshold kernel_wait_ns, and that threshold for a device with fewer than 20 such gaps.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device, NULL without
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   idle_ns     bigint    its length
--   cause       varchar   'host', 'dependency' or 'kernel_wait'
--   gpu_op_id   bigint    the operation that ended it
--   is_lead     boolean   whether it lies before the device's first work
--   process     bigint    the process of that operation, as _work_process has it
--   range_id    bigint    the range that owns the operation, NULL without
--   name_id     bigint    name of the operation

with
measured as materialized (
    select
        gap.source_id,
        gap.device_id,
        gap.start_ns,
        gap.end_ns,
        gap.end_ns - gap.start_ns as idle_ns,
        gap.gpu_op_id,
        gap.is_lead,
        coalesce(gpu_op.process_id, 0) as process,
        gpu_op.range_id,
        gpu_op.name_id,
        gpu_op.kind = 'kernel' as is_kernel,
        gap.end_ns - gpu_op.launch_start_ns as underway_ns,
        gpu_op.launch_start_ns is null
        and gpu_op.name_id in (select name_id from name where moves_pages(text)) as is_touched,
        coalesce(
            if(
                gpu_op.launch_start_ns >= gap.start_ns,
                gap.end_ns - gpu_op.launch_end_ns <= greatest(threshold.value, (gap.end_ns - gap.start_ns) / 2),
                (gpu_op.kind = 'kernel' or gpu_op.kind in ('memcpy', 'memset') and gpu_op.launch_end_ns <= gap.end_ns)
                and gap.end_ns - gap.start_ns > (select value from threshold where name = 'kernel_wait_ns')
                and 2 * (gpu_op.launch_end_ns - gap.start_ns) > gap.end_ns - gap.start_ns
            ),
            gpu_op.launch_start_ns >= gap.start_ns,
            false
        )
        or coalesce(
            (gpu_op.kind = 'kernel' or gpu_op.kind in ('memcpy', 'memset') and gpu_op.launch_end_ns <= gap.end_ns)
            and gpu_op.launch_end_ns > gap.start_ns
            and gpu_op.launch_end_ns - gpu_op.launch_start_ns > (select value from threshold where name = 'long_gap_ns')
            and gap.end_ns - gap.start_ns > (select value from threshold where name = 'kernel_wait_ns')
            and gap.end_ns - gpu_op.launch_end_ns <= 2 * (gpu_op.launch_end_ns - gpu_op.launch_start_ns),
            false
        ) as is_late
    from _idle_gap as gap
    join gpu_op using (gpu_op_id)
    join threshold on threshold.name = 'late_launch_ns'
),
latency as (
    select source_id, device_id, 1.1 * quantile_disc(underway_ns, 0.1) as latency_ns
    from measured
    where is_kernel and underway_ns <= idle_ns
    group by source_id, device_id
    having count(*) >= 20
),
gap as materialized (
    select
        measured.* exclude (is_late),
        is_late or coalesce(is_kernel and idle_ns > threshold.value and underway_ns <= latency.latency_ns, false) as is_late
    from measured
    join threshold on threshold.name = 'near_kernel_ns'
    left join latency on latency.source_id = measured.source_id and latency.device_id is not distinct from measured.device_id
),
distance as (
    select source_id, device_id, 2 * median(idle_ns) as kernel_wait_ns
    from gap
    where is_kernel and not is_late and not is_lead
    group by source_id, device_id
    having count(*) >= 20
)
select
    gap.source_id,
    gap.device_id,
    gap.start_ns,
    gap.end_ns,
    gap.idle_ns,
    case
        when gap.is_late then 'host'
        when gap.idle_ns <= least(threshold.value, distance.kernel_wait_ns) then 'kernel_wait'
        when gap.is_touched then 'host'
        else 'dependency'
    end::enum('host', 'dependency', 'kernel_wait') as cause,
    gap.gpu_op_id,
    gap.is_lead,
    gap.process,
    gap.range_id,
    gap.name_id
from gap
join threshold on threshold.name = 'kernel_wait_ns'
left join distance on distance.source_id = gap.source_id and distance.device_id = gap.device_id
