-- A row is one range whose asynchronous copies use pageable memory, which blocks the CPU, so that the GPU is idle behind them.
--
-- CUDA stages such copies through a buffer of its own while the CPU waits. Allocate the host tensor in pinned memory (DataLoader(pin_memory=True), tensor.pin_memory()); do not read results back in the loop (.item(), .cpu()).
select
    gap.source_id,
    range_path.path as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} copies from or to pageable memory, then the GPU is idle for {:.1f} us on average', count(*),
        avg(gap.idle_ns) / 1e3) as evidence
from _blamed_gap as gap
left join range_path using (path_id)
where gap.rule = 'pageable_async_copy'
group by gap.source_id, range_path.path
