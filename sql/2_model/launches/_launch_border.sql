-- A row is a moment between two launches of a process that no kernel reaches across: a step begins, or the CPU has waited for the GPU.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    the process, as _work_process has it
--   at_ns       bigint    when

select own.source_id, own.process, step.start_ns as at_ns
from _step as step
join _work_process as own on own.source_id = step.source_id and own.thread_id = step.thread_id
union
select source_id, process, end_ns
from _gap_wait
