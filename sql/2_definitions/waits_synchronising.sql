-- A row is one synchronization of a thread with the GPU, which waits from its begin to its end.
--
-- columns:
--   api_call_id     bigint     the call
--   source_id       integer    the input
--   thread_id       bigint     its thread
--   name_id         bigint     its name
--   start_ns        bigint     begin of the wait
--   end_ns          bigint     its end
--   kind            varchar    'device', 'stream' or 'event'
--   is_pageable     boolean    false: it copies nothing

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
join waiting_name as api using (name_id)
where api.synchronises is not null and not call.is_duplicate
