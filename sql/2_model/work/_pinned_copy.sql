-- A row is a copy from or to pageable memory of an input whose link is faster than such copies, and how long it takes there.
--
-- Copies of up to 64 KiB are left out: they travel in the command, and take as long from pinned memory.
--
-- columns:
--   source_id   integer   the input
--   gpu_op_id   bigint    the copy
--   length_ns   bigint    its length where the link is as fast as it is known to be (_slow_pageable)

select gpu_op.source_id, moved.gpu_op_id, (moved.bytes / slow.link_bytes_s * 1e9)::bigint as length_ns
from memory_operation as moved
join gpu_op using (gpu_op_id)
join _slow_pageable as slow using (source_id)
where moved.bytes > 65536 and 'Pageable' in (coalesce(moved.src_kind, ''), coalesce(moved.dst_kind, ''))
