-- A row is one range in which the GPU is idle until pages of managed memory move.
--
-- Pages move when the CPU or the GPU touches them. Prefetch them (cudaMemPrefetchAsync), or copy explicitly; paged optimizers of bitsandbytes do this when memory is short: a smaller batch, or gradient checkpointing.
select
    gap.source_id,
    range_path.path as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} gaps of {} on average before pages move', count(*), said_ns(avg(gap.idle_ns))) as evidence
from _blamed_gap as gap
left join range_path using (path_id)
where gap.rule = 'unified_memory'
group by gap.source_id, range_path.path
