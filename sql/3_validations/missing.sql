-- A row is something that an input lacks and that reports need; of a run without a GPU its work is none.
--
-- Record it: the note in trace_info says how.

select
    source_id,
    'warning' as severity,
    1 as problem_cnt,
    item || ': ' || value as example
from _missing_fact
