-- A row is one adapter and one direction: what its own work cost, over all layers.
--
-- Its own work is what ran inside the ranges of its name: lora_A and lora_B, or the parts of another kind of adapter.
-- Operators that treat all adapters at once (BatchLoRA fused) have none: their work is in lora_summary. Directions as
-- there.
--
-- columns:
--   adapter         varchar   the adapter
--   direction       varchar   'forward', 'backward' or 'recompute'
--   range_cnt       bigint    ranges
--   wall_ns         bigint    their summed duration on the CPU
--   launch_cnt      bigint    launching calls
--   launch_api_ns   bigint    their summed duration
--   kernel_cnt      bigint    kernels
--   kernel_ns       bigint    their summed duration
--   gpu_op_ns       bigint    summed duration of all GPU work
--   gpu_op_frac     double    gpu_op_ns as a fraction of that of all adapters of the input
--   source_id       integer   the input, see trace_info
--   rank            integer   rank of the input, NULL if not recorded

select
    adapter,
    direction,
    sum(range_cnt)::bigint as range_cnt,
    sum(wall_ns)::bigint as wall_ns,
    sum(launch_cnt)::bigint as launch_cnt,
    sum(launch_api_ns)::bigint as launch_api_ns,
    sum(kernel_cnt)::bigint as kernel_cnt,
    sum(kernel_ns)::bigint as kernel_ns,
    sum(gpu_op_ns)::bigint as gpu_op_ns,
    sum(gpu_op_ns) / nullif(sum(sum(gpu_op_ns)) over (partition by source_id), 0) as gpu_op_frac,
    source_id,
    any_value(source.rank) as rank
from _lora_work
join source using (source_id)
where adapter is not null and part <> 'base'
group by source_id, adapter, direction
order by source_id, gpu_op_ns desc, wall_ns desc, adapter, direction
