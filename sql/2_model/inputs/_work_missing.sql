-- A row is an input whose last launches have no GPU work: the recording ended before the GPU came to them.
--
-- At least ten, behind the last launch of their process whose work is there, and a hundredth of all. While a CUDA graph is captured nothing
-- runs; an input that captures behind its last work has no row.
--
-- columns:
--   source_id     integer   the input
--   missing_cnt   bigint    such calls
--   launch_cnt    bigint    all calls that launch a kernel

with
capture as (
    select source_id, max(end_ns) as end_ns
    from api_call
    where name_id in (select name_id from name where contains(text, 'StreamEndCapture'))
    group by source_id
)
select
    call.source_id,
    count(*) filter (call.start_ns > last.start_ns) as missing_cnt,
    count(*) as launch_cnt
from api_call as call
join thread using (source_id, thread_id)
join _last_launch as last on last.source_id = call.source_id and coalesce(last.process_id, thread.process_id) = thread.process_id
left join capture using (source_id)
where not call.is_duplicate
    and call.name_id in (select name_id from name where launches_kernels(text))
    and coalesce(capture.end_ns <= last.start_ns, true)
group by call.source_id
having missing_cnt >= 10 and 100 * missing_cnt >= launch_cnt
