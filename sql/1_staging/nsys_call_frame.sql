-- A row is a function on the stack of a CUDA call. Of calls that are stored twice a stack counts once.
--
-- nsys 2022 numbers stacks from 1 and calls say so from 0: each would have the stack of the call before it. The number that is
-- meant is the one whose stacks hold the functions that are called; where no symbol says so, the one that leaves no call out.
--
-- needs: call_stack, chain_frame, reading

with
said as (
    select call_stack.*, later, call_stack.stack_id + later as chain_id
    from call_stack
    cross join (values (0), (1)) as numbered(later)
),
fitting as (
    select
        later,
        count(*) filter (
            exists (from chain_frame as frame where frame.stack_id = said.chain_id and frame.api_name_id = said.api_name_id)
        ) as named_cnt,
        count(*) filter (exists (from chain_frame as frame where frame.stack_id = said.chain_id)) as there_cnt
    from said
    group by later
)
select distinct
    reading.source_id,
    said.thread_id,
    said.correlation_id,
    frame.depth,
    frame.name_id,
    frame.module_id
from said
semi join (from fitting order by named_cnt desc, there_cnt desc, later limit 1) using (later)
join chain_frame as frame on frame.stack_id = said.chain_id
cross join reading
