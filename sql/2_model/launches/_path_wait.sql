-- A row is a path of ranges with launching calls that wait for the GPU: for how much of launch_api_ns they do.
--
-- Each call counts once per path, as in launch_api_ns of range_summary.
--
-- columns:
--   path_id   bigint    the name path
--   wait_ns   hugeint   how long launching calls of its ranges wait

with
waiting as (
    select op.attribution_id, sum(call.wait_ns) as wait_ns
    from _call_wait as call
    join gpu_op as op using (api_call_id)
    where op.is_first_op and op.attribution_id is not null
    group by op.attribution_id
)
select
    attribution.path_id,
    sum(waiting.wait_ns) as wait_ns
from waiting
join attribution using (attribution_id)
group by attribution.path_id
