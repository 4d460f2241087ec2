-- A row is a time in which a thread of an input without GPU work was in an operator, for the macro merged.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    the process, as _work_process has it
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   place       bigint    name path of the operator

select range.source_id, own.process, range.start_ns, range.end_ns, range.path_id as place
from range
join _work_process as own using (source_id, thread_id)
left join range as parent on parent.range_id = range.parent_id
where range.kind = 'operator'
    and parent.kind is distinct from 'operator'
    and range.source_id not in (from _source_with_gpu)
