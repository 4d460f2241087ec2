-- A row is a call that waits for one stream, which CUPTI says of it, and that stream.
--
-- columns:
--   source_id    integer   the input
--   api_call_id  bigint    the call
--   process      bigint    the stream's process, as _work_process has it
--   stream_id    bigint    the stream

select call.source_id, call.api_call_id, any_value(own.process) as process, any_value(sync.stream_id) as stream_id
from api_call as call
join _work_process as own on own.source_id = call.source_id and own.thread_id = call.thread_id
join sync
    on sync.source_id = call.source_id
    and sync.correlation_id = call.correlation_id
    and coalesce(sync.process_id, own.process) = own.process
where sync.kind = 'stream'
group by call.source_id, call.api_call_id
