-- A row is one synchronization that CUPTI recorded on the device side.
--
-- needs: batch, reading

select
    reading.source_id,
    case
        when batch.name ilike '%context%' then 'context'
        when batch.name ilike '%wait%' then 'stream wait'
        when batch.name ilike '%event%' then 'event'
        when batch.name ilike '%stream%' then 'stream'
        else 'unknown'
    end as kind,
    coalesce(try_cast(whole(batch.device) as integer), try_cast(batch.pid as integer)) as device_id,
    whole_text(batch.stream) as stream_id,
    whole(batch.correlation) as correlation_id,
    batch.start_ns,
    batch.end_ns,
    whole(batch.waits_for_correlation) as waits_for_correlation_id
from batch
cross join reading
where batch.becomes = 'sync' and is_measured(batch.start_ns, batch.end_ns)
