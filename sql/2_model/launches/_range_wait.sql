-- A row is a range with launching calls that wait for the GPU: for how much of its launch_api_ns they do.
--
-- Each call counts once, as in launch_api_ns of range_instance: for the ranges that reached_range names.
--
-- columns:
--   range_id   bigint   the range
--   wait_ns    bigint   how long its launching calls wait

with recursive
waiting as (
    from _call_wait
),
innermost as (
    select op.api_call_id, op.range_id, false as is_alone
    from gpu_op as op
    semi join waiting using (api_call_id)
    where op.is_first_op and op.range_id is not null
    union all
    select reach.api_call_id, reach.range_id, reach.is_alone
    from reach
    semi join waiting using (api_call_id)
),
climb as (
    from innermost
    union
    select climb.api_call_id, range.parent_id, false
    from climb
    join range using (range_id)
    where not climb.is_alone and range.parent_id is not null
)
select counted.range_id, sum(waiting.wait_ns)::bigint as wait_ns
from (select distinct api_call_id, range_id from climb) as counted
join waiting using (api_call_id)
group by counted.range_id
