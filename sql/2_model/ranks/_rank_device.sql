-- A row is an input of one of several ranks: how many devices worked for it.
--
-- columns:
--   source_id    integer   the input
--   device_cnt   bigint    devices, of work on CPUs 1

select source_id, count(distinct coalesce(device_id, -1)) as device_cnt
from _rank_activity
group by source_id
