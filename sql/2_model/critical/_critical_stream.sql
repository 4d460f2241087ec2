-- A row is a stream with work on the critical path.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device, NULL without
--   stream_id   bigint    the stream, NULL without

select distinct op.source_id, op.device_id, op.stream_id
from gpu_op as op
semi join (select gpu_op_id from critical_segment where kind = 'gpu') as critical using (gpu_op_id)
