-- A row is a kernel on the critical path and the one rule that it is blamed on.
--
-- The first of these that fits: it is a part of attention by PyTorch's math implementation that is no product of matrices
-- (math_attention); a product of matrices in 32 bits on a device that is faster in 16 (float32_matmul); a conversion
-- between layouts (layout_conversion); one of three or more kernels in a row on its stream that one could be, but for the
-- one that takes longest, which stands for the pass over memory that a fused kernel makes (unfused_elementwise); what
-- the backward computes again (recomputation); or else none, which dominant_kernel looks at. So each nanosecond is blamed once,
-- and all that rules blame together is no more than the kernels' time on the critical path.
--
-- columns:
--   source_id     integer   the input
--   gpu_op_id     bigint    the kernel
--   name_id       bigint    its name
--   path_id       bigint    path of the range that owns it, of attention the operator's; NULL outside all ranges
--   class         varchar   its class, see kernel_class
--   critical_ns   double    its time on the critical path, the mean of the input's processes
--   gain_frac     double    how much of it the tensor cores would save, for float32_matmul; of Winograd's transformation, which does with a quarter of a convolution's products, so much less
--   run_id        bigint    the first kernel of its row, for unfused_elementwise
--   is_launched   boolean   whether the call that launched it is recorded; without it no range is known
--   rule          varchar   the rule, NULL for none

with
judged as (
    select segment.*
    from critical_segment as segment
    join _steady_time as steady using (source_id)
    where segment.start_ns >= steady.start_ns and segment.start_ns < steady.end_ns
),
process as (
    select source_id, count(*) as cnt
    from (select distinct source_id, process_id from judged)
    group by source_id
),
critical as (
    select own.source_id, own.gpu_op_id, own.ns / process.cnt as critical_ns
    from (
        select source_id, gpu_op_id, sum(end_ns - start_ns) as ns
        from judged
        where kind = 'gpu'
        group by source_id, gpu_op_id
    ) as own
    join process using (source_id)
),
peak as (
    select source_id, matrix32_flops / matrix16_flops as slower_frac
    from _device_peak
),
math as (
    select attribution.attribution_id, min(attribution.path_id) as path_id
    from attribution
    join range_path using (path_id)
    join name using (name_id)
    where name.text = 'aten::_scaled_dot_product_attention_math'
    group by attribution.attribution_id
),
again as (
    select path_id
    from range_path
    where regexp_matches(path, '(^|/)(recompute|recomputation)(/|$)')
),
owner as (
    select attribution_id, own.path_id, math.path_id as math_path_id, math.attribution_id is not null as is_math
    from _owner as own
    full join math using (attribution_id)
)
select
    critical.source_id,
    critical.gpu_op_id,
    op.name_id,
    coalesce(owner.math_path_id, owner.path_id) as path_id,
    op_class.class,
    critical.critical_ns,
    1 - least(1, full_precision.fewer * peak.slower_frac) as gain_frac,
    run.run_id,
    op.api_call_id is not null as is_launched,
    case
        when owner.is_math and op_class.class <> 'matmul' then 'math_attention'
        when full_precision.fewer * peak.slower_frac < 1 then 'float32_matmul'
        when op_class.class = 'layout' then 'layout_conversion'
        when run.gpu_op_id is not null then 'unfused_elementwise'
        when again.path_id is not null or by_operator.attribution_id is not null then 'recomputation'
    end as rule
from critical
join gpu_op as op using (gpu_op_id)
left join owner on owner.attribution_id = op.attribution_id
join _op_class as op_class
    on op_class.name_id = op.name_id
    and op_class.path_id is not distinct from owner.path_id
    and op_class.kind = 'kernel'
left join _fusible_run as run on run.gpu_op_id = critical.gpu_op_id
left join again on again.path_id = owner.path_id
left join _recomputing_set as by_operator on by_operator.attribution_id = op.attribution_id
left join peak on peak.source_id = critical.source_id
left join _full_precision_name as full_precision on full_precision.name_id = op.name_id
where op.kind = 'kernel' and op_class.class <> 'communication'
