-- A row is what GPU work a step accounts for; a step without any has none.
--
-- Of a step that is a range what the range accounts for. Of a stretch of time what its process launches in it; an
-- operation without a launching call counts where it begins.
--
-- columns:
--   source_id            integer   the input
--   step_id              bigint    the step, as _step has it
--   launch_cnt           bigint    launching calls of its GPU work
--   launch_api_ns        bigint    their summed duration
--   launch_wait_ns       bigint    how much of it they waited for the GPU (_call_wait)
--   kernel_cnt           bigint    kernels
--   kernel_ns            bigint    their summed duration
--   gpu_busy_ns          bigint    time in which its GPU work ran, per device, added up
--   gpu_busy_inside_ns   bigint    time of the step in which its GPU work ran, all devices as one

with
step as materialized (select * from _step),
stretch as (
    select
        step.source_id,
        step.step_id,
        if(kind_has_one_process(source.kind), 0, coalesce(step.process_id, 0)) as process,
        step.start_ns,
        step.end_ns
    from step
    join source using (source_id)
    where step.range_id is null
),
op as (
    select
        source_id, coalesce(process_id, 0) as process, kind, coalesce(device_id, -1) as device, gpu_op_id, start_ns, end_ns,
        is_first_op, launch_start_ns, launch_end_ns, wait_ns, coalesce(launch_start_ns, start_ns) as time_ns
    from gpu_op
    left join _call_wait using (api_call_id)
    where source_id in (select source_id from stretch)
),
of_step as (
    select op.*, stretch.step_id, stretch.start_ns as step_start_ns, stretch.end_ns as step_end_ns
    from op
    asof join stretch
        on stretch.source_id = op.source_id
        and stretch.process = op.process
        and stretch.start_ns <= op.time_ns
    where op.time_ns < stretch.end_ns
),
followed as (
    select
        *,
        max(end_ns) over (
            partition by source_id, step_id, device order by start_ns, gpu_op_id rows between unbounded preceding and 1 preceding
        ) as done_ns,
        max(end_ns) over (
            partition by source_id, step_id order by start_ns, gpu_op_id rows between unbounded preceding and 1 preceding
        ) as all_done_ns
    from of_step
)
select
    source_id,
    step_id,
    count(*) filter (is_first_op) as launch_cnt,
    coalesce(sum(launch_end_ns - launch_start_ns) filter (is_first_op), 0)::bigint as launch_api_ns,
    coalesce(sum(wait_ns) filter (is_first_op), 0)::bigint as launch_wait_ns,
    count(*) filter (kind = 'kernel') as kernel_cnt,
    coalesce(sum(end_ns - start_ns) filter (kind = 'kernel'), 0)::bigint as kernel_ns,
    sum(greatest(0, end_ns - greatest(start_ns, coalesce(done_ns, start_ns))))::bigint as gpu_busy_ns,
    sum(
        greatest(
            0, least(end_ns, step_end_ns) - greatest(start_ns, step_start_ns, coalesce(all_done_ns, step_start_ns))
        )
    )::bigint as gpu_busy_inside_ns
from followed
group by source_id, step_id
union all
select
    step.source_id,
    step.step_id,
    measure.launch_cnt,
    measure.launch_api_ns,
    coalesce(waiting.wait_ns, 0) as launch_wait_ns,
    measure.kernel_cnt,
    measure.kernel_ns,
    measure.gpu_busy_ns,
    measure.gpu_busy_inside_ns
from step
join range on range.source_id = step.source_id and range.range_id = step.range_id
join range_measure as measure on measure.range_id = step.range_id
left join _range_wait as waiting on waiting.range_id = step.range_id
