-- A row is one PyTorch operator with one set of input shapes: its calls, their time on CPU and GPU, and how near they come
-- to what the device can do.
--
-- Shapes are there when the trace was recorded with record_shapes=True (lorabench collect --with-shapes), or by
-- emit_nvtx(record_shapes=True). Times of nested calls of one operator add up, as in torch's key_averages(). FLOP and
-- bytes are those of matrix products, attention, convolutions, norms, softmax and elementwise operators, in the calls
-- that launched GPU work of their own (a recomputation may end inside an operator, before it has launched anything);
-- where the input has no GPU work, in all calls. A rate is over self_gpu_ns.
--
-- The roofline is the least time that the device's data sheet allows for both, over the time taken. What fits into the
-- device's last cache may never reach its memory: a call must move only the bytes beyond that. Products in 8 bits are
-- taken for twice as fast as those in 16, those in 32 for half as fast in inputs whose kernels use TF32, as data sheets do.
-- A convolution with a window may do with a quarter of its FLOP (Winograd).
--
-- columns:
--   operator          varchar   name of the operator
--   input_shapes      varchar   sizes of its inputs, NULL where not recorded
--   input_types       varchar   their types
--   call_cnt          bigint    calls
--   gpu_call_cnt      bigint    calls that launched GPU work of their own
--   cpu_ns            bigint    time on the CPU, with what it called
--   self_cpu_ns       bigint    without the operators and ranges inside
--   gpu_ns            bigint    GPU work launched during the calls on their thread
--   self_gpu_ns       bigint    without what operators inside launched
--   backward_gpu_ns   bigint    GPU work of its backward, by sequence number, and of other threads in its window
--   flop              double    floating-point operations, NULL for operators that are not counted
--   bytes             double    bytes that must be moved at least
--   flop_s            double    flop / time on the GPU
--   bytes_s           double    bytes / time on the GPU
--   bound             varchar   'compute' or 'memory': which limit of the device is nearer if all bytes come from its memory, NULL
--         for an unknown device
--   roofline_frac     double    least time by both limits, as described above / time on the GPU
--   source_id         integer   the input, see trace_info
--   rank              integer   rank of the input, NULL if not recorded

with
call as (
    select
        call.source_id,
        call.name_id,
        call.shape_id,
        if(call.shape_id is null, regexp_extract(text.text, ', sizes = (.*)$', 1), null) as nvtx_sizes,
        count(*) as call_cnt,
        count(*) filter (call.self_gpu_ns > 0) as gpu_call_cnt,
        sum(call.cpu_ns) as cpu_ns,
        sum(call.self_cpu_ns) as self_cpu_ns,
        sum(call.gpu_ns) as gpu_ns,
        sum(call.self_gpu_ns) as self_gpu_ns,
        sum(call.backward_gpu_ns) as backward_gpu_ns
    from _operator_gpu as call
    join name as text on text.name_id = call.text_id
    group by all
),
counted as (
    select call.*, if(gpu.source_id is null, call.call_cnt, nullif(call.gpu_call_cnt, 0)) as counted_cnt
    from call
    left join _source_with_gpu as gpu on gpu.source_id = call.source_id
),
measured as (
    select
        call.*,
        name.text as operator,
        coalesce(shape.input_shapes, nullif(call.nvtx_sizes, '')) as input_shapes,
        shape.input_types,
        call.counted_cnt * shape.flop as flop,
        call.counted_cnt * shape.bytes as bytes,
        nullif(call.self_gpu_ns, 0) / 1e9 as gpu_s,
        call.counted_cnt * bound.compute_s as compute_s,
        call.counted_cnt * bound.memory_s as memory_s,
        call.counted_cnt * bound.least_s as least_s
    from counted as call
    join name on name.name_id = call.name_id
    left join _operator_shape as shape
        on shape.source_id = call.source_id
        and shape.name_id = call.name_id
        and shape.shape_id = call.shape_id
    left join _operator_bound as bound
        on bound.source_id = call.source_id
        and bound.name_id = call.name_id
        and bound.shape_id = call.shape_id
)
select
    measured.operator,
    measured.input_shapes,
    measured.input_types,
    measured.call_cnt,
    measured.gpu_call_cnt,
    measured.cpu_ns::bigint as cpu_ns,
    measured.self_cpu_ns::bigint as self_cpu_ns,
    measured.gpu_ns::bigint as gpu_ns,
    measured.self_gpu_ns::bigint as self_gpu_ns,
    measured.backward_gpu_ns::bigint as backward_gpu_ns,
    measured.flop,
    measured.bytes,
    measured.flop / measured.gpu_s as flop_s,
    measured.bytes / measured.gpu_s as bytes_s,
    if(measured.memory_s is null, null, if(measured.compute_s > measured.memory_s, 'compute', 'memory')) as bound,
    measured.least_s / measured.gpu_s as roofline_frac,
    measured.source_id,
    source.rank
from measured
join source on source.source_id = measured.source_id
order by measured.source_id, measured.self_gpu_ns desc, measured.self_cpu_ns desc, measured.operator,
    measured.input_shapes, measured.input_types
