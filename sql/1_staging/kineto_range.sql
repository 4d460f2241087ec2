-- A row is one operator, record_function block or Python frame.
--
-- An operator that names the thread of its forward pass is a backward node. Traces of 2021 have the steps of the
-- profiler among the operators.

select
    reading.source_id,
    if(batch.name like 'ProfilerStep#%', 'annotation', category.kind) as kind,
    'Complete' as style,
    batch.position,
    kineto_thread.thread_id,
    staged_name.name_id as text_id,
    batch.start_ns,
    batch.end_ns,
    batch.sequence_number,
    batch.forward_thread_id > 0 and batch.sequence_number is not null as is_backward,
    shape.name_id as shape_id
from batch
cross join reading
join category using (category)
join staged_name on staged_name.text = coalesce(batch.name, '')
left join staged_name as shape on shape.text = batch.shape
join kineto_thread
    on kineto_thread.pid is not distinct from batch.pid and kineto_thread.tid is not distinct from batch.tid
where category.becomes = 'range'
    and batch.phase = 'X'
    and batch.name is distinct from '[memory]'
    and batch.end_ns >= batch.start_ns
