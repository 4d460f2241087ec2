-- A row is a wait of the CPU for the GPU behind which a device may be found idle: any but that for a full queue.
--
-- A copy from the device that a synchronization follows at once is a result that is read (.item(), .cpu()): it is a wait for a
-- stream, which pinned memory would not spare.
--
-- columns:
--   source_id     integer   the input
--   process       bigint    the process, as _work_process has it
--   start_ns      bigint    begin
--   end_ns        bigint    end
--   kind          varchar   as in sync_summary, of a result that is read 'stream'
--   is_pageable   boolean   whether an asynchronous call waited for a copy from or to pageable memory; others wait in any case
--   name_id       bigint    the call
--   path_id       bigint    name path of the range around it, NULL outside all ranges

with
wait as (
    select
        call.*,
        coalesce(
            call.kind = 'memcpy'
            and lead(call.kind) over of_thread in ('stream', 'device', 'event')
            and lead(call.start_ns) over of_thread - call.end_ns
                < (select value from threshold where name = 'late_launch_ns')
            and call.api_call_id in (
                select gpu_op.api_call_id
                from memory_operation as moved
                join gpu_op using (gpu_op_id)
                where moved.copy_kind = 'DtoH'
            ),
            false
        ) as is_read
    from _sync_call as call
    window of_thread as (partition by call.source_id, call.thread_id order by call.start_ns, call.end_ns)
)
select
    wait.source_id,
    own.process,
    wait.start_ns,
    wait.end_ns,
    if(wait.is_read, 'stream', wait.kind) as kind,
    coalesce(not wait.is_read and wait.is_pageable and regexp_matches(wait.api_name, '(?i)async'), false) as is_pageable,
    wait.name_id,
    range.path_id
from wait
join _work_process as own using (source_id, thread_id)
left join range using (range_id)
where wait.kind <> 'queue'
