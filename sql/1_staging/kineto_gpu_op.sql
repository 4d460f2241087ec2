-- A row is one kernel, copy or memset.

select
    reading.source_id,
    category.kind,
    staged_name.name_id,
    batch.device_id,
    batch.context_id,
    coalesce(batch.stream_id, batch.tid) as stream_id,
    batch.correlation_id,
    batch.start_ns,
    batch.end_ns,
    if(category.kind = 'kernel', null, batch.bytes) as bytes,
    if(category.kind <> 'kernel', nullif(regexp_extract(batch.name, '(Memcpy|Copy)[^A-Z]*([A-Z]to[A-Z])', 2), ''), null) as copy_kind,
    if(category.kind = 'memcpy', nullif(nullif(regexp_extract(batch.name, '\(([A-Za-z ]+) -> ', 1), ''), 'Unknown'), null) as src_kind,
    if(category.kind <> 'kernel', nullif(nullif(regexp_extract(batch.name, '[(>] ?([A-Za-z ]+)\)$', 1), ''), 'Unknown'), null) as dst_kind,
    batch.graph_node_id,
    batch.grid[1] as grid_x,
    batch.grid[2] as grid_y,
    batch.grid[3] as grid_z,
    batch.block[1] as block_x,
    batch.block[2] as block_y,
    batch.block[3] as block_z
from batch
cross join reading
join category using (category)
join staged_name on staged_name.text = coalesce(batch.name, '')
where category.becomes = 'gpu_op' and batch.phase = 'X' and batch.end_ns >= batch.start_ns
