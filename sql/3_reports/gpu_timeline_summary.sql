-- A row is one device: how much of its time went into compute, communication, memory copies and nothing.
--
-- Times are lengths of unions, so work that overlaps counts once. compute_ns + exposed_communication_ns +
-- exposed_memory_ns + idle_ns = window_ns exactly: communication is exposed where nothing computes, memory where
-- neither computes nor communicates (as in Meta's HTA and AMD's TraceLens). The window goes from the start of the
-- device's first work to the end of its last.
--
-- columns:
--   device_id                  integer   the device
--   device_name                varchar   its name, NULL if not recorded
--   window_ns                  bigint    from the first work to the end of the last
--   busy_ns                    bigint    time with any work
--   idle_ns                    bigint    window_ns - busy_ns; idle_summary says why
--   compute_ns                 bigint    time with kernels that do not communicate, or graphs
--   communication_ns           bigint    time with communication kernels
--   memory_ns                  bigint    time with copies or memsets
--   exposed_communication_ns   bigint    time with communication and without compute
--   exposed_memory_ns          bigint    time with copies or memsets and nothing else
--   busy_frac                  double    busy_ns / window_ns: the device's utilization
--   overlap_frac               double    communication hidden behind compute / communication_ns, NULL without any
--   gpu_op_cnt                 bigint    kernels, copies, memsets and graphs
--   source_id                  integer   the input, see trace_info
--   rank                       integer   rank of the input, NULL if not recorded

with
length as (
    select
        source_id,
        device_id,
        coalesce(sum(end_ns - start_ns) filter (activity = 'busy'), 0) as busy_ns,
        coalesce(sum(end_ns - start_ns) filter (activity = 'compute'), 0) as compute_ns,
        coalesce(sum(end_ns - start_ns) filter (activity = 'communication'), 0) as communication_ns,
        coalesce(sum(end_ns - start_ns) filter (activity = 'memory'), 0) as memory_ns,
        coalesce(sum(end_ns - start_ns) filter (activity = 'compute or communication'), 0) as active_ns
    from _device_activity
    group by all
),
extent as (
    select source_id, device_id, max(end_ns) - min(start_ns) as window_ns, count(*) as gpu_op_cnt
    from gpu_op
    group by all
)
select
    length.device_id,
    device.name as device_name,
    extent.window_ns,
    length.busy_ns::bigint as busy_ns,
    (extent.window_ns - length.busy_ns)::bigint as idle_ns,
    length.compute_ns::bigint as compute_ns,
    length.communication_ns::bigint as communication_ns,
    length.memory_ns::bigint as memory_ns,
    (length.active_ns - length.compute_ns)::bigint as exposed_communication_ns,
    (length.busy_ns - length.active_ns)::bigint as exposed_memory_ns,
    length.busy_ns / nullif(extent.window_ns, 0) as busy_frac,
    1 - (length.active_ns - length.compute_ns) / nullif(length.communication_ns, 0) as overlap_frac,
    extent.gpu_op_cnt,
    length.source_id,
    source.rank
from length
join extent
    on extent.source_id = length.source_id
    and extent.device_id is not distinct from length.device_id
join source on source.source_id = length.source_id
left join device on device.source_id = length.source_id and device.device_id = length.device_id
order by length.source_id, length.device_id
