-- A row is a path of annotations whose name means a phase of training (_phase_name).
--
-- columns:
--   source_id   integer   the input
--   path_id     bigint    the path
--   path        varchar   its text
--   phase       varchar   the phase

select place.source_id, place.path_id, place.path, meant.phase
from range_path as place
join _phase_name as meant using (name_id)
where place.kind = 'annotation'
