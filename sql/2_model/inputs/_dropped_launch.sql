-- A row is a call that launched a kernel which is not in the file, though one that the process launched later is.
--
-- The recorder dropped it, or the call failed. What is launched while a graph is captured does not run.
--
-- columns:
--   source_id     integer   the input
--   process_id    bigint    the process
--   start_ns      bigint    begin of the call

with
capture as (
    select call.source_id, thread.process_id, call.start_ns, contains(name.text, 'StreamBeginCapture') as is_begin
    from api_call as call
    join name using (name_id)
    join thread using (source_id, thread_id)
    where contains(name.text, 'StreamBeginCapture') or contains(name.text, 'StreamEndCapture')
),
called as (
    select call.source_id, thread.process_id, call.start_ns
    from api_call as call
    anti join gpu_op on gpu_op.api_call_id = call.api_call_id
    join thread using (source_id, thread_id)
    join _last_launch as last on last.source_id = call.source_id and coalesce(last.process_id, thread.process_id) = thread.process_id
    where not call.is_duplicate
        and call.name_id in (select name_id from name where launches_kernels(text))
        and call.start_ns <= last.start_ns
        and call.source_id in (select source_id from _launch_surplus)
)
select called.*
from called
asof left join capture
    on capture.source_id = called.source_id
    and capture.process_id is not distinct from called.process_id
    and capture.start_ns <= called.start_ns
where not coalesce(capture.is_begin, false)
