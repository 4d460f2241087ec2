-- A row is one launch that stands out: a kernel shorter than its launch, a slow call, or work that waited long.
--
-- A launch that stands out in two ways has two rows. Thresholds: short_kernel_ns, slow_api_ns, late_launch_ns. What a call
-- waits for the GPU is no cost of its launch (see sync_summary): a call is slow for the rest of its time alone.
--
-- columns:
--   outlier             varchar   'shorter than its launch' (and than short_kernel_ns), 'slow call', 'waited long'
--   kernel_name         varchar   the kernel, copy, memset or graph
--   api_name            varchar   the launching call
--   launch_start_ns     bigint    start of the call
--   launch_api_ns       bigint    duration of the call, its wait included
--   launch_wait_ns      bigint    how much of it it waited for the GPU
--   queue_ns            bigint    max(0, start on the GPU - end of the call)
--   gpu_op_ns           bigint    duration on the GPU
--   cost_ns             bigint    what the outlier took: of the call beyond the kernel, of the call, of the queue
--   path                varchar   name path of the range that owns it, NULL without one
--   gpu_op_id           bigint    key, see launch_trace
--   source_id           integer   the input, see trace_info
--   rank                integer   rank of the input, NULL if not recorded

with
setting as (
    select
        max(value) filter (name = 'short_kernel_ns') as short_kernel_ns,
        max(value) filter (name = 'slow_api_ns') as slow_api_ns,
        max(value) filter (name = 'late_launch_ns') as late_launch_ns
    from threshold
),
launch as (
    select
        gpu_op_id,
        source_id,
        name_id,
        api_call_id,
        attribution_id,
        launch_start_ns,
        kind,
        launch_end_ns - launch_start_ns as launch_api_ns,
        coalesce(waiting.wait_ns, 0) as launch_wait_ns,
        launch_end_ns - launch_start_ns - coalesce(waiting.wait_ns, 0) as cost_ns,
        greatest(0, start_ns - launch_end_ns) as queue_ns,
        end_ns - start_ns as gpu_op_ns
    from gpu_op
    left join _call_wait as waiting using (api_call_id)
    where is_first_op
),
judged as (
    select
        launch.*,
        [
            if(kind = 'kernel' and gpu_op_ns < launch.cost_ns and gpu_op_ns < short_kernel_ns,
                {outlier: 'shorter than its launch', cost_ns: launch.cost_ns - gpu_op_ns}, null),
            if(launch.cost_ns > slow_api_ns, {outlier: 'slow call', cost_ns: launch.cost_ns}, null),
            if(queue_ns > late_launch_ns, {outlier: 'waited long', cost_ns: queue_ns}, null)
        ] as reasons
    from launch
    cross join setting
    where (kind = 'kernel' and gpu_op_ns < launch.cost_ns and gpu_op_ns < short_kernel_ns)
        or launch.cost_ns > slow_api_ns
        or queue_ns > late_launch_ns
),
outlier as (
    select * exclude (reasons, reason, cost_ns), reason.outlier, reason.cost_ns
    from (select *, unnest(reasons) as reason from judged)
    where reason is not null
)
select
    outlier.outlier,
    name.text as kernel_name,
    api_name.text as api_name,
    outlier.launch_start_ns,
    outlier.launch_api_ns,
    outlier.launch_wait_ns::bigint as launch_wait_ns,
    outlier.queue_ns,
    outlier.gpu_op_ns,
    outlier.cost_ns::bigint as cost_ns,
    range_path.path,
    outlier.gpu_op_id,
    outlier.source_id,
    source.rank
from outlier
join name on name.name_id = outlier.name_id
join source on source.source_id = outlier.source_id
join api_call using (api_call_id)
join name as api_name on api_name.name_id = api_call.name_id
left join _owner as own using (attribution_id)
left join range_path using (path_id)
order by outlier.source_id, outlier.cost_ns desc, outlier.gpu_op_id, outlier.outlier
