-- A row is the name path of the range that owns the GPU work of an attribution: that of gpu_op.range_id, found among few rows.
--
-- columns:
--   attribution_id   bigint   the set of paths, see attribution
--   path_id          bigint   the path of the range that owns it

select attribution_id, path_id
from attribution
where is_self
