-- A row is a path of ranges in or around a graph that torch.compile made, whose name has a hash in it.
--
-- columns:
--   source_id   integer   the input
--   path        varchar   the path
--   start_ns    bigint    begin of its first range

select range.source_id, range_path.path, min(range.start_ns) as start_ns
from range
join range_path using (path_id)
where contains(range_path.path, 'CompiledFxGraph f')
group by range.source_id, range_path.path
