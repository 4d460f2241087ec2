-- A row is one path inside a LoRA layer and one direction: its ranges, and the GPU work that they account for.
--
-- columns:
--   source_id       integer   the input
--   module          varchar   the name of the layer in its block
--   part            varchar   'base', 'lora_A', 'lora_B' or a part of another kind of adapter
--   adapter         varchar   the adapter as the path has it, NULL where it names none
--   is_part         boolean   whether the path is the part itself, not an adapter's own share of it
--   direction       varchar   'forward', 'backward' or 'recompute': of work that of _lora_reach, of ranges where they lie
--   range_cnt       bigint    ranges
--   wall_ns         hugeint   their summed duration on the CPU, 0 where only the sequence rule found work
--   launch_cnt      hugeint   launching calls
--   launch_api_ns   hugeint   their summed duration
--   kernel_cnt      hugeint   kernels
--   kernel_ns       hugeint   their summed duration
--   gpu_op_ns       hugeint   summed duration of all GPU work

with
work as (
    select
        reached.path_id,
        reached.direction,
        sum(set_work.launch_cnt) as launch_cnt,
        sum(set_work.launch_api_ns) as launch_api_ns,
        sum(set_work.kernel_cnt) as kernel_cnt,
        sum(set_work.kernel_ns) as kernel_ns,
        sum(set_work.gpu_op_ns) as gpu_op_ns
    from _lora_reach as reached
    join set_work using (attribution_id)
    group by all
),
instance as (
    select
        place.path_id,
        case
            when place.is_recomputed then 'recompute'
            when place.is_below_backward then 'backward'
            else 'forward'
        end as direction,
        count(*) as range_cnt,
        sum(range.end_ns - range.start_ns) as wall_ns
    from _lora_path as place
    join range using (path_id)
    group by all
),
paired as (
    select *
    from instance
    full join work using (path_id, direction)
)
select
    place.source_id,
    place.module,
    place.part,
    place.adapter,
    place.is_part,
    paired.direction,
    coalesce(paired.range_cnt, 0) as range_cnt,
    coalesce(paired.wall_ns, 0) as wall_ns,
    coalesce(paired.launch_cnt, 0) as launch_cnt,
    coalesce(paired.launch_api_ns, 0) as launch_api_ns,
    coalesce(paired.kernel_cnt, 0) as kernel_cnt,
    coalesce(paired.kernel_ns, 0) as kernel_ns,
    coalesce(paired.gpu_op_ns, 0) as gpu_op_ns
from paired
join _lora_path as place using (path_id)
