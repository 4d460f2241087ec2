-- A row is what GPU work one range accounts for; a range without GPU work has none. The definition of range_measure.
--
-- Computed pair by pair, which takes seconds for each million of operations: the table range_measure holds the same, filled
-- from arrays. `lorabench validate --definitions` holds one against the other.
--
-- columns:
--   range_id             bigint     the range
--   gpu_op_cnt           bigint     GPU operations, nested ranges included
--   kernel_cnt           bigint     kernels among them
--   launch_cnt           bigint     launching calls
--   launch_api_ns        bigint     summed duration of the launching calls, each once
--   queue_ns             bigint     summed max(0, start on the GPU - end of the launching call)
--   launch_latency_ns    bigint     summed start on the GPU - start of the launching call
--   gpu_op_ns            bigint     summed duration of the GPU operations
--   kernel_ns            bigint     summed duration of the kernels
--   gpu_busy_ns          bigint     length of the union of the GPU operations' intervals, per device, added up
--   first_gpu_start_ns   bigint     start of the first GPU operation
--   last_gpu_end_ns      bigint     end of the last GPU operation
--   gpu_busy_inside_ns   bigint     length of the union of the GPU operations' intervals cut to the range's own extent,
--         all devices as one

with
work as (
    select
        reached_range.range_id,
        gpu_op.*,
        range.start_ns as range_start_ns,
        range.end_ns as range_end_ns
    from reached_range
    join gpu_op using (gpu_op_id)
    join range on range.range_id = reached_range.range_id
),
summed as (
    select
        work.range_id,
        count(*) as gpu_op_cnt,
        count(*) filter (kind = 'kernel') as kernel_cnt,
        count(*) filter (is_first_op) as launch_cnt,
        coalesce(sum(launch_end_ns - launch_start_ns) filter (is_first_op), 0)::bigint as launch_api_ns,
        sum(greatest(0, start_ns - launch_end_ns))::bigint as queue_ns,
        sum(start_ns - launch_start_ns)::bigint as launch_latency_ns,
        sum(end_ns - start_ns)::bigint as gpu_op_ns,
        coalesce(sum(end_ns - start_ns) filter (kind = 'kernel'), 0)::bigint as kernel_ns,
        min(start_ns) as first_gpu_start_ns,
        max(end_ns) as last_gpu_end_ns
    from work
    group by work.range_id
),
-- of each operation what no earlier one of the range covers on its device
fresh as (
    select
        work.range_id,
        greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) over earlier, start_ns))) as fresh_ns
    from work
    window earlier as (
        partition by work.range_id, device_id
        order by start_ns, gpu_op_id
        rows between unbounded preceding and 1 preceding
    )
),
inside as (
    select
        work.range_id,
        gpu_op_id,
        greatest(start_ns, range_start_ns) as start_ns,
        least(end_ns, range_end_ns) as end_ns
    from work
    where end_ns > range_start_ns and start_ns < range_end_ns
),
fresh_inside as (
    select
        inside.range_id,
        greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) over earlier, start_ns))) as fresh_ns
    from inside
    window earlier as (
        partition by inside.range_id
        order by start_ns, gpu_op_id
        rows between unbounded preceding and 1 preceding
    )
)
select
    summed.range_id,
    gpu_op_cnt,
    kernel_cnt,
    launch_cnt,
    launch_api_ns,
    queue_ns,
    launch_latency_ns,
    gpu_op_ns,
    kernel_ns,
    busy.gpu_busy_ns,
    first_gpu_start_ns,
    last_gpu_end_ns,
    coalesce(busy_inside.gpu_busy_inside_ns, 0)::bigint as gpu_busy_inside_ns
from summed
join (
    select fresh.range_id, sum(fresh_ns)::bigint as gpu_busy_ns
    from fresh
    group by fresh.range_id
) as busy using (range_id)
left join (
    select fresh_inside.range_id, sum(fresh_ns)::bigint as gpu_busy_inside_ns
    from fresh_inside
    group by fresh_inside.range_id
) as busy_inside using (range_id)
