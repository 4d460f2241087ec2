-- A row is one annotation that an allocator snapshot holds; no thread opened it, so each device has one.
--
-- needs: batch, reading, staged_name

select
    reading.source_id,
    'annotation' as kind,
    'PushPop' as style,
    batch.position,
    batch.thread_id,
    staged_name.name_id as text_id,
    batch.start_ns,
    batch.end_ns,
    false as is_backward
from batch
cross join reading
join staged_name on staged_name.text = batch.name
