-- A row is something that was lost when an input was read, or that the input lacks.
--
-- columns:
--   source_id   integer   the input
--   section     varchar   'lost', or 'missing' (_missing_fact)
--   item        varchar   what
--   value       varchar   how much of it
--   note        varchar   what to do about it, NULL where nothing is known

select source_id, section, item, value, note
from source_fact
where section = 'lost'
union all
select source_id, 'missing' as section, item, value, note
from _missing_fact
