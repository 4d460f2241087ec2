-- A row is a copy that its call feeds through staging buffers: the call waits for it, and returns a little before its end.
--
-- needs: gpu_op, reading, waiting_call

select op.gpu_op_id
from waiting_call as wait
semi join reading using (source_id)
join gpu_op as op using (api_call_id)
where wait.kind = 'memcpy' and wait.is_pageable and op.kind = 'memcpy' and op.end_ns > op.launch_end_ns
