-- A row is one range within steps in which the CPU waits for the GPU.
--
-- Find who asks: .item(), .cpu(), .tolist(), nonzero, boolean masks, printing or logging a tensor, torch.cuda.synchronize(). Move it behind the step or do it every N steps.

select
    source_id,
    path as place,
    sum(call_ns) as cost_ns,
    sum(in_step_cnt) as occurrence_cnt,
    format('{} calls of {}', sum(in_step_cnt), string_agg(distinct api_name, ', ' order by api_name)) as evidence
from sync_summary
where in_step_cnt > 0 and kind in ('device', 'stream', 'event')
group by source_id, path
