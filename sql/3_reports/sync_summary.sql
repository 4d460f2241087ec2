-- A row is one kind of wait for the GPU in one range: how long the CPU was blocked.
--
-- Counted are calls that wait for a device, a stream or an event, copies and memsets that last until they are done (from or
-- to pageable memory the asynchronous ones do, too), and launches that wait because the queue is full ('queue': the time
-- beyond what such a launch usually takes). The range is the innermost around the wait on its own thread.
--
-- columns:
--   kind        varchar   'device', 'stream', 'event', 'memcpy', 'memset' or 'queue'
--   api_name    varchar   the call
--   path        varchar   name path of the range, NULL without one
--   call_cnt    bigint    calls
--   call_ns     bigint    their summed duration: time that the CPU was blocked
--   mean_ns     double    mean duration
--   max_ns      bigint    longest
--   in_step_cnt bigint    calls that lie within a step of their process, on whatever thread
--   source_id   integer   the input, see trace_info
--   rank        integer   rank of the input, NULL if not recorded

with
in_step as (
    select call.api_call_id
    from (
        select call.*, coalesce(thread.process_id, 0) as process
        from _sync_call as call
        join thread using (source_id, thread_id)
    ) as call
    asof join (select source_id, coalesce(process_id, 0) as process, start_ns, end_ns from _step) as step
        on step.source_id = call.source_id
        and step.process = call.process
        and step.start_ns <= call.start_ns
    where call.end_ns <= step.end_ns
)
select
    call.kind,
    call.api_name,
    range_path.path,
    count(*) as call_cnt,
    sum(call.end_ns - call.start_ns)::bigint as call_ns,
    avg(call.end_ns - call.start_ns) as mean_ns,
    max(call.end_ns - call.start_ns) as max_ns,
    count(*) filter (in_step.api_call_id is not null) as in_step_cnt,
    call.source_id,
    any_value(source.rank) as rank
from _sync_call as call
join source on source.source_id = call.source_id
left join in_step using (api_call_id)
left join range using (range_id)
left join range_path using (path_id)
group by call.source_id, call.kind, call.api_name, range_path.path
order by call.source_id, call_ns desc, call.kind, call.api_name, range_path.path
