-- A row is a kernel's name and a class, such that one kernel could take it together with others (the macro is_fusible).
--
-- columns:
--   source_id   integer   the input
--   class       varchar   a class of its kernels
--   name_id     bigint    the name

select used.source_id, used.class, used.name_id
from (select distinct source_id, class, name_id from _classed_op) as used
join name using (name_id)
where is_fusible(used.class, name.text)
