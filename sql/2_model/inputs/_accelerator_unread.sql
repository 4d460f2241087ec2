-- A row is an input with many events (a hundred, as for its reader) of a category that is not read: work of an accelerator, for
-- which its CPU may wait.
--
-- columns:
--   source_id   integer   the input

select distinct source_id
from source_fact
where section = 'holds'
    and note = 'not read'
    and regexp_matches(item, '^events X .')
    and try_cast(value as bigint) >= 100
