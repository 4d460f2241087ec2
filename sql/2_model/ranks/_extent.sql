-- A row is an input of one of several ranks: when its first event began and its last one ended, and how many there are.
--
-- columns:
--   source_id   integer   the input
--   start_ns    bigint    begin of the first event, on the clock of the input
--   end_ns      bigint    end of the last one, likewise
--   event_cnt   bigint    events: ranges and GPU operations
--   length_ns   bigint    their summed duration

select
    source_id, min(start_ns) as start_ns, max(end_ns) as end_ns, count(*) as event_cnt,
    sum(end_ns - start_ns)::bigint as length_ns
from (
    select source_id, start_ns, end_ns from range semi join _several_ranks using (source_id)
    union all
    select source_id, start_ns, end_ns from gpu_op semi join _several_ranks using (source_id)
)
group by source_id
