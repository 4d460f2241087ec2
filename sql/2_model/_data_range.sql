-- A row is a time in which the program was fetching input, by the name of an annotation (phase_of).
--
-- columns:
--   source_id   integer   the input
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   path_id     bigint    name path of the annotation

with
said as (
    select name_id
    from name
    semi join (
        select distinct name_id from range_path where kind = 'annotation'
    ) as used using (name_id)
    where phase_of(text) = 'data'
)
select range.source_id, range.start_ns, range.end_ns, range.path_id
from range
semi join said using (name_id)
where range.kind = 'annotation'
