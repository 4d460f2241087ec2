-- A row is a call of the CUDA API and what api_summary adds up of it.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    the process of its thread, as _work_process has it
--   at_ns       bigint    its start
--   key         bigint    its name
--   call_ns     bigint    how long it took
--   call_cnt    integer   1

select
    call.source_id,
    own.process,
    call.start_ns as at_ns,
    call.name_id as key,
    call.end_ns - call.start_ns as call_ns,
    1 as call_cnt
from api_call as call
left join _work_process as own on own.source_id = call.source_id and own.thread_id = call.thread_id
where not call.is_duplicate
