-- A row is one kind of module (q_proj, down_proj …; linear 4096x1024 where shapes alone show it), one part of its LoRA
-- layers and one direction.
--
-- part is 'base' or what PEFT calls an adapter's weights ('lora_A', 'lora_B', DoRA's 'lora_magnitude_vector', 'ia3_l',
-- 'vera_lambda_b', 'oft_R', 'hada_w1' …), summed over all layers and adapters. direction is 'backward' for work below a
-- range named backward and for work that the sequence rule found for a forward operator, 'recompute' below a range of
-- that name, else 'forward'. gpu_op_frac is of all GPU work that lies in LoRA layers.
--
-- columns:
--   module          varchar   the name of the layer in its block, or the size of its base
--   part            varchar   'base', 'lora_A', 'lora_B' or a part of another kind of adapter
--   direction       varchar   'forward', 'backward' or 'recompute'
--   range_cnt       bigint    ranges
--   wall_ns         bigint    their summed duration on the CPU; 0 where only the sequence rule found work
--   launch_cnt      bigint    launching calls
--   launch_api_ns   bigint    their summed duration
--   kernel_cnt      bigint    kernels
--   kernel_ns       bigint    their summed duration
--   gpu_op_ns       bigint    summed duration of all GPU work
--   gpu_op_frac     double    gpu_op_ns as a fraction of that of all LoRA layers of the input
--   source_id       integer   the input, see trace_info
--   rank            integer   rank of the input, NULL if not recorded

select
    module,
    part,
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
where is_part
group by source_id, module, part, direction
order by source_id, gpu_op_ns desc, wall_ns desc, module, part, direction
