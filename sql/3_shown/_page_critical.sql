-- A row is what the length of steps hung on, all steps added up: critical_path without them.
--
-- columns:
--   source_id     integer   the input
--   activity      varchar   see critical_path
--   name          varchar   the GPU operation's short name, NULL for the CPU
--   path          varchar   the range, NULL outside all ranges
--   critical_ns   bigint    time on the critical path

with
summed as (
    select source_id, activity, name_id, path_id, sum(critical_ns)::bigint as critical_ns
    from _critical_share
    group by all
    having sum(critical_ns) <> 0
)
select summed.source_id, summed.activity, short.short_name as name, range_path.path, sum(summed.critical_ns)::bigint as critical_ns
from summed
left join _short_name as short on short.source_id = summed.source_id and short.name_id = summed.name_id
left join range_path on range_path.path_id = summed.path_id
group by all
