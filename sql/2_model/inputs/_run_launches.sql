-- A row is one recorded run of adapters: how it trained them, how many, and what launching cost in a step of all of them.
--
-- What a run was is in the manifest that lorabench collect left beside the trace. A step of all adapters is one step
-- number, of which other modes than batch have a range for each adapter.
--
-- columns:
--   source_id        integer   the input
--   kind             varchar   its kind: which profiler recorded it
--   method           varchar   how it was trained, as in launch_cost; NULL if not recorded
--   model            varchar   the base model, NULL if not recorded
--   way              varchar   'switch', 'seq', 'process', 'batch, fused', 'batch, loop' or 'batch, loop, pruned'
--   adapter_cnt      bigint    adapters
--   launch_cnt       double    launching calls of a step of all adapters
--   launch_ns        double    their summed duration, without their waits for the GPU
--   launch_wait_ns   double    those waits
--   wall_ns          double    how long the step takes on the CPU
--   kernel_ns        double    summed duration of its kernels

with
run as (
    select
        source_id,
        said['peft_mode'] as peft_mode,
        said['batch_operator'] as batch_operator,
        said['graph_pruning'] as graph_pruning,
        said['method'] as method,
        said['model'] as model,
        try_cast(said['lora_cnt'] as bigint) as adapter_cnt
    from _run_facts
),
waiting as (
    select step_path.source_id, sum(path_wait.wait_ns) as wait_ns
    from (select distinct source_id, path_id from _step) as step_path
    join _path_wait as path_wait using (path_id)
    group by step_path.source_id
),
step as (
    select
        source_id,
        count(distinct step) as step_cnt,
        sum(launch_cnt) as launch_cnt,
        sum(launch_api_ns) - any_value(coalesce(waiting.wait_ns, 0)) as launch_ns,
        any_value(coalesce(waiting.wait_ns, 0)) as launch_wait_ns,
        sum(wall_ns) as wall_ns,
        sum(kernel_ns) as kernel_ns
    from step_summary
    left join waiting using (source_id)
    group by source_id
)
select
    run.source_id,
    source.kind,
    run.method,
    run.model,
    case
        when run.peft_mode <> 'batch' then run.peft_mode
        when run.batch_operator = 'loop' then if(run.graph_pruning = 'True', 'batch, loop, pruned', 'batch, loop')
        else 'batch, ' || coalesce(run.batch_operator, 'fused')
    end as way,
    run.adapter_cnt,
    step.launch_cnt / step.step_cnt as launch_cnt,
    step.launch_ns / step.step_cnt as launch_ns,
    step.launch_wait_ns / step.step_cnt as launch_wait_ns,
    step.wall_ns / step.step_cnt as wall_ns,
    step.kernel_ns / step.step_cnt as kernel_ns
from run
join step on step.source_id = run.source_id
join source on source.source_id = run.source_id
where run.adapter_cnt > 0
