-- A row is one call that frees or takes memory and waits until the device is done with what was queued.
--
-- It returns just after the last of what was queued when it began, or such calls of its input never return before:
-- what it takes then is its own, and more than half of it the wait.
--
-- columns:
--   api_call_id     bigint     the call
--   source_id       integer    the input
--   thread_id       bigint     its thread
--   name_id         bigint     its name
--   start_ns        bigint     begin of the wait
--   end_ns          bigint     its end
--   kind            varchar    'device'
--   is_pageable     boolean    false: it copies nothing

with
-- what frees memory waits until the device is done with it: such a call ends just after what was queued when it began
freeing as (
    select
        call.*,
        -- Kineto's GPU work is of no process
        if(call.source_id in (select source_id from gpu_op where process_id is not null), coalesce(thread.process_id, 0), 0)
            as process
    from api_call as call
    join waiting_name as api using (name_id)
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
)
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
