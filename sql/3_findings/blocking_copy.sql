-- A row is one range with copies or memsets that block the CPU until they are done, so that the GPU is idle behind them.
--
-- Use the asynchronous call: tensor.to(device, non_blocking=True) from pinned memory; avoid .item(), .cpu() and printing tensors in the loop.
select
    source_id,
    place,
    sum(saving_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} times {}, then the GPU is idle for {:.1f} us on average', count(*), string_agg(distinct what, ', ' order by what),
        avg(idle_ns) / 1e3) as evidence
from _blamed_gap
where rule = 'blocking_copy'
group by source_id, place
