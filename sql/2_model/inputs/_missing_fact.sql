-- A row is something that an input lacks and that reports need: of a run without a GPU its work is none.
--
-- columns:
--   source_id   integer   the input
--   item        varchar   what it lacks
--   value       varchar   the fact, as text
--   note        varchar   what it means for the reports, NULL where it is plain

select source_id, item, value, note
from source_fact
where section = 'missing'
    and source_id not in (select source_id from source_fact where item = 'run: device' and value = 'cpu')
