-- A row is a step of an input; those of one number that follow one another (adapters in turn) are one, those of several
-- processes, which run at the same time, are not.
--
-- columns:
--   source_id   integer   the input
--   turn_id     bigint    its place among them, from 1
--   found_by    varchar   how it was found, see step_summary
--   start_ns    bigint    begin of the first of them
--   length_ns   bigint    how long they take together
--   token_cnt   bigint    tokens, NULL where not known
--   is_beside   boolean   whether it is the step of another process at the time of the one before

with
next as (
    select
        *,
        step is distinct from lag(step) over in_order as is_next,
        coalesce(step = lag(step) over in_order and start_ns < lag(start_ns + wall_ns) over in_order, false) as is_beside
    from step_summary
    window in_order as (partition by source_id order by start_ns, range_id)
),
numbered as (
    select *, sum((is_next or is_beside)::integer) over (partition by source_id order by start_ns, range_id) as turn_id
    from next
)
select
    source_id,
    turn_id::bigint as turn_id,
    any_value(found_by) as found_by,
    min(start_ns) as start_ns,
    sum(length_ns)::bigint as length_ns,
    any_value(token_cnt) as token_cnt,
    bool_or(is_beside) as is_beside
from numbered
group by source_id, turn_id
