-- A row is one range in which the CPU waits for the GPU, so that the GPU has nothing to do when the wait is over.
--
-- Find who asks: .item(), .cpu(), .tolist(), nonzero, boolean masks, printing or logging a tensor, torch.cuda.synchronize(). Move it behind the step or do it every N steps.
select
    source_id,
    place,
    sum(saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} times {}, then the GPU is idle for {:.1f} us on average', count(*), string_agg(distinct what, ', ' order by what),
        avg(idle_ns) / 1e3) as evidence
from _blamed_gap
where rule = 'synchronisation'
group by source_id, place
