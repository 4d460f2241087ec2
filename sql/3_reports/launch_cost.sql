-- A row is one way of training several adapters and one measure of a step: what it costs once and what each adapter adds.
--
-- Fitted over the runs that were read together (lorabench analyze RUN_DIR...), by least squares: fixed + k · per_adapter
-- for k adapters. Training adapters apart costs k · (fixed + per_adapter); one pass over a shared base costs
-- fixed + k · per_adapter (the launch-cost model of the BatchLoRA paper, alpha and beta). Empty without manifests of
-- lorabench collect beside the traces; fixed is NULL where all runs have as many adapters.
--
-- columns:
--   way              varchar   'switch', 'seq', 'process', 'batch, fused', 'batch, loop' or 'batch, loop, pruned'
--   measure          varchar   'launch_cnt', 'launch_ns' (launching calls without their waits for the
--         GPU), 'launch_wait_ns' (those waits), 'wall_ns' or 'kernel_ns' of a step of all adapters
--   fixed            double    alpha: what a step costs however many adapters
--   per_adapter      double    beta: what each adapter adds
--   fit_frac         double    share of the variance that the line explains (R squared)
--   run_cnt          bigint    runs
--   adapter_cnt      bigint    adapters in the largest
--   measured         double    the measure there, mean of its runs
--   apart            double    adapter_cnt · (fixed + per_adapter): as many adapters trained separately, by the same line
--   saved_frac       double    1 - measured / apart
--   method           varchar   what was trained: 'lora', 'qlora'
--   model            varchar   the base model
--   kind             varchar   'nsys' or 'kineto': which profiler recorded them

with
point as (
    unpivot (
        select way, method, model, kind, adapter_cnt, launch_cnt::double as launch_cnt,
            launch_ns::double as launch_ns, launch_wait_ns::double as launch_wait_ns, wall_ns::double as wall_ns, kernel_ns::double as kernel_ns
        from _run_launches
    ) on launch_cnt, launch_ns, launch_wait_ns, wall_ns, kernel_ns into name measure value value
),
largest as (
    select *, max(adapter_cnt) over (partition by way, method, model, kind, measure) as largest_cnt
    from point
),
fitted as (
    select
        way,
        measure,
        if(count(distinct adapter_cnt) > 1, regr_intercept(value, adapter_cnt), null) as fixed,
        if(count(distinct adapter_cnt) > 1, regr_slope(value, adapter_cnt), null) as per_adapter,
        if(count(distinct adapter_cnt) > 1, regr_r2(value, adapter_cnt), null) as fit_frac,
        count(*) as run_cnt,
        max(adapter_cnt) as adapter_cnt,
        avg(value) filter (adapter_cnt = largest_cnt) as measured,
        method,
        model,
        kind
    from largest
    group by way, measure, method, model, kind
)
select
    way,
    measure,
    fixed,
    per_adapter,
    fit_frac,
    run_cnt,
    adapter_cnt,
    measured,
    adapter_cnt * (fixed + per_adapter) as apart,
    1 - measured / nullif(adapter_cnt * (fixed + per_adapter), 0) as saved_frac,
    method,
    model,
    kind
from fitted
order by model, method, kind, measure, way
