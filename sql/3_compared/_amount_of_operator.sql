-- A row is an operation on a GPU that an operator launched, and what operator_summary adds up of it.
--
-- columns:
--   source_id     integer   the input
--   process       bigint    as in _timed_op
--   at_ns         bigint    as in _timed_op
--   key           bigint    the operator's name
--   self_gpu_ns   bigint    how long it took

select op.source_id, op.process, op.at_ns, call.name_id as key, op.gpu_op_ns as self_gpu_ns
from _timed_op as op
join range as call on call.range_id = op.operator_id
