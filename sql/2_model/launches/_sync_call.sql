-- A row is one wait of the CPU for the GPU (waiting_call), with the innermost range around it.
--
-- The range is the last of the thread that began before the wait, or the nearest one around that which ends after it; of a call
-- outside all ranges of its thread, as of autograd's, the range that owns what it launched.
--
-- columns:
--   api_call_id   bigint    the call that waits
--   source_id     integer   the input
--   thread_id     bigint    its thread
--   name_id       bigint    its name
--   start_ns      bigint    begin of the wait
--   end_ns        bigint    end of the wait
--   kind          varchar   'device', 'stream', 'event', 'memcpy', 'memset' or 'queue'
--   is_pageable   boolean   whether it copies from or to pageable memory
--   api_name      varchar   the name of the call as text
--   range_id      bigint    the innermost range around it, NULL outside all ranges

with recursive
call as (
    select waiting.*, name.text as api_name
    from waiting_call as waiting
    join name using (name_id)
),
begun as (
    select source_id, thread_id, start_ns, depth, range_id
    from range
    where kind <> 'python'
),
-- of several that begin together the innermost
last as (
    select call.api_call_id, any_value(call.end_ns) as call_end_ns, arg_max(begun.range_id, (begun.depth, begun.range_id)) as range_id
    from (
        select call.api_call_id, call.source_id, call.thread_id, call.end_ns, begun.start_ns
        from call
        asof join begun
            on begun.source_id = call.source_id
            and begun.thread_id = call.thread_id
            and begun.start_ns <= call.start_ns
    ) as call
    join begun using (source_id, thread_id, start_ns)
    group by call.api_call_id
),
climb as (
    from last
    union all
    select climb.api_call_id, climb.call_end_ns, range.parent_id
    from climb
    join range using (range_id)
    where range.end_ns < climb.call_end_ns and range.parent_id is not null
),
found as (
    select climb.api_call_id, climb.range_id
    from climb
    join range using (range_id)
    where range.end_ns >= climb.call_end_ns
)
select call.*, coalesce(found.range_id, launched.range_id) as range_id
from call
left join found using (api_call_id)
left join gpu_op as launched
    on launched.api_call_id = call.api_call_id and launched.is_first_op and found.range_id is null
