-- A row is one range that fetches input while the GPU is idle.
--
-- Load ahead: more workers and prefetching (DataLoader(num_workers=…, prefetch_factor=…, persistent_workers=True)), tokenise before training, pin memory and copy with non_blocking=True.
select
    source_id,
    place,
    sum(saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('the GPU waits {} times, {:.3f} ms on average', count(*), avg(idle_ns) / 1e6) as evidence
from _blamed_gap
where rule = 'late_input'
group by source_id, place
