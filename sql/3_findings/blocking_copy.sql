-- A row is one range with copies or memsets that block the CPU until they are done, so that the GPU is idle behind them.
--
-- Use the asynchronous call: tensor.to(device, non_blocking=True) from pinned memory; avoid .item(), .cpu() and printing tensors in the loop.
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
where gap.rule = 'blocking_copy'
group by gap.source_id, range_path.path
