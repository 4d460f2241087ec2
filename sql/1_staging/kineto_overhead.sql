-- A row is time that the profiler itself took.
--
-- needs: batch, reading, staged_name

select
    reading.source_id,
    staged_name.name_id,
    batch.start_ns,
    batch.end_ns
from batch
cross join reading
join staged_name on staged_name.text = coalesce(batch.name, '')
where batch.becomes = 'overhead' and is_measured(batch.start_ns, batch.end_ns)
