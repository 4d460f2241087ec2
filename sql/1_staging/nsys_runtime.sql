-- A row is one CUDA API call, from CUPTI_ACTIVITY_KIND_RUNTIME (runtime and driver calls alike).
--
-- needs: batch, reading, string_ref, unnamed

select
    reading.source_id,
    batch.globalTid as thread_id,
    batch.correlationId as correlation_id,
    coalesce(string_ref.api_name_id, unnamed.name_id) as name_id,
    batch.start as start_ns,
    batch.end as end_ns,
    batch.eventClass as event_class
from batch
cross join reading
cross join unnamed
left join string_ref on string_ref.string_id = batch.nameId
where is_measured(batch.start, batch.end) and batch.globalTid is not null
