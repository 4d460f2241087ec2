-- A row is what torch's caching allocator held of a device and did not use, when most was held or when a snapshot was taken.
--
-- Fragments matter at the peak: what is unused at the end of a run is only cached. Rows of a snapshot's end are by pool and
-- exact. At the peak a snapshot knows what was asked for, which is a little less than what blocks took; without a history
-- it knows no peak. It is where, with nearly as much held as ever (a fiftieth less at most), most of it is in use: what is not
-- in use then is in fragments or a cache; what is not a moment before may be what the step is about to use. What CUDA graphs
-- hold in pools of their own is in use whenever they are replayed, although no tensor
-- says so: it is not unused. What is held from before the recording until the allocator asks for more in it is no peak either, where
-- it does: nobody saw what it was needed for.
--
-- columns:
--   device               varchar   'cuda:0' …
--   moment               varchar   'peak': when nearly as much was held as ever, of such moments the one with most in use; or 'end'
--   pool                 varchar   'small' (blocks up to 1 MiB), 'large', 'graph' (of CUDA graphs), or NULL for all
--   reserved_bytes       bigint    held from the device
--   allocated_bytes      bigint    in blocks of tensors, NULL if not recorded
--   requested_bytes      bigint    what the tensors asked for, NULL if not recorded
--   unused_bytes         bigint    reserved_bytes - allocated_bytes, or - requested_bytes where only these are known, without the pools of CUDA graphs
--   unused_frac          double    unused_bytes / reserved_bytes
--   largest_free_bytes   bigint    the largest free block: what could be allocated without asking the device, NULL if not recorded
--   free_block_cnt       bigint    free blocks, NULL if not recorded
--   segment_cnt          bigint    pieces held from the device, NULL if not recorded
--   source_id            integer   the input, see trace_info
--   rank                 integer   rank of the input, NULL if not recorded

with
level as (
    select
        *,
        reserved_bytes > min(reserved_bytes) over (
            partition by source_id, process_id, device order by time_ns rows unbounded preceding
        ) as is_above
    from _memory_level
    where reserved_bytes is not null
),
-- where what is held first grows in the recording, NULL where it never does
growth as (
    select source_id, device, min(time_ns) filter (is_above) as time_ns from level group by all
),
most as (
    select level.source_id, level.device, max(level.reserved_bytes) as reserved_bytes
    from level
    join growth using (source_id, device)
    where coalesce(level.time_ns >= growth.time_ns, true)
    group by all
),
held as (
    select
        source_id,
        device,
        'end' as moment,
        pool,
        sum(reserved_bytes) as reserved_bytes,
        sum(allocated_bytes) as allocated_bytes,
        sum(requested_bytes) as requested_bytes,
        max(largest_free_bytes) as largest_free_bytes,
        sum(free_block_cnt) as free_block_cnt,
        count(*) as segment_cnt
    from memory_segment
    group by all
    union all by name
    select
        level.source_id,
        level.device,
        'peak' as moment,
        arg_max(level.reserved_bytes, (level.live_bytes, level.reserved_bytes)) as reserved_bytes,
        arg_max(if(level.requested_bytes is null, level.live_bytes, null), (level.live_bytes, level.reserved_bytes))
            as allocated_bytes,
        arg_max(level.requested_bytes, (level.live_bytes, level.reserved_bytes)) as requested_bytes,
        arg_max(level.time_ns, (level.live_bytes, level.reserved_bytes)) as time_ns
    from level
    join growth using (source_id, device)
    join most using (source_id, device)
    where coalesce(level.time_ns >= growth.time_ns, true) and 50 * level.reserved_bytes >= 49 * most.reserved_bytes
    group by all
    having max(level.reserved_bytes) > 0 and not bool_and(level.is_before)
)
select
    held.device,
    held.moment,
    held.pool,
    held.reserved_bytes::bigint as reserved_bytes,
    held.allocated_bytes::bigint as allocated_bytes,
    held.requested_bytes::bigint as requested_bytes,
    case
        when held.pool = 'graph' then 0
        else greatest(
            held.reserved_bytes - coalesce(held.allocated_bytes, held.requested_bytes)
            - coalesce(graphs.graph_bytes, 0),
            0
        )
    end::bigint as unused_bytes,
    unused_bytes / nullif(held.reserved_bytes, 0) as unused_frac,
    held.largest_free_bytes::bigint as largest_free_bytes,
    held.free_block_cnt::bigint as free_block_cnt,
    held.segment_cnt::bigint as segment_cnt,
    held.source_id,
    source.rank
from held
join source using (source_id)
asof left join _memory_of_graphs as graphs
    on graphs.source_id = held.source_id and graphs.device = held.device and graphs.time_ns <= held.time_ns
order by held.source_id, held.device, held.moment desc, held.pool
