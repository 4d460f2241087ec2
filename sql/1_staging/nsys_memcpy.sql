-- A row is one copy, from CUPTI_ACTIVITY_KIND_MEMCPY.
--
-- needs: batch, memcpy_kind, memory_kind, reading, staged_name

select
    reading.source_id,
    'memcpy' as kind,
    staged_name.name_id,
    batch.globalPid as process_id,
    batch.deviceId as device_id,
    batch.contextId as context_id,
    batch.streamId as stream_id,
    batch.correlationId as correlation_id,
    batch.start as start_ns,
    batch.end as end_ns,
    batch.bytes,
    memcpy_kind.copy_kind,
    source.memory_kind as src_kind,
    target.memory_kind as dst_kind,
    batch.graphNodeId as graph_node_id
from batch
cross join reading
left join memcpy_kind on memcpy_kind.memcpy_kind_id = batch.copyKind
left join memory_kind as source on source.memory_kind_id = batch.srcKind
left join memory_kind as target on target.memory_kind_id = batch.dstKind
left join staged_name on staged_name.text = coalesce(memcpy_kind.name, '[CUDA memcpy Unknown]')
where is_measured(batch.start, batch.end)
