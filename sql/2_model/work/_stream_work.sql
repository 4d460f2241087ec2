-- A row is what one process has one stream of a device do, as a whole.
--
-- columns:
--   source_id              integer   the input
--   process_id             bigint    the process, NULL if not recorded
--   device_id              integer   the device, NULL if not recorded
--   context_id             bigint    the CUDA context, NULL if not recorded
--   stream_id              bigint    the stream, NULL if not recorded
--   start_ns               bigint    begin of its first operation
--   end_ns                 bigint    end of the last to end
--   kernel_ns              hugeint   summed time of kernels and graphs, NULL without any
--   first_launch_ns        bigint    begin of the first launch, NULL if none is recorded
--   last_launch_ns         bigint    begin of the last
--   last_launch_end_ns     bigint    end of the last to end

select
    source_id,
    process_id,
    device_id,
    context_id,
    stream_id,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns,
    sum(end_ns - start_ns) filter (kind <> 'memcpy' and kind <> 'memset') as kernel_ns,
    min(launch_start_ns) as first_launch_ns,
    max(launch_start_ns) as last_launch_ns,
    max(launch_end_ns) as last_launch_end_ns
from gpu_op
group by source_id, process_id, device_id, context_id, stream_id
