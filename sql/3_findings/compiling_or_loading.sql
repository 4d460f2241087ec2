-- A row is a kind of preparation within steps, or in an input without steps: compiling, loading a kernel, making a CUDA graph.
--
-- What the code was specialized on changes from step to step: lengths (pad to a few sizes, or mark_dynamic), a Python value, a dtype or grad mode. TORCH_LOGS=recompiles says which guard failed.
--
-- Without torch: What the code was specialized on changes from step to step: shapes, types, values. Or kernels are loaded on first use: CUDA_MODULE_LOADING=EAGER loads them at startup.
--
-- Only with: from _compiling
with
in_step as (
    select compiling.*, step.step_id
    from _compiling as compiling
    asof join _step as step on step.source_id = compiling.source_id and compiling.start_ns >= step.start_ns
    join _steady_time as steady on steady.source_id = compiling.source_id
    where compiling.start_ns < step.end_ns and compiling.start_ns >= steady.start_ns
),
-- without steps nobody knows what comes again; the first launch behind a load, or what is captured, is of the same kind, so
-- the whole of a gap counts
once as (
    select compiling.*, null as step_id
    from _compiling as compiling
    join _steady_time as steady using (source_id)
    anti join _step using (source_id)
    semi join _source_with_gpu using (source_id)
    where compiling.start_ns >= steady.start_ns and compiling.start_ns < steady.end_ns
),
found as (
    from in_step
    union all by name
    from once
),
idle as (
    select source_id, compiled as place, sum(saving_ns) as saving_ns
    from _judged_gap
    where rule = 'compiling_or_loading'
    group by source_id, compiled
)
select
    found.source_id,
    found.place,
    -- without GPU work nothing hides the time; with it only idle time can be saved
    least(
        if(count(found.step_id) = 0, null, sum(found.end_ns - found.start_ns)),
        if(gpu.source_id is null, null, coalesce(any_value(idle.saving_ns), 0))
    )::bigint as saving_ns,
    count(*) as occurrence_cnt,
    format('{} {}', any_value(found.what), if(count(*) = 1, 'once', format('{:,} times', count(*))))
    || if(
        count(found.step_id) = 0,
        format('; the GPU is idle for {} around it', said_ns(coalesce(any_value(idle.saving_ns), 0))),
        format(' in {}', if(count(distinct found.step_id) = 1, 'one step', count(distinct found.step_id) || ' steps'))
    ) as evidence,
    case
        -- all over the recording, or in most steps: it is not paid once, but for a kernel that is loaded at its first launch
        when count(*) >= 3 and not (bool_and(found.what = 'loaded') and contains(found.place, 'Launch')) and if(
            count(found.step_id) = 0,
            2 * (max(found.start_ns) - min(found.start_ns)) > any_value(steady.end_ns - steady.start_ns),
            2 * count(distinct found.step_id) > greatest(3, any_value(steady.step_cnt))
        )
            then if(
                bool_and(found.what = 'made'),
                'Graphs are rebuilt again and again: capture one per shape, keep it and relaunch it '
                || '(cudaGraphExecUpdate where arguments change).',
                null
            )
        when count(found.step_id) = 0
            then 'This is paid once: warm up before the recording begins, so that it shows what a long run pays.'
        when bool_and(found.what = 'made') and count(distinct found.step_id) = 1 and any_value(steady.step_cnt) >= 5
            then 'This is paid once: a graph is captured there for what runs for the first time. Warm it up before measuring.'
        when bool_and(found.what = 'compiled') and count(distinct found.step_id) = 1 and any_value(steady.step_cnt) >= 5
            then 'This is paid once: what ran there for the first time, such as an evaluation (no_grad, eval()) or a shorter last '
                || 'batch (drop_last=True), triggered a recompilation. Warm it up before measuring.'
        when bool_and(found.what = 'loaded')
            then 'Kernels are loaded on first use, which is paid once: warm up with steps like these before measuring'
            || if(starts_with(found.place, 'hip'), '.', ' (CUDA_MODULE_LOADING=EAGER loads all at startup).')
    end as advice
from found
join _steady_time as steady on steady.source_id = found.source_id
left join _source_with_gpu as gpu on gpu.source_id = found.source_id
left join idle on idle.source_id = found.source_id and idle.place = found.place
group by found.source_id, found.place, gpu.source_id
