-- A row is a step and how long it takes.
--
-- That is the time until the next one begins (_step_pace). A CPU that runs ahead enqueues a step and leaves it to the GPU:
-- there it is from when the GPU is done with the step before to when it is done with it, of the first of them from its own
-- begin. Elsewhere one that none follows takes at least as long as its work on a device: where no range is the step, it
-- ends with its last launch.
--
--     CPU  | step 1 || step 2 || step 3 |               7.5 ms each: what launching takes
--     GPU    [     step 1      ][     step 2      ][    22.6 ms each: how long steps are
--
-- columns:
--   source_id    integer   the input
--   step_id      bigint    the step, as _step has it
--   length_ns    bigint    how long it takes
--   between_ns   bigint    of its time on the CPU what is behind its end and before the next one; NULL where none follows
--   own_ns       bigint    how long it takes without what is between the steps: its time on the CPU, or on the GPU that is behind
--   is_ahead     boolean   whether the CPU runs ahead in its input

with
done as (
    select
        pace.*,
        step.start_ns as since_ns,
        step.end_ns as done_ns,
        lag(step.end_ns) over in_order as before_ns,
        lag(pace.is_followed) over in_order as is_next
    from _step_pace as pace
    join _step_window as step using (source_id, step_id)
    window in_order as (
        partition by pace.source_id, pace.process_id, pace.thread_id order by pace.start_ns, pace.step_id
    )
)
select
    source_id,
    step_id,
    case
        when is_ahead then done_ns - if(is_next, before_ns, since_ns)
        when is_followed and not is_ahead then turn_ns
        else greatest(end_ns - start_ns, busy_ns)
    end::bigint as length_ns,
    if(is_followed, turn_ns - (end_ns - start_ns), null)::bigint as between_ns,
    if(
        is_ahead or start_ns = max(start_ns) over (partition by source_id),
        greatest(end_ns - start_ns, busy_ns),
        end_ns - start_ns
    )::bigint as own_ns,
    is_ahead
from done
