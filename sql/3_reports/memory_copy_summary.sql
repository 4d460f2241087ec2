-- A row is one direction and pair of memory kinds: how much was copied or set, and how fast.
--
-- bandwidth_bytes is all bytes over all time, not a mean of single rates; copies whose bytes were not recorded (AMD's traces
-- have some) are left out of it. See memory_copy for each copy.
--
-- columns:
--   name                     varchar   '[CUDA memcpy HtoD]', '[CUDA memset]' …
--   src_kind                 varchar   'Pageable', 'Pinned', 'Device' …, NULL if not recorded
--   dst_kind                 varchar   the same of the target
--   gpu_op_cnt               bigint    copies or memsets
--   gpu_op_ns                bigint    their summed duration
--   bytes                    bigint    their bytes, NULL if not recorded
--   bandwidth_bytes          double    bytes a second of their summed duration, NULL for a duration of 0 or no bytes
--   max_bandwidth_bytes      double    the fastest one
--   launch_api_ns            bigint    summed duration of their calls
--   pageable_async_cnt       bigint    asynchronous calls on pageable memory
--   blocking_cnt             bigint    calls that blocked the CPU
--   source_id                integer   the input, see trace_info
--   rank                     integer   rank of the input, NULL if not recorded

select
    name,
    src_kind,
    dst_kind,
    count(*) as gpu_op_cnt,
    sum(gpu_op_ns)::bigint as gpu_op_ns,
    sum(bytes)::bigint as bytes,
    sum(bytes) * 1e9 / nullif(sum(gpu_op_ns) filter (bytes is not null), 0) as bandwidth_bytes,
    max(bandwidth_bytes) as max_bandwidth_bytes,
    coalesce(sum(launch_api_ns), 0)::bigint as launch_api_ns,
    count(*) filter (is_pageable_async) as pageable_async_cnt,
    count(*) filter (is_blocking) as blocking_cnt,
    source_id,
    any_value(rank) as rank
from memory_copy
group by source_id, name, src_kind, dst_kind
order by source_id, gpu_op_ns desc, name, src_kind, dst_kind
