-- A row is one call in which the CPU waits for the GPU, and when it does. It fills the table waiting_call.
--
-- Waiting is not working. A call waits when it is a synchronisation; when it copies or sets memory and lasts until that is
-- done (from or to pageable memory the asynchronous calls do, too), or for most of a copy to the device through staging
-- buffers (from pageable memory, more than 64 KiB), which ends a little later; when it frees or takes memory and returns just behind
-- the last of what was queued when it began, or such calls of its input never return before (what it takes then is its
-- own, and more than half of it the wait); when it is the last of calls that ask over and over whether the GPU is done
-- (at least three, fewer than 50 us apart, nothing else between, 50 us in all), behind the end of work that the one before
-- it saw running, and the wait begins with the first of them; or when the queue is full: a launch that takes longer than its kind does
-- where fewer are queued, while hundreds of operations wait on its stream. Then all but the usual time is a wait. What a
-- trace shows decides, not the name of the call: a cudaMemcpy that returns long before its copy ended does not wait.
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
        case
            when regexp_matches(text, '^(cu|cuda|hip)StreamQuery') then 'stream'
            when regexp_matches(text, '^(cu|cuda|hip)EventQuery') then 'event'
        end as polls,
        regexp_matches(text, '(?i)memcpy|memset') as is_move,
        regexp_matches(text, '(?i)async') as is_async,
        regexp_matches(text, '^(cu|cuda|hip)(Mem)?(Free|Host(Free|Unregister)|Malloc|Alloc|HostAlloc|HostRegister|ModuleUnload)')
            and not regexp_matches(text, '(?i)async') as may_wait
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
        max(least(gpu_op.end_ns, gpu_op.launch_end_ns)) as end_ns,
        any_value(gpu_op.kind)::varchar as kind,
        bool_or('Pageable' in (coalesce(moved.src_kind, ''), coalesce(moved.dst_kind, ''))) as is_pageable
    from memory_operation as moved
    join gpu_op using (gpu_op_id)
    join api_call as call using (api_call_id)
    join api on api.name_id = call.name_id
    where api.is_move
        -- the CPU fills staging buffers for most of such a copy, and returns while the last of them are under way
        and gpu_op.end_ns - gpu_op.launch_end_ns <= case
            when moved.copy_kind = 'HtoD' and moved.src_kind = 'Pageable' and moved.bytes > 65536
                then (gpu_op.end_ns - gpu_op.start_ns) // 2
            else 0
        end
        and not (api.is_async and coalesce(moved.copy_kind in ('DtoD', 'PtoP'), false))
        and not call.is_duplicate
    group by call.api_call_id, call.source_id, call.thread_id, call.name_id, call.start_ns
),
-- what frees memory waits until the device is done with it: such a call ends just behind what was queued when it began
freeing as (
    select
        call.*,
        -- Kineto's GPU work is of no process
        if(call.source_id in (select source_id from gpu_op where process_id is not null), coalesce(thread.process_id, 0), 0)
            as process
    from api_call as call
    join api using (name_id)
    left join thread on thread.source_id = call.source_id and thread.thread_id = call.thread_id
    where api.may_wait and not call.is_duplicate
),
-- one pass over launches and these calls in their order: a join of both would look at each pair where few rows are expected
queueing_up as (
    select source_id, coalesce(process_id, 0) as process, launch_start_ns as at_ns, end_ns, null::bigint as api_call_id
    from gpu_op
    where launch_start_ns is not null and source_id in (select source_id from freeing)
    union all
    select source_id, process, start_ns, null, api_call_id
    from freeing
),
pending as (
    select api_call_id, queued_end_ns
    from (
        select
            api_call_id,
            max(end_ns) over (
                partition by source_id, process order by at_ns, api_call_id nulls last rows unbounded preceding
            ) as queued_end_ns
        from queueing_up
    )
    where api_call_id is not null
),
freed as (
    select freeing.*, if(pending.queued_end_ns > freeing.start_ns, pending.queued_end_ns, null) as pending_end_ns
    from freeing
    join pending using (api_call_id)
),
-- what does not wait returns before the end of what is queued now and then
waits as (
    select source_id, name_id
    from freed
    group by source_id, name_id
    having avg((end_ns >= pending_end_ns)::integer) filter (pending_end_ns is not null) >= 0.95
        and count(pending_end_ns) >= 3
),
stopping as (
    select
        api_call_id,
        source_id,
        thread_id,
        name_id,
        start_ns,
        pending_end_ns as end_ns,
        'device' as kind,
        false as is_pageable
    from freed
    where end_ns >= pending_end_ns
        and 2 * (pending_end_ns - start_ns) >= end_ns - start_ns
        and (end_ns <= pending_end_ns + 20000 or (source_id, name_id) in (from waits))
),
-- calls that ask whether the GPU is done, one after another
asking as (
    select call.api_call_id, call.source_id, call.thread_id, call.name_id, call.start_ns, call.end_ns, api.polls as kind
    from api_call as call
    join api using (name_id)
    where api.polls is not null and not call.is_duplicate
),
turn as (
    select *, sum(is_new) over (partition by source_id, thread_id order by start_ns, api_call_id) as number
    from (
        select
            *,
            coalesce(start_ns - lag(end_ns) over (partition by source_id, thread_id order by start_ns, api_call_id) >= 50000, true)::integer as is_new
        from asking
    )
),
asked as (
    select
        max(api_call_id) as api_call_id,
        source_id,
        thread_id,
        arg_max(name_id, api_call_id) as name_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        max(start_ns, 2)[2] as before_ns,  -- when the one before the last asked
        arg_max(kind, api_call_id) as kind
    from turn
    group by source_id, thread_id, number
    having count(*) >= 3 and max(end_ns) - min(start_ns) >= 50000
),
-- again in one pass each: how many other calls its thread had begun at both ends, and what had ended by the second
beside as (
    select api_call_id, max(other_cnt) - min(other_cnt) as other_cnt
    from (
        select api_call_id, sum(is_other) over (partition by source_id, thread_id order by at_ns, is_other) as other_cnt
        from (
            select source_id, thread_id, start_ns as at_ns, 1 as is_other, null::bigint as api_call_id
            from api_call
            semi join asked using (source_id, thread_id)
            where api_call_id not in (select api_call_id from asking) and not is_duplicate
            union all
            select source_id, thread_id, unnest([start_ns, end_ns]), 0, api_call_id
            from asked
        )
    )
    where api_call_id is not null
    group by api_call_id
),
done as (
    select api_call_id, last_end_ns
    from (
        select
            api_call_id,
            max(end_ns) over (partition by source_id order by at_ns, api_call_id nulls first rows unbounded preceding) as last_end_ns
        from (
            select source_id, end_ns as at_ns, end_ns, null::bigint as api_call_id
            from gpu_op
            where source_id in (select source_id from asked)
            union all
            select source_id, end_ns, null, api_call_id
            from asked
        )
    )
    where api_call_id is not null
),
polling as (
    select
        asked.api_call_id, asked.source_id, asked.thread_id, asked.name_id, asked.start_ns, asked.end_ns, asked.kind, false as is_pageable
    from asked
    join beside using (api_call_id)
    join done using (api_call_id)
    where beside.other_cnt = 0 and done.last_end_ns >= asked.before_ns
),
-- a queue of hundreds takes a while: those that wait less than a microsecond for each need not be looked at
late as (
    select call.*, op.device_id, op.stream_id, op.gpu_op_id
    from gpu_op as op
    join api_call as call using (api_call_id)
    where op.start_ns - op.launch_end_ns >= 1000 * (select value from threshold where name = 'full_queue_cnt')
        and op.is_first_op
        and not call.is_duplicate
),
-- how long it takes where it does not wait: of those whose work began sooner, else the quickest
usual as (
    select
        call.source_id,
        call.name_id,
        coalesce(
            if(
                count(*) filter (late.api_call_id is null) >= 10,
                median(call.end_ns - call.start_ns) filter (late.api_call_id is null), null
            ),
            least(10000, quantile_cont(call.end_ns - call.start_ns, 0.05))
        ) as call_ns
    from api_call as call
    left join late using (api_call_id)
    where not call.is_duplicate and (call.source_id, call.name_id) in (select (source_id, name_id) from late)
    group by call.source_id, call.name_id
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
    semi join late using (source_id, device_id, stream_id)
),
launching as (
    select late.*, usual.call_ns::bigint as usual_ns, queued.place
    from late
    join usual using (source_id, name_id)
    join queued using (gpu_op_id)
    where late.end_ns - late.start_ns >= 1.25 * usual.call_ns
),
-- how many of its stream had ended when each began: again in one pass
ending as (
    select source_id, device_id, stream_id, end_ns as at_ns, place, null::bigint as api_call_id
    from queued
    union all
    select source_id, device_id, stream_id, start_ns, null, api_call_id
    from launching
),
ended as (
    select api_call_id, done_place
    from (
        select
            api_call_id,
            max(place) over (
                partition by source_id, device_id, stream_id order by at_ns, api_call_id nulls first rows unbounded preceding
            ) as done_place
        from ending
    )
    where api_call_id is not null
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
    join ended using (api_call_id)
    where launching.place - coalesce(ended.done_place, 0) >= (select value from threshold where name = 'full_queue_cnt')
)
from synchronising
union all by name
from polling
union all by name
from stopping
union all by name
from copying
where end_ns > start_ns
union all by name
from queueing
