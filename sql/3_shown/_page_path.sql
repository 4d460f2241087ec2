-- A row is a path of ranges, with what a picture says of its ranges.
--
-- columns:
--   source_id   integer   the input
--   path_id     bigint    the path
--   path        varchar   its names
--   name        varchar   the last of them
--   above       varchar   the path around it, '' of the outermost

select own.source_id, own.path_id, own.path, name.text as name, coalesce(above.path, '') as above
from range_path as own
join name using (name_id)
left join range_path as above on above.path_id = own.parent_path_id
