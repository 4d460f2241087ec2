-- A row is an input with copies of a MiB or more from or to pageable memory, and with none from other memory of the host that would
-- say how fast the link is.
--
-- columns:
--   source_id   integer   the input

select gpu_op.source_id
from memory_operation as moved
join gpu_op using (gpu_op_id)
where moved.copy_kind in ('HtoD', 'DtoH') and moved.bytes >= 1048576 and gpu_op.end_ns > gpu_op.start_ns
group by gpu_op.source_id
having bool_and('Pageable' in (coalesce(src_kind, ''), coalesce(dst_kind, '')))
