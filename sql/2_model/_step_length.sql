-- A row is a step and how long it takes.
--
-- A CPU that runs ahead enqueues a step and leaves it to the GPU: where the steps of an input together take the CPU less
-- than what they queue keeps a device busy, each takes at least as long as that; those that take the CPU more than 1.5 times
-- the median are not asked, as they may have loaded or compiled. So does the last in any case: where no
-- range is the step, it ends with its last launch.
--
--     CPU  | step 1 || step 2 || step 3 |               7.5 ms each: what launching takes
--     GPU    [     step 1      ][     step 2      ][    22.6 ms each: how long steps are
--
-- columns:
--   source_id   integer   the input
--   step_id     bigint    the step, as _step has it
--   length_ns   bigint    how long it takes
--   is_ahead    boolean   whether the CPU runs ahead in its input

with
busy as (
    select
        step.source_id,
        step.step_id,
        step.start_ns,
        step.end_ns - step.start_ns as wall_ns,
        (coalesce(work.gpu_busy_ns, 0) / greatest(1, device.device_cnt / device.process_cnt))::bigint as busy_ns
    from _step as step
    left join _step_work as work using (step_id)
    left join (
        select source_id, count(distinct device_id) as device_cnt, count(distinct coalesce(process_id, 0)) as process_cnt
        from gpu_op
        group by source_id
    ) as device using (source_id)
),
asked as (
    select *, wall_ns <= 1.5 * median(wall_ns) over (partition by source_id) as is_asked
    from busy
),
judged as (
    select
        *,
        sum(busy_ns) filter (is_asked) over (partition by source_id)
        > sum(wall_ns) filter (is_asked) over (partition by source_id) as is_ahead
    from asked
)
select
    source_id,
    step_id,
    if(
        is_ahead or start_ns = max(start_ns) over (partition by source_id),
        greatest(wall_ns, coalesce(busy_ns, 0)),
        wall_ns
    )::bigint as length_ns,
    coalesce(is_ahead, false) as is_ahead
from judged
