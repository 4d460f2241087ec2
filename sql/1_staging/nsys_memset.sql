-- A row is one memset, from CUPTI_ACTIVITY_KIND_MEMSET.
--
-- needs: batch, memory_kind, reading, staged_name

select
    reading.source_id,
    'memset' as kind,
    staged_name.name_id,
    batch.globalPid as process_id,
    batch.deviceId as device_id,
    batch.contextId as context_id,
    batch.streamId as stream_id,
    batch.correlationId as correlation_id,
    batch.start as start_ns,
    batch.end as end_ns,
    batch.bytes,
    memory_kind.memory_kind as dst_kind,
    batch.graphNodeId as graph_node_id
from batch
cross join reading
left join memory_kind on memory_kind.memory_kind_id = batch.memKind
left join staged_name on staged_name.text = '[CUDA memset]'
where is_measured(batch.start, batch.end)
