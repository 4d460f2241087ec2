-- A row is one allocation or free, and what is allocated and reserved after it.
--
-- From torch.profiler with profile_memory=True (lorabench collect --profiler memory) or nsys with memory usage.
--
-- columns:
--   device            varchar   'cuda:0', 'cpu' …
--   time_ns           bigint    when, from the input's first event of memory
--   bytes             bigint    size, negative for a free
--   allocated_bytes   bigint    allocated in total afterwards; for nsys since the recording began
--   reserved_bytes    bigint    held by the allocator in total afterwards, NULL where the file does not say
--   process_id        bigint    the process
--   source_id         integer   the input, see trace_info
--   rank              integer   rank of the input, NULL where it does not say

select
    level.device,
    level.time_ns - min(level.time_ns) over (partition by level.source_id) as time_ns,
    level.bytes,
    level.allocated_bytes,
    level.reserved_bytes,
    level.process_id,
    level.source_id,
    source.rank
from _memory_level as level
join source on source.source_id = level.source_id
order by level.source_id, level.device, level.time_ns, level.bytes
