-- A row is an input of a rank that meets others, and of which cycle of the profiler it is.
--
-- Of ranks that were recorded in cycles those of one time belong together: each rank's inputs are counted in order of time.
--
-- columns:
--   kind        varchar   kind of the input
--   cycle       bigint    the cycle, from 1 for each kind
--   source_id   integer   the input

select
    source.kind,
    row_number() over (partition by source.kind, source.rank order by begun.start_ns, source_id) as cycle,
    source_id
from source
join (
    select source_id, min(start_ns) as start_ns
    from _rank_stretch
    where collective_id is null
    group by source_id
) as begun using (source_id)
where source_id in (select source_id from _rank_wait)
