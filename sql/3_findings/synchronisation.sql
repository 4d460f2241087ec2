-- A row is one range in which the CPU waits for the GPU, so that the GPU has nothing to do when the wait is over.
--
-- Move it after the step, or do it every N steps: .item(), .cpu(), .tolist(), nonzero, boolean masks, printing or logging a tensor, torch.cuda.synchronize().
--
-- Without torch: Move it after the step, or do it every N steps: reading results back, printing or logging them, cudaDeviceSynchronize, cudaStreamSynchronize.
--
-- Only with: from _blamed_wait where rule = 'synchronisation'
select source_id, place, saving_ns, occurrence_cnt, evidence, own_advice as advice
from _blamed_wait
where rule = 'synchronisation'
