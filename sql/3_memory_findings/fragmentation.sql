-- A row is one pool of an allocator of which more than the threshold fragmentation_frac is held and not used.
--
-- Let segments grow instead of being cut (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True), keep shapes equal from step to step (pad to few lengths), and do not call empty_cache() in the loop.

select
    source_id,
    device,
    sum(unused_bytes) as cost_bytes,
    format('{:.0f} of {:.0f} MiB held are not used ({} pool); the largest free block has {:.0f} MiB',
        sum(unused_bytes) / 1048576, sum(reserved_bytes) / 1048576, coalesce(pool, 'any'),
        coalesce(max(largest_free_bytes), 0) / 1048576) as evidence
from memory_fragmentation
group by source_id, device, pool
having sum(unused_bytes) > sum(reserved_bytes) * (select value from threshold where name = 'fragmentation_frac')
    and sum(unused_bytes) > 67108864
