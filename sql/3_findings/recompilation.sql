-- A row is a kind of compiling within steps: torch.compile's, or loading a compiled kernel.
--
-- Something that was compiled for differs from step to step: lengths (pad to a few sizes, or mark_dynamic), a changing Python value, a new dtype or grad mode. TORCH_LOGS=recompiles says which guard failed. Kernels are loaded at their first use: warm up first.
with
in_step as (
    select compiling.*, step.step_id
    from _compiling as compiling
    asof join _step as step on step.source_id = compiling.source_id and compiling.start_ns >= step.start_ns
    join _steady_time as steady on steady.source_id = compiling.source_id
    where compiling.start_ns < step.end_ns and compiling.start_ns >= steady.start_ns
),
idle as (
    select source_id, compiled as place, sum(saving_ns) as saving_ns
    from _judged_gap
    where rule = 'recompilation'
    group by source_id, compiled
)
select
    in_step.source_id,
    in_step.place,
    -- without GPU work nothing hides the time; with it only idle time can be saved
    least(
        sum(in_step.end_ns - in_step.start_ns),
        if(gpu.source_id is null, null, coalesce(any_value(idle.saving_ns), 0))
    )::bigint as saving_ns,
    count(*) as occurrence_cnt,
    format('{} {} times in {} steps', any_value(in_step.what), count(*), count(distinct in_step.step_id)) as evidence
from in_step
left join _source_with_gpu as gpu on gpu.source_id = in_step.source_id
left join idle on idle.source_id = in_step.source_id and idle.place = in_step.place
group by in_step.source_id, in_step.place, gpu.source_id
