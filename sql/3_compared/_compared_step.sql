-- A row is a step of a process, and what decides which others it is compared with.
--
-- Steps that do as much are of one kind: those that learn, those that only evaluate, micro steps without an optimizer.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    the process, as _work_process has it
--   step        bigint    its number
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   kind        integer   1 without a backward, 2 without an optimizer, 3 without either, 0 with both
--   is_warm     boolean   whether all steps of its number count as warm (_steady_time)

select
    source_id,
    own.process,
    step.step,
    step.start_ns,
    step.end_ns,
    (phase.backward_ns is null)::integer + 2 * (phase.optimizer_ns is null)::integer as kind,
    coalesce(min(step.start_ns) over (partition by source_id, step.step) >= steady.first_step_ns, true) as is_warm
from _step as step
join _work_process as own using (source_id, thread_id)
left join _step_phase as phase using (source_id, step_id)
left join _steady_time as steady using (source_id)
