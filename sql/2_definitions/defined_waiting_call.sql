-- A row is one call in which the CPU waits for the GPU, and when it does. It fills the table waiting_call.
--
-- Each kind of wait is a view of its own (waits_…). What a trace shows decides, not the name of the call.
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

from waits_synchronising
union all by name
from waits_polling
union all by name
from waits_freeing
union all by name
from waits_copying
union all by name
from waits_queueing
