-- A row is one kernel execution, from CUPTI_ACTIVITY_KIND_KERNEL.
--
-- needs: batch, reading, string_ref, unnamed

select
    reading.source_id,
    'kernel' as kind,
    coalesce(string_ref.name_id, unnamed.name_id) as name_id,
    batch.globalPid as process_id,
    batch.deviceId as device_id,
    batch.contextId as context_id,
    batch.streamId as stream_id,
    batch.correlationId as correlation_id,
    batch.start as start_ns,
    batch.end as end_ns,
    batch.graphNodeId as graph_node_id,
    batch.gridX as grid_x,
    batch.gridY as grid_y,
    batch.gridZ as grid_z,
    batch.blockX as block_x,
    batch.blockY as block_y,
    batch.blockZ as block_z
from batch
cross join reading
cross join unnamed
left join string_ref on string_ref.string_id = batch.demangledName
where is_measured(batch.start, batch.end)
