-- A row is one synchronisation that CUPTI recorded on the device side.

select
    reading.source_id,
    case
        when batch.name ilike '%context%' then 'context'
        when batch.name ilike '%wait%' then 'stream wait'
        when batch.name ilike '%event%' then 'event'
        when batch.name ilike '%stream%' then 'stream'
        else 'unknown'
    end as kind,
    batch.device_id,
    batch.stream_id,
    batch.correlation_id,
    batch.start_ns,
    batch.end_ns,
    batch.waits_for_correlation_id
from batch
cross join reading
join category using (category)
where category.becomes = 'sync' and batch.phase = 'X' and batch.end_ns >= batch.start_ns
