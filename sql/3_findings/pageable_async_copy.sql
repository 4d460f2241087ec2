-- A row is one range whose asynchronous copies use pageable memory, which blocks the CPU, so that the GPU is idle behind them.
--
-- CUDA stages such copies through a buffer of its own while the CPU waits. Allocate the host tensor in pinned memory (DataLoader(pin_memory=True), tensor.pin_memory()); do not read results back in the loop (.item(), .cpu()), and let no synchronisation stand behind the copy: it would wait in its place.
select source_id, place, saving_ns, occurrence_cnt, evidence
from _blamed_wait
where rule = 'pageable_async_copy'
