-- A row is a reason why GPU work belongs to no range, with how much work it is.
--
-- Self times of range_summary and this view add up to all GPU work of the input, exactly; kernel_cnt and kernel_ns
-- mean here what they mean in kernel_summary. Correlation ids grow within a process, so work with a smaller id
-- than any recorded call was launched before the recording began.
--
-- columns:
--   cause         varchar   'launched before the window', 'launch not in the file' (trimmed or dropped), 'no range
--         open' or 'pages moved on demand' (managed memory, which no call moves)
--   kernel_cnt    bigint    kernels
--   kernel_ns     bigint    their summed duration
--   kernel_frac   double    kernel_ns as a fraction of all kernel time of the input
--   gpu_op_cnt    bigint    GPU operations: kernels, copies, memsets, graph executions
--   gpu_op_ns     bigint    their summed duration
--   gpu_op_frac   double    gpu_op_ns as a fraction of all GPU operations of the input
--   source_id     integer   the input, see trace_info
--   rank          integer   rank of the input, NULL if not recorded

with
total as (
    select
        source_id,
        sum(end_ns - start_ns) filter (kind = 'kernel') as kernel_ns,
        sum(end_ns - start_ns) as gpu_op_ns
    from gpu_op
    group by source_id
),
caused as (
    select
        gpu_op.*,
        case
            when gpu_op.api_call_id is not null then 'no range open'
            when gpu_op.name_id in (select name_id from name where moves_pages(text)) then 'pages moved on demand'
            when gpu_op.correlation_id < first_call.correlation_id or gpu_op.start_ns < first_call.start_ns
                then 'launched before the window'
            else 'launch not in the file'
        end as cause
    from gpu_op
    left join _first_call as first_call
        on first_call.source_id = gpu_op.source_id
        and first_call.process_id is not distinct from gpu_op.process_id
    where gpu_op.attribution_id is null
)
select
    caused.cause,
    count(*) filter (caused.kind = 'kernel') as kernel_cnt,
    coalesce(sum(end_ns - start_ns) filter (caused.kind = 'kernel'), 0)::bigint as kernel_ns,
    coalesce(sum(end_ns - start_ns) filter (caused.kind = 'kernel'), 0) / nullif(any_value(total.kernel_ns), 0)
        as kernel_frac,
    count(*) as gpu_op_cnt,
    sum(end_ns - start_ns)::bigint as gpu_op_ns,
    sum(end_ns - start_ns) / nullif(any_value(total.gpu_op_ns), 0) as gpu_op_frac,
    source_id,
    any_value(source.rank) as rank
from caused
join total using (source_id)
join source using (source_id)
group by source_id, caused.cause
order by source_id, gpu_op_ns desc, cause
