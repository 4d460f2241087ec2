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

from waits_synchronising
union all by name
from waits_polling
union all by name
from waits_freeing
union all by name
from waits_copying
union all by name
from waits_queueing
