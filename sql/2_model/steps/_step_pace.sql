-- A row is a step, how long it takes until the next one begins, and whether the CPU runs ahead of the GPU in its input.
--
-- What a program does between two steps on their thread is as much a part of the first as what it does inside: input that a
-- loop loads before it opens the range, logging behind it. Not so where the next step is not the next one: where
-- numbers leave some out, as a profiler does that records some steps of each hundred, or begin again, as in a new epoch; nor
-- where several threads of a process work at steps side by side: each waits for the next request.
--
--     CPU  | step 1 |  load  | step 2 |  load  | step 3 |
--          [     turn_ns     ][     turn_ns    ][  wall  ]
--
-- The CPU runs ahead where the steps together take it less than what they queue keeps a device busy, and where they take it
-- as long because it waits for room or for copies behind it: the device is busy for nine tenths of the time, and a tenth of
-- a step's work or more runs behind its end on the CPU. Steps that take the CPU more than 1.5 times the median are not asked,
-- as they may have loaded or compiled.
--
-- columns:
--   source_id     integer   the input
--   process_id    bigint    process of the step
--   thread_id     bigint    its thread
--   process       bigint    the process by which its GPU work is known (_work_process)
--   step_id       bigint    the step, as _step has it
--   step          bigint    its number
--   start_ns      bigint    begin
--   end_ns        bigint    end
--   turn_ns       bigint    until the next one begins, or its own duration where none follows
--   is_followed   boolean   whether one follows
--   busy_ns       bigint    time in which its GPU work keeps a device busy
--   is_ahead      boolean   whether the CPU runs ahead in its input
--   is_beside     boolean   whether several threads of its process work at steps side by side

with
next as (
    select
        step.*,
        own.process,
        lead(step.start_ns) over in_order as next_ns,
        lead(step.step) over in_order as next_step,
        max(step.end_ns) over (
            partition by step.source_id, step.process_id
            order by step.start_ns, step.step_id rows between unbounded preceding and 1 preceding
        ) > step.start_ns as begins_beside
    from _step as step
    left join _work_process as own on own.source_id = step.source_id and own.thread_id = step.thread_id
    window in_order as (
        partition by step.source_id, step.process_id, step.thread_id order by step.start_ns, step.step_id
    )
),
beside as (
    select *, coalesce(bool_or(begins_beside) over (partition by source_id, process_id), false) as is_beside
    from next
),
followed as (
    select
        *,
        not is_beside and coalesce(
            next_ns >= end_ns and (found_by <> 'annotation' or next_step = step or next_step = step + 1), false
        ) as is_followed
    from beside
),
busy as (
    select
        step.*,
        if(is_followed, next_ns, end_ns) - step.start_ns as turn_ns,
        (coalesce(work.gpu_busy_ns, 0) / greatest(1, device.device_cnt / device.process_cnt))::bigint as busy_ns,
        coalesce(1 - work.gpu_busy_inside_ns / nullif(work.gpu_busy_ns, 0), 0) as behind_frac
    from followed as step
    left join _step_work as work using (source_id, step_id)
    left join _device_cnt as device using (source_id)
),
asked as (
    select *, turn_ns <= 1.5 * median(turn_ns) over (partition by source_id) as is_asked
    from busy
)
select
    source_id,
    process_id,
    thread_id,
    process,
    step_id,
    step,
    start_ns,
    end_ns,
    turn_ns::bigint as turn_ns,
    is_followed,
    busy_ns,
    coalesce(
        sum(busy_ns) filter (is_asked) over of_input
        > if(
            sum(busy_ns * behind_frac) filter (is_asked) over of_input > 0.1 * sum(busy_ns) filter (is_asked) over of_input,
            0.9, 1
        ) * sum(turn_ns) filter (is_asked) over of_input,
        false
    ) as is_ahead,
    is_beside
from asked
window of_input as (partition by source_id)
