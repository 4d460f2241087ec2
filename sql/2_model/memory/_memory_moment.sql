-- A row is a moment at which memory of a device was allocated or freed, and how much was live.
--
-- What is allocated and freed at one moment is one row.
--
-- columns:
--   source_id        integer   the input
--   process          bigint    the process, -1 if not recorded
--   device           varchar   the device
--   time_ns          bigint    when, on the clock of the input
--   before_bytes     bigint    live before it
--   live_bytes       bigint    live behind it
--   highest_bytes    bigint    live in it, the most
--   reserved_bytes   bigint    held by the allocator in it, the most; NULL if not recorded
--   is_before        boolean   whether something is from before the recording

select
    source_id,
    coalesce(process_id, -1) as process,
    device,
    time_ns,
    arg_min(live_bytes - bytes, bytes) as before_bytes,
    arg_max(live_bytes, bytes) as live_bytes,
    max(live_bytes) as highest_bytes,
    max(reserved_bytes) as reserved_bytes,
    bool_or(is_before) as is_before
from _memory_level
group by all
