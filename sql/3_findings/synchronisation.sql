-- A row is one range in which the CPU waits for the GPU, so that the GPU has nothing to do when the wait is over.
--
-- Find who asks: .item(), .cpu(), .tolist(), nonzero, boolean masks, printing or logging a tensor, torch.cuda.synchronize(). Move it behind the step or do it every N steps.
select
    gap.source_id,
    range_path.path as place,
    sum(gap.saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} times {}, then the GPU is idle for {:.1f} us on average', count(*),
        string_agg(distinct name.text, ', ' order by name.text), avg(gap.idle_ns) / 1e3) as evidence
from _blamed_gap as gap
left join name on name.name_id = gap.what
left join range_path using (path_id)
where gap.rule = 'synchronisation'
group by gap.source_id, range_path.path
