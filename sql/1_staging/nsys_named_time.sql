-- A row is a stretch of time of a thread that has a name and nothing else: from PROFILER_OVERHEAD, from OSRT_API.
--
-- needs: batch, reading, string_ref, unnamed

select
    reading.source_id,
    batch.globalTid as thread_id,
    coalesce(string_ref.name_id, unnamed.name_id) as name_id,
    batch.start as start_ns,
    batch.end as end_ns
from batch
cross join reading
cross join unnamed
left join string_ref on string_ref.string_id = batch.nameId
where is_measured(batch.start, batch.end)
