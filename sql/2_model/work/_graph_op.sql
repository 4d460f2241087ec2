-- A row is an operation on a GPU that the launch of a CUDA graph brought.
--
-- columns:
--   gpu_op_id     bigint    the operation
--   source_id     integer   the input
--   device_id     integer   the device, NULL without
--   api_call_id   bigint    the launch
--   is_first_op   boolean   whether it is the first of its launch
--   end_ns        bigint    its end

select op.gpu_op_id, op.source_id, op.device_id, op.api_call_id, op.is_first_op, op.end_ns
from gpu_op as op
semi join (
    select api_call_id
    from api_call
    semi join (select name_id from name where contains(text, 'GraphLaunch')) as launching using (name_id)
) as launched using (api_call_id)
