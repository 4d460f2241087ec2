-- A row is a gap in which a device was idle, and what idle_summary adds up of it.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    0: devices have no process
--   at_ns       bigint    its start
--   key         varchar   its cause
--   idle_ns     bigint    how long it took
--   gap_cnt     integer   1

select source_id, 0 as process, start_ns as at_ns, cause::varchar as key, idle_ns, 1 as gap_cnt
from _blamed_gap
