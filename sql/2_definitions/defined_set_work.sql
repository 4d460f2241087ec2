-- A row is what all GPU work with one attribution (one set of name paths) adds up to. It fills the table set_work.
--
-- columns:
--   attribution_id      bigint    the set
--   rule_cnt            integer   how many rules find ranges for its operations, NULL where ranges overlap partially
--   launch_cnt          bigint    launching calls
--   launch_api_ns       bigint    summed duration of the launching calls, each once
--   queue_ns            bigint    summed max(0, start on the GPU - end of the launching call)
--   launch_latency_ns   bigint    summed start on the GPU - start of the launching call
--   gpu_op_cnt          bigint    GPU operations
--   gpu_op_ns           bigint    summed duration of the GPU operations
--   kernel_cnt          bigint    kernels among them
--   kernel_ns           bigint    summed duration of the kernels

with
summed as (
    select
        attribution_id,
        min(api_call_id) as api_call_id,
        count(*) filter (is_first_op) as launch_cnt,
        coalesce(sum(launch_end_ns - launch_start_ns) filter (is_first_op), 0)::bigint as launch_api_ns,
        sum(greatest(0, start_ns - launch_end_ns))::bigint as queue_ns,
        sum(start_ns - launch_start_ns)::bigint as launch_latency_ns,
        count(*) as gpu_op_cnt,
        sum(end_ns - start_ns)::bigint as gpu_op_ns,
        count(*) filter (kind = 'kernel') as kernel_cnt,
        coalesce(sum(end_ns - start_ns) filter (kind = 'kernel'), 0)::bigint as kernel_ns
    from gpu_op
    where attribution_id is not null
    group by attribution_id
),
-- one call stands for its whole set
rules as (
    select
        attribution_id,
        if(bool_or(is_alone), null, 1 + count(distinct rule))::integer as rule_cnt
    from summed
    join reach using (api_call_id)
    group by attribution_id
)
select
    attribution_id,
    if(rules.attribution_id is null, 1, rules.rule_cnt) as rule_cnt,
    launch_cnt,
    launch_api_ns,
    queue_ns,
    launch_latency_ns,
    gpu_op_cnt,
    gpu_op_ns,
    kernel_cnt,
    kernel_ns
from summed
left join rules using (attribution_id)
