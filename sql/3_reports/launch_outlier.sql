-- A row is one launch that stands out: a kernel shorter than its launch, a slow call, or work that waited long.
--
-- A launch that stands out in two ways has two rows. Thresholds: short_kernel_ns, slow_api_ns, late_launch_ns.
--
-- columns:
--   outlier             varchar   'shorter than its launch' (and than short_kernel_ns), 'slow call', 'waited long'
--   kernel_name         varchar   the kernel, copy, memset or graph
--   api_name            varchar   the launching call
--   launch_start_ns     bigint    begin of the call
--   launch_api_ns       bigint    duration of the call
--   queue_ns            bigint    max(0, start on the GPU - end of the call)
--   gpu_op_ns           bigint    duration on the GPU
--   cost_ns             bigint    what the outlier took: of the call beyond the kernel, of the call, of the wait
--   path                varchar   name path of the range that owns it, NULL without one
--   gpu_op_id           bigint    key, see launch_trace
--   source_id           integer   the input, see trace_info
--   rank                integer   rank of the input, NULL where it does not say

with
launch as (
    select
        gpu_op.*,
        launch_end_ns - launch_start_ns as launch_api_ns,
        greatest(0, start_ns - launch_end_ns) as queue_ns,
        end_ns - start_ns as gpu_op_ns
    from gpu_op
    where is_first_op
),
outlier as (
    select 'shorter than its launch' as outlier, launch_api_ns - gpu_op_ns as cost_ns, *
    from launch
    where kind = 'kernel'
        and gpu_op_ns < launch_api_ns
        and gpu_op_ns < (select value from threshold where name = 'short_kernel_ns')
    union all by name
    select 'slow call' as outlier, launch_api_ns as cost_ns, *
    from launch
    where launch_api_ns > (select value from threshold where name = 'slow_api_ns')
    union all by name
    select 'waited long' as outlier, queue_ns as cost_ns, *
    from launch
    where queue_ns > (select value from threshold where name = 'late_launch_ns')
)
select
    outlier.outlier,
    name.text as kernel_name,
    api_name.text as api_name,
    outlier.launch_start_ns,
    outlier.launch_api_ns,
    outlier.queue_ns,
    outlier.gpu_op_ns,
    outlier.cost_ns,
    range_path.path,
    outlier.gpu_op_id,
    outlier.source_id,
    source.rank
from outlier
join name on name.name_id = outlier.name_id
join source on source.source_id = outlier.source_id
join api_call using (api_call_id)
join name as api_name on api_name.name_id = api_call.name_id
left join range using (range_id)
left join range_path using (path_id)
order by outlier.source_id, outlier.cost_ns desc, outlier.gpu_op_id, outlier.outlier
