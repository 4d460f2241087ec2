-- A row is something that an input lacks and that reports need.
--
-- Record it: the note in trace_info says how.

select
    source_id,
    'warning' as severity,
    1 as problem_cnt,
    item || ': ' || value as example
from source_fact
where section = 'missing'
