-- A row is one NVTX range whose text has been interned.
--
-- emit_nvtx writes the autograd sequence number into the text; a name that ends in Backward0 or begins with
-- autograd::engine is the backward node of the operator that has the same number.
--
-- needs: nvtx, range_name, reading

select
    reading.source_id,
    case when range_name.is_operator then 'operator' else nvtx.kind end as kind,
    nvtx.style,
    nvtx.position,
    nvtx.thread_id,
    nvtx.end_thread_id,
    range_name.text_id,
    nvtx.start_ns,
    nvtx.end_ns,
    range_name.sequence_number,
    range_name.is_backward
from nvtx
cross join reading
join range_name on range_name.text = nvtx.text
