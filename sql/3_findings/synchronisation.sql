-- A row is one range in which the CPU waits for the GPU, so that the GPU has nothing to do when the wait is over.
--
-- Move it behind the step, or do it every N steps: .item(), .cpu(), .tolist(), nonzero, boolean masks, printing or logging a tensor, torch.cuda.synchronize().
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    evidence,
    if(
        regexp_matches(calls, '^(cuda|hip)DeviceSynchronize$'),
        'Leave it out, or do it every N steps: torch.cuda.synchronize(), a timer around a step, or the end of a profile.',
        null
    ) as advice
from _blamed_wait
where rule = 'synchronisation'
