-- A row is a step of a thread, and whether predictions are about it: cold ones before the first that counts are not judged.
--
-- columns:
--   source_id   integer   the input
--   thread_id   bigint    the thread
--   step        bigint    number of the step
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   is_judged   boolean   whether it is not cold (_steady_time)

select
    source_id,
    step.thread_id,
    step.step,
    step.start_ns,
    step.end_ns,
    step.start_ns >= coalesce(steady.first_step_ns, step.start_ns) as is_judged
from _step as step
join _steady_time as steady using (source_id)
where step.thread_id is not null
