-- A row is a stretch in which a device worked, and what gpu_timeline_summary adds up of it.
--
-- columns:
--   source_id   integer   the input
--   process     bigint    0: devices have no process
--   at_ns       bigint    its start
--   key         integer   the device
--   busy_ns     bigint    how long it took

select source_id, 0 as process, start_ns as at_ns, device_id as key, end_ns - start_ns as busy_ns
from _device_activity
where activity = 'busy'
