-- A row is the thread that stands for a device in an allocator snapshot.
--
-- needs: batch, reading

select distinct
    batch.thread_id,
    reading.source_id,
    -1 as process_id,
    'device ' || batch.thread_id as name
from batch
cross join reading
