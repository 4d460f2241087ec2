-- A row is one name of GPU work that ranges of one path own, with what a picture says of it.
--
-- columns:
--   source_id    integer    the input
--   name_id      bigint     key of the name
--   path_id      bigint     the path of the owning range, -1 without
--   name         varchar    the short name
--   full_name    varchar    the name in the file, its first 300 characters
--   path         varchar    the owning range, NULL without
--   class        varchar    what kind of work it is

select
    short.source_id,
    op_class.name_id,
    coalesce(op_class.path_id, -1) as path_id,
    short.short_name as name,
    left(name.text, 300) as full_name,
    range_path.path,
    any_value(op_class.class) as class
from _op_class as op_class
join name using (name_id)
join _short_name as short using (name_id)
left join range_path on range_path.path_id = op_class.path_id
where coalesce(range_path.source_id, short.source_id) = short.source_id
group by all
