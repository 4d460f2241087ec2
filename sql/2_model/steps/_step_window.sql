-- A row is a step and the time in which it decides how long its input takes.
--
-- That is its own time; where the CPU runs ahead (_step_pace), from when the GPU is done with the step before to when it is
-- done with it. What was launched before the first one is none of its time; so was what no launch is recorded of and what
-- begins before all on its stream whose launch is. Where the first work of the first step begins more than a millisecond
-- later than its launch and all that was launched before, it waited for what was not recorded (as in the replay).
--
-- columns:
--   source_id    integer   the input
--   process_id   bigint    process of the step
--   thread_id    bigint    its thread
--   step_id      bigint    the step, as _step has it
--   step         bigint    its number
--   start_ns     bigint    begin
--   end_ns       bigint    end

with
ahead as (
    select source_id, step_id, process, start_ns, if(is_followed, null, end_ns) as until_ns
    from _step_pace
    where is_ahead
),
begun as (
    select source_id, process_id, device_id, stream_id, min(start_ns) as since_ns
    from gpu_op
    where launch_start_ns is not null and source_id in (select source_id from ahead)
    group by all
),
work as (
    select
        op.source_id,
        op.start_ns,
        op.end_ns,
        op.launch_end_ns,
        coalesce(op.launch_start_ns, if(op.start_ns < begun.since_ns, -4611686018427387904, op.start_ns)) as launch_ns,
        coalesce(op.process_id, 0) as process
    from gpu_op as op
    left join begun
        on begun.source_id = op.source_id
        and begun.process_id is not distinct from op.process_id
        and begun.device_id is not distinct from op.device_id
        and begun.stream_id is not distinct from op.stream_id
    where op.source_id in (select source_id from ahead)
),
done as (
    select ahead.source_id, ahead.step_id, max(op.end_ns) as end_ns
    from work as op
    asof join ahead
        on ahead.source_id = op.source_id and ahead.process = op.process and ahead.start_ns <= op.launch_ns
    where coalesce(op.launch_ns <= ahead.until_ns, true)  -- what is launched behind the last one is none of it
    group by all
),
first as (
    select source_id, process, min(start_ns) as start_ns
    from ahead
    group by all
),
before as (
    select first.source_id, first.process, max(op.end_ns) as end_ns
    from first
    join work as op
        on op.source_id = first.source_id and op.process = first.process and op.launch_ns < first.start_ns
    group by all
),
queued as (
    select
        first.source_id,
        first.process,
        arg_min(op.start_ns, (op.launch_ns, op.start_ns)) as start_ns,
        arg_min(op.launch_end_ns, (op.launch_ns, op.start_ns)) as launch_end_ns
    from first
    join work as op
        on op.source_id = first.source_id and op.process = first.process and op.launch_ns >= first.start_ns
    where op.launch_end_ns is not null
    group by all
),
ended as (
    select
        step.*,
        max(greatest(step.end_ns, coalesce(done.end_ns, step.end_ns))) over (
            partition by step.source_id, step.process_id, step.thread_id
            order by step.start_ns, step.step_id rows unbounded preceding
        ) as done_ns,
        -- when the GPU has done what was launched before all steps
        if(
            queued.start_ns - greatest(queued.launch_end_ns, before.end_ns) > 1000000,
            queued.start_ns,
            coalesce(before.end_ns, step.start_ns)
        ) as free_ns
    from _step_pace as step
    left join done using (source_id, step_id)
    left join before on before.source_id = step.source_id and before.process = step.process
    left join queued on queued.source_id = step.source_id and queued.process = step.process
)
select
    source_id,
    process_id,
    thread_id,
    step_id,
    step,
    if(
        is_ahead,
        greatest(start_ns, coalesce(lag(done_ns) over in_order, least(free_ns, done_ns))),
        start_ns
    ) as start_ns,
    if(is_ahead, done_ns, end_ns) as end_ns
from ended
window in_order as (partition by source_id, process_id, thread_id order by start_ns, step_id)
