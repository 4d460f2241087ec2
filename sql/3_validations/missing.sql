-- A row is something that an input lacks and that reports need; in a run without a GPU its work is not one.
--
-- Record it: the note in trace_info says how.

select
    source_id,
    'warning' as severity,
    1 as problem_cnt,
    item || ': ' || value as example
from _missing_fact
