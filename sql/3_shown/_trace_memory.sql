-- A row is how much of a category of memory is live from a moment on, for other viewers (--perfetto).
--
-- columns:
--   source_id    integer   the input
--   device       varchar   the device
--   category     varchar   as in memory_by_category
--   time_ns      bigint    the moment, on the file's clock
--   live_bytes   bigint    what is live

select
    memory.source_id,
    memory.device,
    memory.category,
    memory.time_ns + first.time_ns as time_ns,
    memory.live_bytes
from memory_by_category as memory
join (
    select source_id, min(time_ns) as time_ns
    from memory_event
    group by source_id
) as first using (source_id)
where memory.time_ns is not null
