-- A row is a call that waits, as the replay takes it.
--
-- columns:
--   source_id     integer   the input
--   api_call_id   bigint    the call
--   start_ns      bigint    begin of the wait
--   end_ns        bigint    end of it
--   kind          varchar   as in waiting_call
--   is_pageable   boolean   whether it waits for a copy from or to pageable memory
--   process       bigint    the process of the stream that it waits for, -1 where that is not known
--   stream_id     bigint    that stream, -1 where it is not known

select
    waiting.source_id,
    waiting.api_call_id,
    waiting.start_ns,
    waiting.end_ns,
    waiting.kind,
    waiting.is_pageable,
    coalesce(asked.process, -1) as process,
    coalesce(asked.stream_id, -1) as stream_id
from waiting_call as waiting
left join _awaited_stream as asked using (source_id, api_call_id)
