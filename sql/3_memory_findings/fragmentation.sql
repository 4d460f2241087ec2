-- A row is a device of which, when most was held and in use, more than the threshold fragmentation_frac was not used.
--
-- Let segments grow instead of being split up (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True), keep shapes the same from step to step (pad to a few lengths), and do not call empty_cache() in the loop.

with
-- pieces of which nothing is used hold no fragments: a cache, which goes to what asks next, or back to the device
cached as (
    select source_id, device, sum(reserved_bytes) as cached_bytes
    from memory_segment
    where allocated_bytes = 0 and pool is distinct from 'graph'
    group by source_id, device
),
held as (
    select
        source_id,
        device,
        moment,
        if(moment = 'end', coalesce(any_value(cached.cached_bytes), 0), 0) as whole_bytes,
        greatest(0, sum(unused_bytes) - whole_bytes) as unused_bytes,
        sum(reserved_bytes) as reserved_bytes
    from memory_fragmentation
    left join cached using (source_id, device)
    group by source_id, device, moment
    qualify moment = 'peak' or count(*) over (partition by source_id, device) = 1
)
select
    source_id,
    device,
    unused_bytes as cost_bytes,
    reserved_bytes as of_bytes,
    format('{:,.0f} of {:,.0f} MiB held were not used {}', unused_bytes / 1048576, reserved_bytes / 1048576,
        if(moment = 'peak', 'when most was in use', 'when the snapshot was taken'))
    || if(whole_bytes > 0, format(', besides {:,.0f} in whole segments (a cache)', whole_bytes / 1048576), '') as evidence,
    if(
        source_id in (from _expandable),
        'Segments grow already (expandable_segments): keep shapes the same from step to step (pad to a few lengths), and do not call '
        || 'empty_cache() in the loop.',
        null
    ) as advice
from held
where unused_bytes > reserved_bytes * (select value from threshold where name = 'fragmentation_frac')
    and unused_bytes > 67108864
