-- A row is one device in one time bin: how much of the bin it was busy, and with what.
--
-- The window of an input's GPU work is cut into as many equal bins as the threshold time_bin_cnt says. Times are lengths
-- of unions; over all bins they add up to those of gpu_timeline_summary. (nsys: gpu_time_util.)
--
-- columns:
--   device_id          integer   the device
--   bin                bigint    number of the bin, from 0
--   start_ns           bigint    its begin
--   end_ns             bigint    its end
--   busy_ns            bigint    time with any work
--   compute_ns         bigint    time with kernels that do not communicate, or graphs
--   communication_ns   bigint    time with communication kernels
--   memory_ns          bigint    time with copies or memsets
--   busy_frac          double    busy_ns / length of the bin
--   source_id          integer   the input, see trace_info
--   rank               integer   rank of the input, NULL where it does not say

with
device_bin as (
    select bin.*, used.device_id
    from _time_bin as bin
    join (select distinct source_id, device_id from gpu_op) as used using (source_id)
),
part as (
    select
        device_bin.source_id,
        device_bin.device_id,
        device_bin.bin,
        activity.activity,
        sum(least(activity.end_ns, device_bin.end_ns) - greatest(activity.start_ns, device_bin.start_ns)) as length_ns
    from device_bin
    join _device_activity as activity
        on activity.source_id = device_bin.source_id
        and activity.device_id is not distinct from device_bin.device_id
        and activity.start_ns < device_bin.end_ns
        and activity.end_ns > device_bin.start_ns
    group by all
),
sums as (
    select
        source_id,
        device_id,
        bin,
        sum(length_ns) filter (activity = 'busy') as busy_ns,
        sum(length_ns) filter (activity = 'compute') as compute_ns,
        sum(length_ns) filter (activity = 'communication') as communication_ns,
        sum(length_ns) filter (activity = 'memory') as memory_ns
    from part
    group by all
)
select
    device_bin.device_id,
    device_bin.bin,
    device_bin.start_ns,
    device_bin.end_ns,
    coalesce(sums.busy_ns, 0)::bigint as busy_ns,
    coalesce(sums.compute_ns, 0)::bigint as compute_ns,
    coalesce(sums.communication_ns, 0)::bigint as communication_ns,
    coalesce(sums.memory_ns, 0)::bigint as memory_ns,
    coalesce(sums.busy_ns, 0) / nullif(device_bin.end_ns - device_bin.start_ns, 0) as busy_frac,
    device_bin.source_id,
    source.rank
from device_bin
join source on source.source_id = device_bin.source_id
left join sums
    on sums.source_id = device_bin.source_id
    and sums.device_id is not distinct from device_bin.device_id
    and sums.bin = device_bin.bin
order by device_bin.source_id, device_bin.device_id, device_bin.bin
