-- A row is one kernel, copy or memset.
--
-- needs: batch, reading, staged_name

select
    reading.source_id,
    batch.kind,
    staged_name.name_id,
    coalesce(try_cast(whole(batch.device) as integer), try_cast(batch.pid as integer)) as device_id,
    whole(batch.context) as context_id,
    coalesce(whole_text(batch.stream), batch.tid) as stream_id,
    whole(batch.correlation) as correlation_id,
    batch.start_ns,
    batch.end_ns,
    if(batch.kind = 'kernel', null, whole(batch.bytes)) as bytes,
    if(batch.kind <> 'kernel', nullif(regexp_extract(batch.name, '(Memcpy|Copy)[^A-Z]*([A-Z]to[A-Z])', 2), ''), null) as copy_kind,
    if(batch.kind = 'memcpy', nullif(nullif(regexp_extract(batch.name, '\(([A-Za-z ]+) -> ', 1), ''), 'Unknown'), null) as src_kind,
    if(batch.kind <> 'kernel', nullif(nullif(regexp_extract(batch.name, '[(>] ?([A-Za-z ]+)\)$', 1), ''), 'Unknown'), null) as dst_kind,
    whole(batch.graph_node) as graph_node_id,
    nullif(try_cast(whole(batch.grid[1]) as integer), 0) as grid_x,
    nullif(try_cast(whole(batch.grid[2]) as integer), 0) as grid_y,
    nullif(try_cast(whole(batch.grid[3]) as integer), 0) as grid_z,
    nullif(try_cast(whole(batch.block[1]) as integer), 0) as block_x,
    nullif(try_cast(whole(batch.block[2]) as integer), 0) as block_y,
    nullif(try_cast(whole(batch.block[3]) as integer), 0) as block_z
from batch
cross join reading
join staged_name on staged_name.text = coalesce(batch.name, '')
where batch.becomes = 'gpu_op' and is_measured(batch.start_ns, batch.end_ns)
