-- A row is an operation on a GPU with the process and the moment by which it belongs to a step.
--
-- A kernel without a launch, where calls are recorded, was launched before the recording, and in none of its steps;
-- unless these are no ranges but stretches of time (_step_work).
--
-- columns:
--   gpu_op_id        bigint    the operation
--   source_id        integer   the input
--   process          bigint    its process, as _work_process has it
--   at_ns            bigint    when it was launched, else its start; NULL where it belongs to no step
--   kind             varchar   kernel, memcpy, memset, graph
--   name_id          bigint    its name
--   attribution_id   bigint    the set of its paths
--   range_id         bigint    the innermost range that owns it
--   operator_id      bigint    the operator that launched it
--   gpu_op_ns        bigint    how long it took

with
untimed as (
    select source_id
    from api_call
    except
    select source_id
    from _step
    where range_id is null
)
select
    gpu_op.gpu_op_id,
    gpu_op.source_id,
    coalesce(gpu_op.process_id, 0) as process,
    coalesce(
        gpu_op.launch_start_ns,
        if(gpu_op.kind = 'kernel' and gpu_op.source_id in (from untimed), null, gpu_op.start_ns)
    ) as at_ns,
    gpu_op.kind::varchar as kind,
    gpu_op.name_id,
    gpu_op.attribution_id,
    gpu_op.range_id,
    gpu_op.operator_id,
    gpu_op.end_ns - gpu_op.start_ns as gpu_op_ns
from gpu_op
