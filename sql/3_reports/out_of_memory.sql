-- A row is an allocation that failed: what it asked for, what was live and what the allocator held without using it.
--
-- From allocator snapshots (torch.cuda.memory._dump_snapshot). unused_bytes and free_bytes together above requested_bytes
-- mean that the memory was there in pieces too small or of another pool: fragmentation (unused whole segments torch gives back
-- before it gives up); else the run needs less memory.
--
-- columns:
--   device             varchar   'cuda:0' …
--   time_ns            bigint    when, from the input's first event of memory; NULL if not recorded
--   event_number       bigint    number of the event in a snapshot without times, else NULL
--   requested_bytes    bigint    what was asked for
--   live_bytes         bigint    asked for by what was live at that moment
--   reserved_bytes     bigint    held by the allocator at that moment
--   unused_bytes       bigint    reserved_bytes - live_bytes, without what the pools of CUDA graphs hold
--   free_bytes         bigint    what the device had left besides, NULL if not recorded
--   largest_category   varchar   the category with the most memory at that moment
--   largest_bytes      bigint    how much it was
--   stack              varchar   the Python frames that asked, innermost first
--   source_id          integer   the input, see trace_info
--   rank               integer   rank of the input, NULL if not recorded

with
began as (
    select source_id, min(time_ns) as time_ns from memory_event group by source_id
),
live as (
    select event.source_id, event.device, event.time_ns, block.category, sum(block.bytes) as bytes
    from out_of_memory_event as event
    join _memory_block as block
        on block.source_id = event.source_id
        and block.device = event.device
        and coalesce(block.start_ns <= event.time_ns, true)
        and coalesce(block.free_ns > event.time_ns, true)
    group by all
),
largest as (
    select source_id, device, time_ns, arg_max(category, bytes) as category, max(bytes)::bigint as bytes
    from live
    group by all
)
select
    event.device,
    if(source.is_timed, event.time_ns - began.time_ns, null) as time_ns,
    if(source.is_timed, null, (event.time_ns - began.time_ns) // 1000) as event_number,
    event.requested_bytes,
    level.live_bytes,
    coalesce(event.reserved_bytes, level.reserved_bytes) as reserved_bytes,
    greatest(
        coalesce(event.reserved_bytes, level.reserved_bytes) - level.live_bytes - coalesce(graphs.graph_bytes, 0), 0
    ) as unused_bytes,
    event.free_bytes,
    largest.category as largest_category,
    largest.bytes as largest_bytes,
    name.text as stack,
    event.source_id,
    source.rank
from out_of_memory_event as event
asof left join _memory_level as level
    on level.source_id = event.source_id and level.device = event.device and level.time_ns <= event.time_ns
left join largest
    on largest.source_id = event.source_id and largest.device = event.device and largest.time_ns = event.time_ns
asof left join _memory_of_graphs as graphs
    on graphs.source_id = event.source_id and graphs.device = event.device and graphs.time_ns <= event.time_ns
left join began on began.source_id = event.source_id
left join name on name.name_id = event.stack_id
join source on source.source_id = event.source_id
order by event.source_id, event.device, event.time_ns
