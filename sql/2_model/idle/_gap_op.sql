-- A row is an operation on a GPU as far as the gap before it is judged by it.
--
-- columns:
--   gpu_op_id         bigint    the operation
--   source_id         integer   the input
--   process           bigint    the process, 0 without
--   path_id           bigint    the path of the range that owns it, NULL without
--   name_id           bigint    its name
--   kind              varchar   as in gpu_op
--   launch_start_ns   bigint    begin of the call that launched it, NULL without
--   launch_end_ns     bigint    end of that
--   gpu_op_ns         bigint    how long it took

select
    op.gpu_op_id,
    op.source_id,
    coalesce(op.process_id, 0) as process,
    own.path_id,
    op.name_id,
    op.kind::varchar as kind,
    op.launch_start_ns,
    op.launch_end_ns,
    op.end_ns - op.start_ns as gpu_op_ns
from gpu_op as op
left join _owner as own using (attribution_id)
