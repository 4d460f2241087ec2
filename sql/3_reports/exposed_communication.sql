-- A row is how long one process group makes a device wait: communication during which nothing computes.
--
-- Each instant with communication and without compute is shared equally by the groups that communicate then, so the rows
-- of a device add up to its exposed_communication_ns in gpu_timeline_summary, of an input without GPU work to that in
-- rank_summary. What communicates in a group that nobody recorded, as gloo does on CPUs, is one group, NULL.
--
-- columns:
--   group_name                 varchar   the process group, NULL if not recorded
--   group_description          varchar   what the group is for, NULL if not recorded
--   device_id                  integer   the device, NULL on CPUs
--   kernel_cnt                 bigint    its kernels, on CPUs how often it communicates
--   communication_ns           bigint    time in which it communicates
--   exposed_communication_ns   double    its share of the time in which communication runs and nothing computes
--   exposed_frac               double    exposed_communication_ns / communication_ns
--   source_id                  integer   the input, see trace_info
--   rank                       integer   rank of the input, NULL if not recorded

with
grouped as (
    select source_id, device_id, stream_id, work_start_ns, work_end_ns, group_name, group_description
    from collective
    where work_cnt > 0
),
kernel as (
    select
        op.source_id,
        coalesce(op.device_id, -1) as device,
        op.gpu_op_id,
        op.start_ns,
        op.end_ns,
        if(op.end_ns <= grouped.work_end_ns, grouped.group_name, null) as group_name,
        if(op.end_ns <= grouped.work_end_ns, grouped.group_description, null) as group_description
    from (
        select found.*, gpu_op.stream_id
        from _classed_op as found
        join gpu_op using (gpu_op_id)
        where found.class = 'communication' and found.kind not in ('memcpy', 'memset')
    ) as op
    asof left join grouped
        on grouped.source_id = op.source_id
        and grouped.device_id = op.device_id
        and grouped.stream_id = op.stream_id
        and grouped.work_start_ns <= op.start_ns
    union all
    select source_id, -1, null, start_ns, end_ns, null, null
    from _cpu_activity
    where activity = 'communication'
),
marked as (
    select
        *,
        max(end_ns) over (
            partition by source_id, device, group_name
            order by start_ns, gpu_op_id
            rows between unbounded preceding and 1 preceding
        ) as ended_ns,
        max(end_ns) over (partition by source_id, device, group_name) as last_end_ns
    from kernel
),
-- when each group communicates, without gaps
stretch as materialized (
    select
        source_id,
        device,
        group_name,
        start_ns,
        coalesce(
            lead(ended_ns) over (partition by source_id, device, group_name order by start_ns), last_end_ns
        ) as end_ns
    from marked
    where ended_ns is null or start_ns > ended_ns
),
change as (
    select source_id, device, unnest([start_ns, end_ns]) as time_ns, unnest([1, -1]) as group_cnt, 0 as compute_cnt
    from stretch
    union all
    select source_id, coalesce(device_id, -1), unnest([start_ns, end_ns]), 0, unnest([1, -1])
    from _device_activity
    where activity = 'compute' and source_id in (select source_id from stretch)
    union all
    select source_id, -1, unnest([start_ns, end_ns]), 0, unnest([1, -1])
    from _cpu_activity
    where activity = 'compute'
),
moment as (
    select source_id, device, time_ns, sum(group_cnt) as group_cnt, sum(compute_cnt) as compute_cnt
    from change
    group by source_id, device, time_ns
),
held as (
    select
        source_id,
        device,
        time_ns,
        lead(time_ns) over (partition by source_id, device order by time_ns) - time_ns as length_ns,
        sum(group_cnt) over so_far as group_cnt,
        sum(compute_cnt) over so_far as compute_cnt
    from moment
    window so_far as (partition by source_id, device order by time_ns rows unbounded preceding)
),
-- what a group that communicates all the time would have been given until each moment
share as (
    select
        source_id,
        device,
        time_ns,
        sum(if(group_cnt > 0 and compute_cnt = 0, length_ns / group_cnt, 0.0)) over (
            partition by source_id, device order by time_ns rows between unbounded preceding and 1 preceding
        ) as share_ns
    from held
),
shared as (
    select
        stretch.source_id,
        stretch.device,
        stretch.group_name,
        sum(stretch.end_ns - stretch.start_ns)::bigint as communication_ns,
        sum(coalesce(until.share_ns, 0) - coalesce(since.share_ns, 0)) as exposed_communication_ns
    from stretch
    join share as since
        on since.source_id = stretch.source_id and since.device = stretch.device and since.time_ns = stretch.start_ns
    join share as until
        on until.source_id = stretch.source_id and until.device = stretch.device and until.time_ns = stretch.end_ns
    group by stretch.source_id, stretch.device, stretch.group_name
),
counted as (
    select source_id, device, group_name, any_value(group_description) as group_description, count(*) as kernel_cnt
    from kernel
    group by source_id, device, group_name
)
select
    shared.group_name,
    counted.group_description,
    nullif(shared.device, -1) as device_id,
    counted.kernel_cnt,
    shared.communication_ns,
    shared.exposed_communication_ns,
    shared.exposed_communication_ns / nullif(shared.communication_ns, 0) as exposed_frac,
    shared.source_id,
    source.rank
from shared
join counted
    on counted.source_id = shared.source_id
    and counted.device = shared.device
    and counted.group_name is not distinct from shared.group_name
join source on source.source_id = shared.source_id
order by shared.source_id, shared.device, shared.exposed_communication_ns desc, shared.group_name
