-- A row is one range with copies or memsets that block the CPU until they are done.
--
-- Use the asynchronous call: tensor.to(device, non_blocking=True) from pinned memory; avoid .item(), .cpu() and printing tensors in the loop.

select
    source_id,
    path as place,
    sum(launch_api_ns) as cost_ns,
    count(*) as occurrence_cnt,
    format('{} calls, {:.1f} MB', count(*), sum(bytes) / 1e6) as evidence
from memory_copy
where is_blocking and launch_api_ns is not null
group by source_id, path
