-- A row is an input whose allocator lets segments grow (expandable_segments).
--
-- columns:
--   source_id   integer   the input

select source_id
from source_fact
where section = 'about' and item = 'allocator: expandable segments'
