-- A row is one range in which the GPU is idle until pages of managed memory move.
--
-- Prefetch pages (cudaMemPrefetchAsync), or copy explicitly: they move when the CPU or the GPU touches them. bitsandbytes' paged optimizers do this when memory is short: use a smaller batch, or gradient checkpointing.
--
-- Without torch: Prefetch pages (cudaMemPrefetchAsync), or copy explicitly: they move when the CPU or the GPU touches them.
--
-- Only with: from _blamed_place where rule = 'unified_memory'
with
-- which way the pages go that most of the time passes before
moved as (
    select
        gap.source_id,
        range_path.path as place,
        sum(gap.idle_ns) filter (memory_operation.copy_kind = 'DtoH') > 0.5 * sum(gap.idle_ns) as is_to_cpu
    from _judged_gap as gap
    join memory_operation using (gpu_op_id)
    left join range_path using (path_id)
    where gap.rule = 'unified_memory'
    group by gap.source_id, range_path.path
)
select
    long.source_id,
    long.place,
    long.saving_ns,
    long.occurrence_cnt,
    format('{} of {} before pages move{}', if(long.occurrence_cnt = 1, 'a gap', format('{:,} gaps', long.occurrence_cnt)),
        said_lengths(long.occurrence_cnt, long.mean_ns, long.longest_ns, long.long_cnt, long.long_ns),
        if(moved.is_to_cpu, ', mostly to the CPU', '')) as evidence,
    if(
        moved.is_to_cpu and not has_torch(long.source_id),
        'The CPU touches pages that are on the GPU, and each is fetched on touch: fill buffers before they are prefetched to '
        || 'the GPU, prefetch back what the CPU reads (cudaMemPrefetchAsync to cudaCpuDeviceId), or copy explicitly.',
        null
    ) as advice
from _blamed_place as long
left join moved on moved.source_id = long.source_id and moved.place is not distinct from long.place
where long.rule = 'unified_memory'
