-- A row is one range whose asynchronous copies use pageable memory, which blocks the CPU, so that the GPU is idle after them.
--
-- Allocate the host tensor in pinned memory (DataLoader(pin_memory=True), tensor.pin_memory()); CUDA stages pageable ones through a buffer of its own while the CPU waits. Do not synchronize after the copy: that would wait in its place. Do not read results back in the loop (.item(), .cpu()).
--
-- Without torch: Allocate pinned host memory (cudaMallocHost); CUDA stages other memory through a buffer of its own while the CPU waits. Do not synchronize after the copy: that would wait in its place. Do not read results back in the loop.
--
-- Only with: from _blamed_wait where rule = 'pageable_async_copy'
select source_id, place, saving_ns, occurrence_cnt, evidence, own_advice as advice
from _blamed_wait
where rule = 'pageable_async_copy'
