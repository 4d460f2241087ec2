-- A row is one range that fetches input while the GPU is idle.
--
-- Load ahead: more workers and prefetching (DataLoader(num_workers=…, prefetch_factor=…, persistent_workers=True)), tokenise before training, pin memory and copy with non_blocking=True.
select
    gap.source_id,
    range_path.path as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('the GPU waits {} times, {} on average', count(*), said_ns(avg(gap.idle_ns))) as evidence
from _blamed_gap as gap
left join range_path using (path_id)
where gap.rule = 'late_input'
group by gap.source_id, range_path.path
