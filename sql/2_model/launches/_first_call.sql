-- A row is the first recorded CUDA call of a process: its correlation id and when it began.
--
-- A Kineto trace does not say which process GPU work belongs to: its one row has process_id NULL.
--
-- columns:
--   source_id        integer   the input
--   process_id       bigint    the process, NULL if not recorded (Kineto)
--   correlation_id   bigint    correlation id of the call, the lowest of the process
--   start_ns         bigint    begin

select
    api_call.source_id,
    if(kind_has_one_process(source.kind), null, thread.process_id) as process_id,
    min(api_call.correlation_id) as correlation_id,
    min(api_call.start_ns) as start_ns
from api_call
join thread using (source_id, thread_id)
join source using (source_id)
group by all
