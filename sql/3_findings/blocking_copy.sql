-- A row is one range with copies or memsets that block the CPU until they are done, so that the GPU is idle behind them.
--
-- Use the asynchronous call: tensor.to(device, non_blocking=True) from pinned memory; avoid .item(), .cpu() and printing tensors in the loop.
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    evidence,
    if(
        reads_back,
        'The CPU reads a result back and waits for it: keep it on the device, read it every N steps, or copy it to pinned memory '
        || '(non_blocking=True) and look at it a step later. In PyTorch .item(), .cpu(), .tolist(), nonzero and boolean masks do.',
        null
    ) as advice
from _blamed_wait
where rule = 'blocking_copy'
