-- A row is one call in which the CPU waits for the GPU, and when it does.
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
called as (
    select api_call.*, name.text as api_name
    from api_call
    join name using (name_id)
    where not api_call.is_duplicate
),
synchronising as (
    select
        api_call_id,
        source_id,
        thread_id,
        name_id,
        start_ns,
        end_ns,
        case
            when regexp_matches(api_name, 'StreamSynchronize') then 'stream'
            when regexp_matches(api_name, 'EventSynchronize') then 'event'
            else 'device'
        end as kind,
        false as is_pageable
    from called
    where regexp_matches(api_name, '^(cu|cuda|hip)(Device|Ctx|Context|Stream|Event)Synchronize')
),
copying as (
    select
        called.api_call_id,
        called.source_id,
        called.thread_id,
        called.name_id,
        called.start_ns,
        max(gpu_op.end_ns) as end_ns,
        any_value(gpu_op.kind) as kind,
        bool_or('Pageable' in (coalesce(moved.src_kind, ''), coalesce(moved.dst_kind, ''))) as is_pageable
    from memory_operation as moved
    join gpu_op using (gpu_op_id)
    join called using (api_call_id)
    where regexp_matches(called.api_name, '(?i)memcpy|memset')
        and not (regexp_matches(called.api_name, '(?i)async') and coalesce(moved.copy_kind in ('DtoD', 'PtoP'), false))
    group by all
    having max(gpu_op.end_ns) <= called.end_ns
),
usual as (
    select called.source_id, called.name_id, median(called.end_ns - called.start_ns) as call_ns
    from called
    semi join gpu_op using (api_call_id)
    group by called.source_id, called.name_id
),
slow as (
    select called.*, usual.call_ns::bigint as usual_ns
    from called
    join usual using (source_id, name_id)
    where called.end_ns - called.start_ns
        >= greatest((select value from threshold where name = 'slow_api_ns'), 10 * usual.call_ns)
),
queued as (
    select
        source_id,
        device_id,
        stream_id,
        api_call_id,
        start_ns,
        end_ns,
        row_number() over (partition by source_id, device_id, stream_id order by start_ns, gpu_op_id) as place
    from gpu_op
    semi join (
        select distinct source_id, device_id, stream_id
        from gpu_op
        semi join slow using (api_call_id)
    ) as affected using (source_id, device_id, stream_id)
),
launching as (
    select slow.*, queued.device_id, queued.stream_id, min(queued.place) as place
    from slow
    join queued using (api_call_id)
    where queued.start_ns >= slow.end_ns
    group by all
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
        and done.device_id is not distinct from launching.device_id
        and done.stream_id is not distinct from launching.stream_id
        and done.end_ns <= launching.start_ns
    where launching.place - coalesce(done.place, 0) >= (select value from threshold where name = 'full_queue_cnt')
)
from synchronising
union all by name
from copying
where end_ns > start_ns
union all by name
from queueing
