-- A row is one execution of a whole CUDA graph from CUPTI_ACTIVITY_KIND_GRAPH_TRACE.
--
-- In capture mode 'graph' nsys records no kernels of a graph, only this.
--
-- needs: batch, reading, staged_name

select
    reading.source_id,
    'graph' as kind,
    staged_name.name_id,
    batch.globalPid as process_id,
    batch.deviceId as device_id,
    batch.contextId as context_id,
    batch.streamId as stream_id,
    batch.correlationId as correlation_id,
    batch.start as start_ns,
    batch.end as end_ns
from batch
cross join reading
left join staged_name on staged_name.text = '[CUDA graph]'
where is_measured(batch.start, batch.end)
