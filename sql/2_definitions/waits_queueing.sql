-- A row is one launch on a full queue: it takes longer than its kind does where fewer are queued.
--
-- Hundreds of operations wait on its stream when it begins (threshold full_queue_cnt). All but the usual time of its
-- kind is a wait.
--
-- columns:
--   api_call_id     bigint     the call
--   source_id       integer    the input
--   thread_id       bigint     its thread
--   name_id         bigint     its name
--   start_ns        bigint     begin of the wait
--   end_ns          bigint     its end
--   kind            varchar    'queue'
--   is_pageable     boolean    false: it copies nothing

with
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
)
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
