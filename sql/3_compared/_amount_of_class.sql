-- A row is an operation on a GPU and what kernel_class adds up of it.
--
-- columns:
--   source_id    integer   the input
--   process      bigint    as in _timed_op
--   at_ns        bigint    as in _timed_op
--   key          varchar   its class
--   gpu_op_ns    bigint    how long it took
--   gpu_op_cnt   integer   1

select op.source_id, op.process, op.at_ns, op_class.class::varchar as key, op.gpu_op_ns, 1 as gpu_op_cnt
from _timed_op as op
left join _owner as own using (attribution_id)
join _op_class as op_class
    on op_class.name_id = op.name_id
    and work_kind(op_class.kind) = op.kind
    and op_class.path_id is not distinct from own.path_id
