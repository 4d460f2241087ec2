-- A row is one range in which the CPU waits for the GPU, so that the GPU has nothing to do when the wait is over.
--
-- Find who asks: .item(), .cpu(), .tolist(), nonzero, boolean masks, printing or logging a tensor, torch.cuda.synchronize(). Move it behind the step or do it every N steps.
select source_id, place, saving_ns, occurrence_cnt, evidence
from _blamed_wait
where rule = 'synchronisation'
