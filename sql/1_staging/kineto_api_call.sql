-- A row is one CUDA or HIP call.
--
-- needs: batch, kineto_thread, reading, staged_name

select
    reading.source_id,
    kineto_thread.thread_id,
    whole(batch.correlation) as correlation_id,
    staged_name.name_id,
    batch.start_ns,
    batch.end_ns
from batch
cross join reading
join staged_name on staged_name.text = coalesce(batch.name, '')
join kineto_thread
    on kineto_thread.pid is not distinct from batch.pid and kineto_thread.tid is not distinct from batch.tid
where batch.becomes = 'api_call' and is_measured(batch.start_ns, batch.end_ns)
