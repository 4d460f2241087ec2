-- A row is a range or a CUDA call as a slice of a thread, for other viewers (--perfetto).
--
-- columns:
--   source_id     integer   the input
--   thread_id     bigint    the thread
--   start_ns      bigint    begin
--   end_ns        bigint    end
--   kind          varchar   the kind of range, or 'call'
--   name_id       bigint    its text
--   path_id       bigint    the path of a range, -1 of a call
--   api_call_id   bigint    the call, -1 of a range

select source_id, thread_id, start_ns, end_ns, kind::varchar as kind, text_id as name_id, path_id, -1 as api_call_id
from range
union all
select source_id, thread_id, start_ns, end_ns, 'call', name_id, -1, api_call_id
from api_call
where not is_duplicate
