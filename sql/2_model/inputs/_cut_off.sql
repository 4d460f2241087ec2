-- A row is an input of a file whose end is lost: what is not in it may have been there.
--
-- columns:
--   source_id   integer   the input

select distinct source_id
from source_fact
where section = 'lost' and item = 'end of the file'
