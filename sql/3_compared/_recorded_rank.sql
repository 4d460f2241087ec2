-- A row is an input of a rank of several, and when its work was recorded: that of its devices, without any its ranges.
--
-- columns:
--   source_id    integer   the input
--   rank         integer   the rank
--   world_size   integer   ranks of its job, NULL if not recorded
--   kind         varchar   kind of the input
--   start_ns     bigint    begin of the first GPU work; from 1970 on where the file says what its clock counts from
--   end_ns       bigint    end of the last, likewise

select
    source_id,
    source.rank,
    source.world_size,
    source.kind,
    coalesce(source.origin_ns, 0) + work.start_ns as start_ns,
    coalesce(source.origin_ns, 0) + work.end_ns as end_ns
from source
join (
    select source_id, min(start_ns) as start_ns, max(end_ns) as end_ns
    from gpu_op
    group by source_id
    union all
    select source_id, min(start_ns), max(end_ns)
    from range
    where source_id not in (from _source_with_gpu)
    group by source_id
) as work using (source_id)
where source.rank is not null and coalesce(source.world_size, 2) > 1 and source_id not in (from _memory_pass)
