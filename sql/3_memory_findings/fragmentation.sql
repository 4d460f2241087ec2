-- A row is a device of which, when most was held, more than the threshold fragmentation_frac was not used.
--
-- Let segments grow instead of being cut (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True), keep shapes equal from step to step (pad to few lengths), and do not call empty_cache() in the loop.

with
held as (
    select source_id, device, moment, sum(unused_bytes) as unused_bytes, sum(reserved_bytes) as reserved_bytes
    from memory_fragmentation
    group by source_id, device, moment
    qualify moment = 'peak' or count(*) over (partition by source_id, device) = 1
)
select
    source_id,
    device,
    unused_bytes as cost_bytes,
    format('{:,.0f} of {:,.0f} MiB held were not used {}', unused_bytes / 1048576, reserved_bytes / 1048576,
        if(moment = 'peak', 'when most was held', 'when the snapshot was taken')) as evidence,
    if(
        source_id in (from _expandable),
        'Segments grow already (expandable_segments): keep shapes equal from step to step (pad to few lengths), and do not call '
        || 'empty_cache() in the loop.',
        null
    ) as advice
from held
where unused_bytes > reserved_bytes * (select value from threshold where name = 'fragmentation_frac')
    and unused_bytes > 67108864
