-- A row is one synchronization, from CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.
--
-- needs: batch, reading

select
    reading.source_id,
    batch.globalPid as process_id,
    case batch.syncType
        when 1 then 'event'
        when 2 then 'stream wait'
        when 3 then 'stream'
        when 4 then 'context'
        else 'unknown'
    end as kind,
    batch.deviceId as device_id,
    batch.streamId as stream_id,
    batch.correlationId as correlation_id,
    batch.start as start_ns,
    batch.end as end_ns
from batch
cross join reading
where is_measured(batch.start, batch.end)
