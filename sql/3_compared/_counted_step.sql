-- A row is a step of an input as it is counted: those of one number are one, of adapters in turn and of processes beside each
-- other.
--
-- columns:
--   source_id   integer   the input
--   step        bigint    its number
--   is_warm     boolean   whether all of it counts as warm (_steady_time)

select
    source_id,
    step.step,
    min(step.start_ns) >= coalesce(any_value(steady.first_step_ns), min(step.start_ns)) as is_warm
from step_summary as step
left join _steady_time as steady using (source_id)
group by source_id, step.step
