-- A row is a row of step_summary and the turn that it is a part of: those of one number that follow one another (adapters in
-- turn) are one, those of several processes, which run at the same time, are not.
--
-- Where adapters are trained one after another (peft_mode 'seq') all of one number are one.
--
-- turn_id is its place among the input's turns, from 1; is_beside whether it is the step of another process at the time of
-- the one before.

with
next as (
    select
        *,
        step is distinct from lag(step) over in_order as is_next,
        coalesce(step = lag(step) over in_order and start_ns < lag(start_ns + wall_ns) over in_order, false) as is_beside
    from step_summary
    window in_order as (partition by source_id order by start_ns, range_id)
)
select
    next.* exclude (is_next),
    if(
        source_id in (select source_id from _run_facts where said['peft_mode'] = 'seq'),
        dense_rank() over (partition by source_id order by step),
        sum((is_next or is_beside)::integer) over (partition by source_id order by start_ns, range_id)
    )::bigint as turn_id
from next
