-- A row is one range in which the GPU is idle until pages of managed memory move.
--
-- Prefetch pages (cudaMemPrefetchAsync), or copy explicitly: they move when the CPU or the GPU touches them. Paged optimizers of bitsandbytes do this when memory is short: a smaller batch, or gradient checkpointing.
--
-- Without torch: Prefetch pages (cudaMemPrefetchAsync), or copy explicitly: they move when the CPU or the GPU touches them.
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    format('{} of {} before pages move', if(occurrence_cnt = 1, 'a gap', format('{:,} gaps', occurrence_cnt)),
        said_lengths(occurrence_cnt, mean_ns, longest_ns, long_cnt, long_ns)) as evidence
from _blamed_place
where rule = 'unified_memory'
