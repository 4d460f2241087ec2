-- A row is the start (step 1) or the end (step -1) of a stretch of time in which a device did a kind of work.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device, NULL without
--   series      varchar   the kind of work, see activity of _device_activity
--   step        integer   1 at the start, -1 at the end
--   time_ns     bigint    when

select source_id, device_id, activity as series, step, if(step > 0, start_ns, end_ns) as time_ns
from _device_activity
cross join (values (1), (-1)) as side(step)
