-- A row is a device and what pools of CUDA graphs hold of it besides blocks that were in use: what replays use, of which nothing is recorded.
--
-- columns:
--   source_id     integer   the input
--   device        varchar   the device
--   graph_bytes   bigint    what the pools hold besides

select source_id, device, sum(reserved_bytes - allocated_bytes)::bigint as graph_bytes
from memory_segment
where pool = 'graph'
group by source_id, device
having graph_bytes > 0
