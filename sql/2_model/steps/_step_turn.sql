-- A row is a turn of an input: a step, or those of adapters in turn that are one (_turned_step).
--
-- columns:
--   source_id   integer   the input
--   turn_id     bigint    its place among them, from 1
--   found_by    varchar   how it was found, see step_summary
--   start_ns    bigint    begin of the first of them
--   length_ns   bigint    how long they take together
--   token_cnt   bigint    tokens, NULL where not known
--   is_beside   boolean   whether it does not count when steps are counted, see _turned_step

select
    source_id,
    turn_id,
    any_value(found_by) as found_by,
    min(start_ns) as start_ns,
    sum(length_ns)::bigint as length_ns,
    any_value(token_cnt) as token_cnt,
    bool_or(is_beside) as is_beside
from _turned_step
group by source_id, turn_id
