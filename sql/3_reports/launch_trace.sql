-- A row is one GPU operation with the call that launched it and the range that owns it.
--
-- The first five columns are those of mLoRA's per-launch table; event_name is the innermost range. Work whose
-- launching call is not in the file has NULL there, and stays in the table.
--
-- columns:
--   event_name            varchar   name of the range that owns the operation, NULL without one
--   call_api_start_time   bigint    start of the launching call, nanoseconds on the file's clock
--   call_api_end_time     bigint    end of the launching call
--   kernel_start_time     bigint    start on the GPU
--   kernel_end_time       bigint    end on the GPU
--   kernel_name           varchar   the kernel's name, or '[CUDA memcpy HtoD]', '[CUDA memset]' …
--   kind                  varchar   'kernel', 'memcpy', 'memset' or 'graph'
--   api_name              varchar   the launching call
--   rule                  varchar   how the range was found: 'direct', 'sequence', 'window' or 'none'
--   path                  varchar   name path of the range
--   launch_api_ns         bigint    duration of the launching call
--   queue_ns              bigint    max(0, start on the GPU - end of the launching call)
--   launch_latency_ns     bigint    start on the GPU - start of the launching call
--   gpu_op_ns             bigint    duration on the GPU
--   bytes                 bigint    bytes copied or set, NULL for kernels
--   copy_kind             varchar   'HtoD', 'DtoH' …, NULL when not a copy
--   grid_x                integer   blocks along x
--   grid_y                integer   blocks along y
--   grid_z                integer   blocks along z
--   block_x               integer   threads a block along x
--   block_y               integer   threads a block along y
--   block_z               integer   threads a block along z
--   pid                   bigint    process of the launching call
--   tid                   bigint    thread of the launching call
--   device_id             integer   device
--   stream_id             bigint    stream
--   correlation_id        bigint    correlation id, unique within a process
--   graph_node_id         bigint    node of the CUDA graph, NULL outside graphs
--   is_first_op           boolean   true for the first operation of its launching call
--   gpu_op_id             bigint    key
--   api_call_id           bigint    the launching call
--   range_id              bigint    the range
--   source_id             integer   the input, see trace_info
--   rank                  integer   rank of the input, NULL if not recorded

select
    event.text as event_name,
    gpu_op.launch_start_ns as call_api_start_time,
    gpu_op.launch_end_ns as call_api_end_time,
    gpu_op.start_ns as kernel_start_time,
    gpu_op.end_ns as kernel_end_time,
    name.text as kernel_name,
    gpu_op.kind::varchar as kind,
    api_name.text as api_name,
    coalesce(owner.rule, 'none') as rule,
    range_path.path,
    gpu_op.launch_end_ns - gpu_op.launch_start_ns as launch_api_ns,
    if(gpu_op.launch_end_ns is null, null, greatest(0, gpu_op.start_ns - gpu_op.launch_end_ns)) as queue_ns,
    gpu_op.start_ns - gpu_op.launch_start_ns as launch_latency_ns,
    gpu_op.end_ns - gpu_op.start_ns as gpu_op_ns,
    moved.bytes,
    moved.copy_kind,
    gpu_op.grid_x,
    gpu_op.grid_y,
    gpu_op.grid_z,
    gpu_op.block_x,
    gpu_op.block_y,
    gpu_op.block_z,
    thread.pid,
    thread.tid,
    gpu_op.device_id,
    gpu_op.stream_id,
    gpu_op.correlation_id,
    gpu_op.graph_node_id,
    gpu_op.is_first_op,
    gpu_op.gpu_op_id,
    gpu_op.api_call_id,
    gpu_op.range_id,
    gpu_op.source_id,
    source.rank
from gpu_op
join name using (name_id)
join source using (source_id)
left join memory_operation as moved using (gpu_op_id)
left join api_call using (api_call_id)
left join name as api_name on api_name.name_id = api_call.name_id
left join thread on thread.source_id = api_call.source_id and thread.thread_id = api_call.thread_id
left join range using (range_id)
left join range_path using (path_id)
left join attribution as owner on owner.attribution_id = gpu_op.attribution_id and owner.is_self
left join name as event on event.name_id = range.name_id
order by gpu_op.source_id, gpu_op.gpu_op_id
