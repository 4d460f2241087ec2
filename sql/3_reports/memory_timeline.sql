-- A row is one allocation or free, and what is live and reserved after it.
--
-- From torch.profiler with profile_memory=True (lorabench collect --profiler memory), nsys with memory usage, or a snapshot
-- of torch's allocator. The profiler counts blocks, a snapshot what was asked for, which is a little less: the allocator
-- rounds sizes up.
--
-- columns:
--   device            varchar   'cuda:0', 'cpu' …
--   time_ns           bigint    when, from the input's first event of memory; NULL if not recorded
--   event_number      bigint    number of the event in a snapshot without times, else NULL
--   bytes             bigint    size, negative for a free
--   live_bytes        bigint    live in total afterwards; for nsys since the recording began
--   counted           varchar   what sizes are: 'blocks', or 'requests' of a snapshot
--   reserved_bytes    bigint    held by the allocator in total afterwards, NULL if not recorded
--   process_id        bigint    the process
--   source_id         integer   the input, see trace_info
--   rank              integer   rank of the input, NULL if not recorded

select
    level.device,
    if(source.is_timed, level.time_ns - min(level.time_ns) over (partition by level.source_id), null) as time_ns,
    if(source.is_timed, null, (level.time_ns - min(level.time_ns) over (partition by level.source_id)) // 1000)
        as event_number,
    level.bytes,
    level.live_bytes,
    if(level.requested_bytes is null, 'blocks', 'requests') as counted,
    level.reserved_bytes,
    level.process_id,
    level.source_id,
    source.rank
from _memory_level as level
join source on source.source_id = level.source_id
order by level.source_id, level.device, level.time_ns, level.bytes
