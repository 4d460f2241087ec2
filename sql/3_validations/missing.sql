-- A row is something that an input lacks and that reports need; of runs without a GPU its work is none.
--
-- Record it: the note in trace_info says how.

select
    source_id,
    'warning' as severity,
    1 as problem_cnt,
    item || ': ' || value as example
from source_fact
where section = 'missing'
    and source_id not in (select source_id from source_fact where item = 'run: device' and value = 'cpu')
