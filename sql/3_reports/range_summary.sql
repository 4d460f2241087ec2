-- A row is one name path of ranges: what its instances cost the CPU and what GPU work they account for.
--
-- The main report (report.csv). Ranges with the same names from the outermost one down share a row, across threads
-- and processes of a source; the number of a step and what emit_nvtx adds to a name do not count as name.
-- Inclusive columns count each GPU operation once per path, however often a name nests in itself; self columns
-- count it once in all, so self times and the view unattributed add up to the whole. kernel_ns splits by the rule
-- that found the launch: direct + sequence + window. Busy time is the union over all operations of the path; wall,
-- span and overhead are sums over its instances. Python frames are left out: they are a hierarchy of their own,
-- see range_instance.
--
-- columns:
--   path                     varchar   names from the outermost range to this one, joined by '/'
--   name                     varchar   the last name
--   kind                     varchar   'annotation' (opened by a person), 'operator' (by PyTorch) or 'library' (NCCL,
--         cuBLAS …)
--   depth                    integer   0 for an outermost range
--   range_cnt                bigint    instances
--   wall_ns                  bigint    sum of the instances' own durations on the CPU
--   self_wall_ns             bigint    wall_ns without the time covered by ranges below
--   launch_cnt               bigint    launching calls
--   launch_api_ns            bigint    summed duration of the launching calls, each once
--   launch_wait_ns           bigint    how much of it they waited for the GPU (sync_summary): not what launching costs
--   queue_ns                 bigint    sum over GPU operations of max(0, start - end of the launching call)
--   launch_latency_ns        bigint    sum over GPU operations of start - start of the launching call
--   gpu_op_cnt               bigint    GPU operations: kernels, copies, memsets, graph executions
--   gpu_op_ns                bigint    summed duration of the GPU operations
--   kernel_cnt               bigint    kernels
--   kernel_ns                bigint    summed duration of the kernels
--   direct_kernel_ns         bigint    kernels launched inside the range on its own thread
--   sequence_kernel_ns       bigint    backward kernels of its operators, linked by autograd sequence number
--   window_kernel_ns         bigint    kernels launched by other threads while the range was open on the waiting
--         thread
--   gpu_busy_ns              bigint    length of the union of the GPU operations, per device, added up over devices
--   gpu_span_ns              bigint    sum over instances of last GPU end - first GPU start (nsys: projected
--         duration)
--   launch_overhead_ns       bigint    sum over instances of wall - GPU busy time within the instance (the time in
--         which its work did not run), NULL where the input holds no GPU work
--   self_launch_cnt          bigint    launching calls for which this is the innermost range
--   self_launch_api_ns       bigint    their summed duration
--   self_queue_ns            bigint    queue_ns of the operations that this path owns
--   self_launch_latency_ns   bigint    launch_latency_ns of the operations that this path owns
--   self_gpu_op_cnt          bigint    GPU operations that this path owns
--   self_gpu_op_ns           bigint    their summed duration
--   self_kernel_cnt          bigint    kernels that this path owns
--   self_kernel_ns           bigint    their summed duration
--   unfinished_cnt           bigint    instances without an end in the file, closed at their thread's last event
--   path_id                  bigint    key of the path
--   parent_path_id           bigint    the path without its last name, NULL at the top
--   source_id                integer   the input, see trace_info
--   rank                     integer   rank of the input, NULL if not recorded

with
work as (
    select
        path_id,
        sum(launch_cnt) as launch_cnt,
        sum(launch_api_ns) as launch_api_ns,
        sum(queue_ns) as queue_ns,
        sum(launch_latency_ns) as launch_latency_ns,
        sum(gpu_op_cnt) as gpu_op_cnt,
        sum(gpu_op_ns) as gpu_op_ns,
        sum(kernel_cnt) as kernel_cnt,
        sum(kernel_ns) as kernel_ns,
        sum(kernel_ns) filter (rule = 'direct') as direct_kernel_ns,
        sum(kernel_ns) filter (rule = 'sequence') as sequence_kernel_ns,
        sum(kernel_ns) filter (rule = 'window') as window_kernel_ns,
        sum(launch_cnt) filter (is_self) as self_launch_cnt,
        sum(launch_api_ns) filter (is_self) as self_launch_api_ns,
        sum(queue_ns) filter (is_self) as self_queue_ns,
        sum(launch_latency_ns) filter (is_self) as self_launch_latency_ns,
        sum(gpu_op_cnt) filter (is_self) as self_gpu_op_cnt,
        sum(gpu_op_ns) filter (is_self) as self_gpu_op_ns,
        sum(kernel_cnt) filter (is_self) as self_kernel_cnt,
        sum(kernel_ns) filter (is_self) as self_kernel_ns
    from set_work
    join attribution using (attribution_id)
    group by path_id
),
busy as (
    select path_id, sum(gpu_busy_ns) as gpu_busy_ns
    from path_busy
    group by path_id
)
select
    range_path.path,
    name.text as name,
    range_path.kind,
    range_path.depth,
    measure.range_cnt,
    measure.wall_ns,
    measure.self_wall_ns,
    coalesce(work.launch_cnt, 0)::bigint as launch_cnt,
    coalesce(work.launch_api_ns, 0)::bigint as launch_api_ns,
    coalesce(waiting.wait_ns, 0)::bigint as launch_wait_ns,
    coalesce(work.queue_ns, 0)::bigint as queue_ns,
    coalesce(work.launch_latency_ns, 0)::bigint as launch_latency_ns,
    coalesce(work.gpu_op_cnt, 0)::bigint as gpu_op_cnt,
    coalesce(work.gpu_op_ns, 0)::bigint as gpu_op_ns,
    coalesce(work.kernel_cnt, 0)::bigint as kernel_cnt,
    coalesce(work.kernel_ns, 0)::bigint as kernel_ns,
    coalesce(work.direct_kernel_ns, 0)::bigint as direct_kernel_ns,
    coalesce(work.sequence_kernel_ns, 0)::bigint as sequence_kernel_ns,
    coalesce(work.window_kernel_ns, 0)::bigint as window_kernel_ns,
    coalesce(busy.gpu_busy_ns, 0)::bigint as gpu_busy_ns,
    measure.gpu_span_ns,
    if(gpu.source_id is not null, measure.wall_ns - measure.gpu_busy_inside_ns, null) as launch_overhead_ns,
    coalesce(work.self_launch_cnt, 0)::bigint as self_launch_cnt,
    coalesce(work.self_launch_api_ns, 0)::bigint as self_launch_api_ns,
    coalesce(work.self_queue_ns, 0)::bigint as self_queue_ns,
    coalesce(work.self_launch_latency_ns, 0)::bigint as self_launch_latency_ns,
    coalesce(work.self_gpu_op_cnt, 0)::bigint as self_gpu_op_cnt,
    coalesce(work.self_gpu_op_ns, 0)::bigint as self_gpu_op_ns,
    coalesce(work.self_kernel_cnt, 0)::bigint as self_kernel_cnt,
    coalesce(work.self_kernel_ns, 0)::bigint as self_kernel_ns,
    measure.unfinished_cnt,
    range_path.path_id,
    range_path.parent_path_id,
    source.source_id,
    source.rank
from path_measure as measure
join range_path using (path_id)
join name using (name_id)
join source on source.source_id = range_path.source_id
left join work using (path_id)
left join busy using (path_id)
left join _path_wait as waiting using (path_id)
left join _source_with_gpu as gpu on gpu.source_id = range_path.source_id
where range_path.kind <> 'python'
order by source.source_id, gpu_op_ns desc, wall_ns desc, path
