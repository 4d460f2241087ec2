-- A row is the first operation that a thread launches behind a function of the CPU that it put into a stream: it may wait for that.
--
-- columns:
--   gpu_op_id   bigint   the operation

with
hosted as (
    select call.source_id, call.thread_id, call.start_ns
    from api_call as call
    semi join (select name_id from name where regexp_matches(text, 'LaunchHostFunc|StreamAddCallback')) as named using (name_id)
    where not call.is_duplicate
),
launch as (
    select call.source_id, call.thread_id, call.start_ns, min(op.gpu_op_id) as gpu_op_id
    from api_call as call
    semi join (select distinct thread_id from hosted) as own using (thread_id)
    join gpu_op as op using (api_call_id)
    group by all
)
select distinct launch.gpu_op_id
from hosted
asof join launch
    on launch.source_id = hosted.source_id and launch.thread_id = hosted.thread_id and launch.start_ns > hosted.start_ns
