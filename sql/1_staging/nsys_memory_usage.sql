-- A row is one allocation or free of device memory, from CUDA_GPU_MEMORY_USAGE_EVENTS.
--
-- needs: batch, reading

select
    reading.source_id,
    batch.globalPid as process_id,
    batch.start as time_ns,
    'cuda:' || batch.deviceId as device,
    case batch.memoryOperationType when 1 then -batch.bytes else batch.bytes end as bytes,
    batch.address,
    false as is_before
from batch
cross join reading
where is_measured(batch.start, batch.start) and abs(batch.bytes::hugeint) < 9007199254740992
