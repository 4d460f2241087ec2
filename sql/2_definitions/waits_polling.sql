-- A row is calls that ask over and over whether the GPU is done, as one wait; of the last of them.
--
-- At least three, fewer than 50 us apart, nothing else of their thread between, 50 us in all, and the last after the
-- end of work that the one before it saw running. The wait begins with the first of them.
--
-- columns:
--   api_call_id     bigint     the call
--   source_id       integer    the input
--   thread_id       bigint     its thread
--   name_id         bigint     its name
--   start_ns        bigint     begin of the wait
--   end_ns          bigint     its end
--   kind            varchar    'stream' or 'event'
--   is_pageable     boolean    false: it copies nothing

with
-- calls that ask whether the GPU is done, one after another
asking as (
    select call.api_call_id, call.source_id, call.thread_id, call.name_id, call.start_ns, call.end_ns, api.polls as kind
    from api_call as call
    join waiting_name as api using (name_id)
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
)
select
    asked.api_call_id, asked.source_id, asked.thread_id, asked.name_id, asked.start_ns, asked.end_ns, asked.kind, false as is_pageable
from asked
join beside using (api_call_id)
join done using (api_call_id)
where beside.other_cnt = 0 and done.last_end_ns >= asked.before_ns
