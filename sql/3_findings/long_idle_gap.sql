-- A row is one range before whose work the GPU is idle for longer than the threshold long_gap_ns, because the CPU does something else.
--
-- Look at what the CPU did before the launch: reading input, Python, logging, checkpoints, evaluation, allocating. Name it with ranges (lorabench.span), or record Python's stacks.
--
-- Without torch: Look at what the CPU did before the launch: reading input, logging, writing files, allocating. Name it with ranges (NVTX), or record the CPU's samples (nsys profile --sample=process-tree).
--
-- Only with: from _long_gap_place where rule = 'long_idle_gap'
select source_id, place, saving_ns, occurrence_cnt, evidence, what_to_do as advice
from _long_gap_place
where rule = 'long_idle_gap'
