-- A row is a time in which a process was fetching input, by the name of an annotation (phase_of).
--
-- columns:
--   source_id   integer   the input
--   process     bigint    the process, as _work_process has it
--   thread_id   bigint    the thread
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   place       bigint    name path of the annotation

select range.source_id, own.process, range.thread_id, range.start_ns, range.end_ns, range.path_id as place
from range
join _work_process as own using (source_id, thread_id)
join _phase_name as said using (name_id)
where range.kind = 'annotation' and said.phase = 'data'
