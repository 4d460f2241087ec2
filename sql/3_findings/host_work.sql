-- A row is one range before whose work the GPU is idle after a wait, because the CPU had waited and works on until it launches.
--
-- Do this work before the wait, or while the GPU computes: ask for results a step later. Name it with ranges (lorabench.span), or record Python's stacks.
--
-- Without torch: Do this work before the wait, or while the GPU computes: ask for results a step later. Name it with ranges (NVTX).
--
-- Only with: from _long_gap_place where rule = 'host_work'
select source_id, place, saving_ns, occurrence_cnt, evidence, what_to_do as advice
from _long_gap_place
where rule = 'host_work'
