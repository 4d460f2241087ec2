-- A row is one call in which the CPU waits for the GPU, and when it does. It fills the table waiting_call.
--
-- Waiting is not working. A call waits when it is a synchronisation; when it copies or sets memory and lasts until that is
-- done (from or to pageable memory the asynchronous calls do, too); or when the queue is full: a launch that takes far
-- longer than its kind usually does while hundreds of operations wait on its stream. Then all but the usual time is a
-- wait. What a trace shows decides, not the name of the call: a cudaMemcpy that returns before its copy ended does not
-- wait.
--
-- columns:
--   api_call_id     bigint     the call
--   source_id       integer    the input
--   thread_id       bigint     its thread
--   name_id         bigint     its name
--   start_ns        bigint     begin of the wait
--   end_ns          bigint     its end
--   kind            varchar    'device', 'stream', 'event', 'memcpy', 'memset' or 'queue'
--   is_pageable     boolean    whether it copies from or to pageable memory

with
-- names are few, calls are many: what gpu_op knows of its call is asked before it is joined to it
api as (
    select
        name_id,
        case
            when regexp_matches(text, '^(cu|cuda|hip)StreamSynchronize') then 'stream'
            when regexp_matches(text, '^(cu|cuda|hip)EventSynchronize') then 'event'
            when regexp_matches(text, '^(cu|cuda|hip)(Device|Ctx|Context)Synchronize') then 'device'
        end as synchronises,
        regexp_matches(text, '(?i)memcpy|memset') as is_move,
        regexp_matches(text, '(?i)async') as is_async
    from name
),
synchronising as (
    select
        call.api_call_id,
        call.source_id,
        call.thread_id,
        call.name_id,
        call.start_ns,
        call.end_ns,
        api.synchronises as kind,
        false as is_pageable
    from api_call as call
    join api using (name_id)
    where api.synchronises is not null and not call.is_duplicate
),
copying as (
    select
        call.api_call_id,
        call.source_id,
        call.thread_id,
        call.name_id,
        call.start_ns,
        max(gpu_op.end_ns) as end_ns,
        any_value(gpu_op.kind)::varchar as kind,
        bool_or('Pageable' in (coalesce(moved.src_kind, ''), coalesce(moved.dst_kind, ''))) as is_pageable
    from memory_operation as moved
    join gpu_op using (gpu_op_id)
    join api_call as call using (api_call_id)
    join api on api.name_id = call.name_id
    where api.is_move
        and gpu_op.end_ns <= gpu_op.launch_end_ns
        and not (api.is_async and coalesce(moved.copy_kind in ('DtoD', 'PtoP'), false))
        and not call.is_duplicate
    group by call.api_call_id, call.source_id, call.thread_id, call.name_id, call.start_ns
),
-- a queue of hundreds takes a while: the others need not be looked at
slow as (
    select call.*, late.device_id, late.stream_id, late.gpu_op_id
    from api_call as call
    join (
        select api_call_id, device_id, stream_id, gpu_op_id
        from gpu_op
        where launch_end_ns - launch_start_ns >= (select value from threshold where name = 'slow_api_ns')
            and start_ns - launch_end_ns >= 1000 * (select value from threshold where name = 'full_queue_cnt')
            and is_first_op
    ) as late using (api_call_id)
    where not call.is_duplicate
),
usual as (
    select source_id, name_id, median(end_ns - start_ns) as call_ns
    from api_call
    semi join slow using (source_id, name_id)
    where not is_duplicate
    group by source_id, name_id
),
queued as (
    select
        source_id,
        device_id,
        stream_id,
        gpu_op_id,
        end_ns,
        row_number() over (partition by source_id, device_id, stream_id order by gpu_op_id) as place
    from gpu_op
    semi join slow using (source_id, device_id, stream_id)
),
launching as (
    select slow.*, usual.call_ns::bigint as usual_ns, queued.place
    from slow
    join usual using (source_id, name_id)
    join queued using (gpu_op_id)
    where slow.end_ns - slow.start_ns >= 10 * usual.call_ns
),
queueing as (
    select
        launching.api_call_id,
        launching.source_id,
        launching.thread_id,
        launching.name_id,
        launching.start_ns + launching.usual_ns as start_ns,
        launching.end_ns,
        'queue' as kind,
        false as is_pageable
    from launching
    asof left join queued as done
        on done.source_id = launching.source_id
        and done.device_id = launching.device_id
        and done.stream_id = launching.stream_id
        and done.end_ns <= launching.start_ns
    where launching.place - coalesce(done.place, 0) >= (select value from threshold where name = 'full_queue_cnt')
)
from synchronising
union all by name
from copying
where end_ns > start_ns
union all by name
from queueing
