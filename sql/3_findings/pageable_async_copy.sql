-- A row is one range whose asynchronous copies use pageable memory.
--
-- CUDA stages such copies through a buffer of its own while the CPU waits. Allocate the host tensor in pinned memory: DataLoader(pin_memory=True), tensor.pin_memory().

select
    source_id,
    path as place,
    sum(launch_api_ns) as cost_ns,
    count(*) as occurrence_cnt,
    format('{} copies of {:.1f} MB, {:.0f} % of the rate of the fastest of them', count(*), sum(bytes) / 1e6,
        100 * (sum(bytes) * 1e9 / nullif(sum(gpu_op_ns), 0)) / max(max(bandwidth_bytes)) over (partition by source_id))
        as evidence
from memory_copy
where is_pageable_async and launch_api_ns is not null
group by source_id, path
