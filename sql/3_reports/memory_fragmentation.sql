-- A row is a pool of torch's caching allocator and what of it lies unused, when a snapshot was taken.
--
-- Where there is only a trace with totals, a row has no pool and shows the moment at which most was reserved.
--
-- columns:
--   device               varchar   'cuda:0' …
--   pool                 varchar   'small' (blocks up to 1 MiB), 'large', or NULL for all
--   reserved_bytes       bigint    held from the device
--   allocated_bytes      bigint    in use by tensors
--   requested_bytes      bigint    what the tensors asked for, NULL where the file does not say
--   unused_bytes         bigint    reserved_bytes - allocated_bytes
--   unused_frac          double    unused_bytes / reserved_bytes
--   largest_free_bytes   bigint    the largest free block: what could be allocated without asking the device, NULL where the file does not say
--   free_block_cnt       bigint    free blocks, NULL where the file does not say
--   segment_cnt          bigint    pieces held from the device, NULL where the file does not say
--   source_id            integer   the input, see trace_info
--   rank                 integer   rank of the input, NULL where it does not say

with
found as (
    select
        source_id,
        device,
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
        source_id,
        device,
        null as pool,
        max(reserved_bytes) as reserved_bytes,
        arg_max(allocated_bytes, (reserved_bytes, allocated_bytes)) as allocated_bytes
    from _memory_level
    where source_id not in (select source_id from memory_segment)
    group by all
    having max(reserved_bytes) > 0
)
select
    found.device,
    found.pool,
    found.reserved_bytes::bigint as reserved_bytes,
    found.allocated_bytes::bigint as allocated_bytes,
    found.requested_bytes::bigint as requested_bytes,
    (found.reserved_bytes - found.allocated_bytes)::bigint as unused_bytes,
    (found.reserved_bytes - found.allocated_bytes) / nullif(found.reserved_bytes, 0) as unused_frac,
    found.largest_free_bytes::bigint as largest_free_bytes,
    found.free_block_cnt::bigint as free_block_cnt,
    found.segment_cnt::bigint as segment_cnt,
    found.source_id,
    source.rank
from found
join source using (source_id)
order by found.source_id, found.device, found.pool
