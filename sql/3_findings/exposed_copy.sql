-- A row is one range whose copies or memsets run while the GPU does nothing else.
--
-- Copy ahead on a stream of its own from pinned memory (non_blocking=True), keep tensors on the device, or copy less: token ids instead of embeddings, bfloat16 instead of float32.
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    format('{} of copies with nothing beside them, most of them {}', said_ns(exposed_ms * 1e6), largest) as evidence
from _exposed_place
where activity = 'memory'
