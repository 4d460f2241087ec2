-- A row is a name of annotations that means a phase of training, see phase_of.
--
-- columns:
--   name_id   bigint    the name, or the text of one of its ranges
--   phase     varchar   the phase

with
said as (
    select text_id as name_id
    from range
    where kind = 'annotation'
    union
    select name_id
    from range_path
    where kind = 'annotation'
),
meant as (
    select name_id, phase_of(text) as phase
    from name
    semi join said using (name_id)
)
select name_id, phase
from meant
where phase is not null
