-- A row is one of the five operators, by name and shapes of inputs, that launched most of the time of a kernel of _page_kernel.
--
-- columns:
--   source_id      integer   the input
--   name_id        bigint    the kernel
--   operator       varchar   the innermost PyTorch operator around the launching call
--   input_shapes   varchar   sizes of its inputs, NULL where not recorded
--   kernel_cnt     bigint    executions
--   kernel_ns      bigint    their summed duration

with
launched as (
    select
        op.source_id,
        op.name_id,
        call.name_id as operator_id,
        call.shape_id,
        count(*) as kernel_cnt,
        sum(op.end_ns - op.start_ns)::bigint as kernel_ns
    from gpu_op as op
    semi join _page_kernel as kernel on kernel.source_id = op.source_id and kernel.name_id = op.name_id
    join range as call on call.range_id = op.operator_id
    where op.kind = 'kernel'
    group by op.source_id, op.name_id, call.name_id, call.shape_id
    qualify row_number() over (
        partition by op.source_id, op.name_id order by sum(op.end_ns - op.start_ns) desc, call.name_id, call.shape_id
    ) <= 5
)
select
    launched.source_id,
    launched.name_id,
    name.text as operator,
    string_split(shape.text, '|')[1] as input_shapes,
    launched.kernel_cnt,
    launched.kernel_ns
from launched
join name on name.name_id = launched.operator_id
left join name as shape on shape.name_id = launched.shape_id
order by launched.source_id, launched.name_id, launched.kernel_ns desc, operator, input_shapes
