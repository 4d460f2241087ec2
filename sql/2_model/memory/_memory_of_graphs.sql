-- A row is a device and what pools of CUDA graphs hold of it besides blocks that were in use: what replays use, of which nothing is recorded.

select source_id, device, sum(reserved_bytes - allocated_bytes)::bigint as graph_bytes
from memory_segment
where pool = 'graph'
group by source_id, device
having graph_bytes > 0
