-- A row is the moment when a GPU operation joins its stream's queue (step 1) or leaves it to begin (step -1).
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device, NULL without
--   series      bigint    the stream
--   step        integer   1 when it joins the queue, -1 when it leaves it
--   time_ns     bigint    when

select source_id, device_id, stream_id as series, step, if(step > 0, launch_end_ns, start_ns) as time_ns
from gpu_op
cross join (values (1), (-1)) as side(step)
where launch_end_ns < start_ns
