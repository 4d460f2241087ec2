-- A row is a path of annotations whose name means a phase of training (the macro phase_of).
--
-- columns:
--   source_id   integer   the input
--   path        varchar   the path
--   phase       varchar   the phase

select distinct place.source_id, place.path, meant.phase
from range_path as place
join (
    select name_id, phase_of(text) as phase
    from name
    semi join (select distinct name_id from range_path) as used using (name_id)
) as meant using (name_id)
where place.kind = 'annotation' and meant.phase is not null
