-- A row is what all GPU work with one attribution (one set of name paths) adds up to.
--
-- Sums by name path stand on this: a few thousand sets instead of millions of operations.

select
    attribution_id,
    count(*) filter (is_first_op) as launch_cnt,
    sum(launch_end_ns - launch_start_ns) filter (is_first_op) as launch_api_ns,
    sum(greatest(0, start_ns - launch_end_ns)) as queue_ns,
    sum(start_ns - launch_start_ns) as launch_latency_ns,
    count(*) as gpu_op_cnt,
    sum(end_ns - start_ns) as gpu_op_ns,
    count(*) filter (kind = 'kernel') as kernel_cnt,
    coalesce(sum(end_ns - start_ns) filter (kind = 'kernel'), 0) as kernel_ns
from gpu_op
where attribution_id is not null
group by attribution_id
