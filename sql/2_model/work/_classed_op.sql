-- A row is one GPU operation with its class.
--
-- columns:
--   gpu_op_id         bigint    the operation
--   source_id         integer   the input
--   device_id         integer   the device, NULL without
--   stream_id         bigint    its stream
--   kind              varchar   'kernel', 'memcpy', 'memset' or 'graph'
--   name_id           bigint    its name
--   start_ns          bigint    begin
--   end_ns            bigint    end
--   process_id        bigint    its process, NULL if not recorded
--   launch_start_ns   bigint    begin of the launching call, NULL if not recorded
--   attribution_id    bigint    its set of name paths, NULL without
--   class             varchar   its class, as _op_class has it

select
    gpu_op.gpu_op_id,
    gpu_op.source_id,
    gpu_op.device_id,
    gpu_op.stream_id,
    gpu_op.kind,
    gpu_op.name_id,
    gpu_op.start_ns,
    gpu_op.end_ns,
    gpu_op.process_id,
    gpu_op.launch_start_ns,
    gpu_op.attribution_id,
    op_class.class
from gpu_op
left join _owner as own using (attribution_id)
join _op_class as op_class
    on op_class.name_id = gpu_op.name_id
    and op_class.path_id is not distinct from own.path_id
    and work_kind(op_class.kind) = gpu_op.kind
