-- A row is the work of a rank in a matched collective in which all ranks meet: nobody can end it before all have begun.
--
-- Rooted operations and those between two ranks are left out: there a rank may leave before others come.
--
-- columns:
--   match_id        bigint    the same for all rows of one collective
--   source_id       integer   the rank's input
--   host            varchar   its machine, NULL if not recorded
--   origin_ns       bigint    what the file's clock counts from, 0 if not recorded
--   work_start_ns   bigint    begin of its kernels
--   work_end_ns     bigint    end of them

select
    matched.match_id,
    collective.source_id,
    source.host,
    coalesce(source.origin_ns, 0) as origin_ns,
    collective.work_start_ns,
    collective.work_end_ns
from matched_collective as matched
join collective using (collective_id)
join source using (source_id)
where matched.match_id is not null
    and collective.work_start_ns is not null
    and collective.operation in ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
