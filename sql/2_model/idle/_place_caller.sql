-- A row is the waits in one call and the ranges of one path, and the function from which most of their time is called.
--
-- columns:
--   source_id   integer   the input
--   place       varchar   name path of the range that waits, NULL outside all ranges
--   api_name    varchar   the call that waits
--   stack       varchar   of the function from which such calls wait there for more than half of their time (of those with a known
--         stack): itself and what it was called by, most often

with
waited as (
    select
        wait.source_id,
        range_path.path as place,
        wait.api_name,
        called.caller,
        called.stack,
        sum(wait.end_ns - wait.start_ns) as wait_ns
    from _call_stack as called
    join _sync_call as wait using (api_call_id)
    left join range on range.range_id = wait.range_id
    left join range_path using (path_id)
    where called.caller is not null
    group by all
),
by_caller as (
    select source_id, place, api_name, caller, arg_max(stack, (wait_ns, stack)) as stack, sum(wait_ns) as wait_ns
    from waited
    group by source_id, place, api_name, caller
)
select source_id, place, api_name, arg_max(stack, wait_ns) as stack
from by_caller
group by source_id, place, api_name
having 2 * max(wait_ns) > sum(wait_ns)
