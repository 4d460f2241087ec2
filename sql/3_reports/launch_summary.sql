-- A row is one kernel launched by one thread: what its launches, its queue and its executions took.
--
-- Only GPU work whose launching call is in the file counts. The first operation of a launching call stands for the
-- call, so the calls of a CUDA graph count once. launch_api_ns is that of nsys' cuda_kern_exec_sum, which shows kernels.
-- Waiting is not launching: a copy that returns when it is done, or a launch on a full queue, waits for the GPU for
-- launch_wait_ns of launch_api_ns (see sync_summary). The rest is what launching costs; mean and median are of it.
--
-- columns:
--   kernel_name        varchar   the kernel, copy, memset or graph
--   kind               varchar   'kernel', 'memcpy', 'memset' or 'graph'
--   api_name           varchar   the launching call
--   pid                bigint    process of the launching call
--   tid                bigint    thread of the launching call
--   device_id          integer   the device
--   launch_cnt         bigint    launching calls
--   gpu_op_cnt         bigint    GPU operations
--   launch_api_ns      bigint    summed duration of the launching calls, waits included
--   launch_wait_ns     bigint    how much of it they waited for the GPU
--   mean_api_ns        double    mean duration of a launching call without its wait
--   median_api_ns      double    median of it, interpolated
--   queue_ns           bigint    summed max(0, start on the GPU - end of the call)
--   mean_queue_ns      double    mean of it
--   launch_latency_ns  bigint    summed start on the GPU - start of the call
--   gpu_op_ns          bigint    summed duration on the GPU
--   mean_gpu_ns        double    mean of it
--   launch_bound_frac  double    share of operations that ran shorter than their launching call without its wait
--   source_id          integer   the input, see trace_info
--   rank               integer   rank of the input, NULL if not recorded

select
    name.text as kernel_name,
    gpu_op.kind::varchar as kind,
    api_name.text as api_name,
    thread.pid,
    thread.tid,
    gpu_op.device_id,
    count(*) filter (gpu_op.is_first_op) as launch_cnt,
    count(*) as gpu_op_cnt,
    coalesce(sum(launch_end_ns - launch_start_ns) filter (gpu_op.is_first_op), 0)::bigint as launch_api_ns,
    coalesce(sum(waiting.wait_ns) filter (gpu_op.is_first_op), 0)::bigint as launch_wait_ns,
    avg(launch_end_ns - launch_start_ns - coalesce(waiting.wait_ns, 0)) filter (gpu_op.is_first_op) as mean_api_ns,
    median(launch_end_ns - launch_start_ns - coalesce(waiting.wait_ns, 0)) filter (gpu_op.is_first_op) as median_api_ns,
    sum(greatest(0, gpu_op.start_ns - launch_end_ns))::bigint as queue_ns,
    avg(greatest(0, gpu_op.start_ns - launch_end_ns)) as mean_queue_ns,
    sum(gpu_op.start_ns - launch_start_ns)::bigint as launch_latency_ns,
    sum(gpu_op.end_ns - gpu_op.start_ns)::bigint as gpu_op_ns,
    avg(gpu_op.end_ns - gpu_op.start_ns) as mean_gpu_ns,
    count(*) filter (
        gpu_op.end_ns - gpu_op.start_ns < launch_end_ns - launch_start_ns - coalesce(waiting.wait_ns, 0)
    ) / count(*) as launch_bound_frac,
    gpu_op.source_id,
    any_value(source.rank) as rank
from gpu_op
join api_call using (api_call_id)
join thread on thread.source_id = api_call.source_id and thread.thread_id = api_call.thread_id
join name on name.name_id = gpu_op.name_id
join name as api_name on api_name.name_id = api_call.name_id
join source on source.source_id = gpu_op.source_id
left join _call_wait as waiting on waiting.api_call_id = gpu_op.api_call_id
group by gpu_op.source_id, name.text, gpu_op.kind, api_name.text, thread.pid, thread.tid, gpu_op.device_id
order by gpu_op.source_id, gpu_op_ns desc, kernel_name, api_name, pid, tid, device_id
