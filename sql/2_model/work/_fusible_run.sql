-- A row is one of three or more kernels in a row on a stream that one kernel could be, but for the one that takes longest.
--
-- They are those of the macro is_fusible. No trace says which kernel reads what another one wrote. Of several of one name behind
-- each other, as of a loop over arrays, each of which takes a pass, the first alone counts. A row of them is in the order of
-- launches and ends with any other work, with a step or a wait of the CPU for the GPU (one kernel is launched in one go), or with
-- the tenth (a residual and an RMS norm with its casts are nine): more in a row have tensors of their own, as in a loop over
-- parameters, each of which takes a pass. The longest, of equals the first, stands for the pass over memory that one fused kernel
-- would make. Of streams without work on the critical path nothing is asked.
--
-- columns:
--   gpu_op_id   bigint   the kernel
--   run_id      bigint   the first kernel of its row

with
launched as (
    select op.*, border.at_ns
    from _fusible_op as op
    asof left join _launch_border as border
        on border.source_id = op.source_id
        and border.process = op.process
        and border.at_ns <= op.launch_ns
),
begun as (
    select
        *,
        not is_fusible or coalesce(
            at_ns is distinct from lag(at_ns) over (partition by source_id, device_id, stream_id order by gpu_op_id), true
        ) as begins
    from launched
),
ordered as (
    select
        begun.gpu_op_id,
        begun.source_id,
        begun.device_id,
        begun.stream_id,
        begun.gpu_op_ns,
        begun.is_fusible,
        begun.begins,
        begun.name_id is distinct from lag(begun.name_id) over (
            partition by begun.source_id, begun.device_id, begun.stream_id order by begun.gpu_op_id
        ) as is_other,
        sum(if(begun.begins, 1, 0)) over (
            partition by begun.source_id, begun.device_id, begun.stream_id
            order by begun.gpu_op_id
            rows unbounded preceding
        ) as row_number
    from begun
    semi join _critical_stream as asked
        on asked.source_id = begun.source_id
        and asked.device_id is not distinct from begun.device_id
        and asked.stream_id is not distinct from begun.stream_id
),
cut as (
    select
        *,
        (row_number() over (partition by source_id, device_id, stream_id, row_number order by gpu_op_id) - 1) // 10 as piece
    from ordered
    where is_fusible and (begins or is_other)
),
in_row as (
    select
        gpu_op_id,
        min(gpu_op_id) over (partition by source_id, device_id, stream_id, row_number, piece) as run_id,
        count(*) over (partition by source_id, device_id, stream_id, row_number, piece) as run_cnt,
        row_number() over (
            partition by source_id, device_id, stream_id, row_number, piece
            order by gpu_op_ns desc, gpu_op_id
        ) as place
    from cut
)
select gpu_op_id, run_id
from in_row
where run_cnt >= 3 and place > 1
