-- A row is an operation on a GPU, and whether one kernel could take it together with others.
--
-- What adds the gradient of a parameter to what is there has tensors of its own: together or apart, all of them are read and
-- written once.
--
-- columns:
--   gpu_op_id    bigint    the operation
--   source_id    integer   the input
--   device_id    integer   the device, NULL without
--   stream_id    bigint    the stream, NULL without
--   process      bigint    the process, 0 without
--   name_id      bigint    its name
--   launch_ns    bigint    begin of the call that launched it, else its start
--   gpu_op_ns    bigint    how long it took
--   is_fusible   boolean   whether its name and class are in _fusible_name, and it adds up no gradients

with
accumulating as (
    select distinct attribution.attribution_id
    from attribution
    join range_path using (path_id)
    join name using (name_id)
    where ends_with(name.text, 'torch::autograd::AccumulateGrad')
)
select
    op.gpu_op_id,
    op.source_id,
    op.device_id,
    op.stream_id,
    coalesce(op.process_id, 0) as process,
    op.name_id,
    coalesce(op.launch_start_ns, op.start_ns) as launch_ns,
    op.end_ns - op.start_ns as gpu_op_ns,
    fusible.name_id is not null and accumulating.attribution_id is null as is_fusible
from _classed_op as op
left join _fusible_name as fusible
    on fusible.source_id = op.source_id
    and fusible.class = op.class
    and fusible.name_id = op.name_id
left join accumulating on accumulating.attribution_id = op.attribution_id
