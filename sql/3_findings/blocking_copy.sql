-- A row is one range with copies or memsets that block the CPU until they are done, so that the GPU is idle after them.
--
-- Use the asynchronous call: tensor.to(device, non_blocking=True) from pinned memory; avoid .item(), .cpu() and printing tensors in the loop.
--
-- Without torch: Use the asynchronous call (cudaMemcpyAsync) from pinned memory; read nothing back in the loop.
--
-- Only with: from _blamed_wait where rule = 'blocking_copy'
select source_id, place, saving_ns, occurrence_cnt, evidence, own_advice as advice
from _blamed_wait
where rule = 'blocking_copy'
