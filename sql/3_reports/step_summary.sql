-- A row is one step of training: how long it took, what its phases took, and what the GPU did for it.
--
-- Steps are annotations that end in step, iter or iteration and a number (`step 3`, `ProfilerStep#12`); of nested ones
-- the outer. Phases are annotations inside by their names; NULL where a step has none of that name. A step is uneven
-- when it is slower than the input's median by more than the threshold uneven_step_frac.
--
-- columns:
--   step                bigint    its number
--   wall_ns             bigint    its duration on the CPU
--   data_ns             bigint    wall time of ranges named data inside it
--   h2d_ns              bigint    of ranges named h2d
--   forward_ns          bigint    of ranges named forward
--   backward_ns         bigint    of ranges named backward
--   optimizer_ns        bigint    of ranges named optimizer, or of torch's Optimizer.step
--   launch_cnt          bigint    launching calls of its GPU work
--   launch_api_ns       bigint    their summed duration
--   kernel_cnt          bigint    kernels
--   kernel_ns           bigint    their summed duration
--   gpu_busy_ns         bigint    time in which its GPU work ran, per device, added up
--   launch_overhead_ns  bigint    time of the step in which none of its GPU work ran, NULL where the file has no GPU work
--   token_cnt           bigint    tokens of the step of all adapters; NULL without steps.csv of lorabench collect beside the trace
--   slower_frac         double    wall_ns / median of the input's steps - 1
--   is_uneven           boolean   slower_frac above the threshold
--   path                varchar   name path of the step
--   start_ns            bigint    begin
--   range_id            bigint    key, see range_instance
--   source_id           integer   the input, see trace_info
--   rank                integer   rank of the input, NULL if not recorded

with
phase as (
    select
        step.range_id,
        sum(inner_range.end_ns - inner_range.start_ns) filter (name.text = 'data') as data_ns,
        sum(inner_range.end_ns - inner_range.start_ns) filter (name.text = 'h2d') as h2d_ns,
        sum(inner_range.end_ns - inner_range.start_ns) filter (name.text = 'forward') as forward_ns,
        sum(inner_range.end_ns - inner_range.start_ns) filter (name.text = 'backward') as backward_ns,
        sum(inner_range.end_ns - inner_range.start_ns) filter (name.text = 'optimizer') as optimizer_ns,
        sum(inner_range.end_ns - inner_range.start_ns) filter (name.text like 'Optimizer.step#%') as torch_optimizer_ns
    from _step as step
    join range as inner_range
        on inner_range.source_id = step.source_id
        and inner_range.thread_id = step.thread_id
        and inner_range.start_ns >= step.start_ns
        and inner_range.end_ns <= step.end_ns
    join name using (name_id)
    where inner_range.kind = 'annotation'
        and (name.text in ('data', 'h2d', 'forward', 'backward', 'optimizer') or name.text like 'Optimizer.step#%')
    group by step.range_id
),
measured as (
    select
        step.*,
        step.end_ns - step.start_ns as wall_ns,
        (step.end_ns - step.start_ns) / median(step.end_ns - step.start_ns) over (partition by step.source_id) - 1
            as slower_frac
    from _step as step
)
select
    measured.step,
    measured.wall_ns,
    phase.data_ns::bigint as data_ns,
    phase.h2d_ns::bigint as h2d_ns,
    phase.forward_ns::bigint as forward_ns,
    phase.backward_ns::bigint as backward_ns,
    coalesce(phase.optimizer_ns, phase.torch_optimizer_ns)::bigint as optimizer_ns,
    coalesce(measure.launch_cnt, 0) as launch_cnt,
    coalesce(measure.launch_api_ns, 0) as launch_api_ns,
    coalesce(measure.kernel_cnt, 0) as kernel_cnt,
    coalesce(measure.kernel_ns, 0) as kernel_ns,
    coalesce(measure.gpu_busy_ns, 0) as gpu_busy_ns,
    if(gpu.source_id is not null, measured.wall_ns - coalesce(measure.gpu_busy_inside_ns, 0), null)
        as launch_overhead_ns,
    run_step.token_cnt,
    measured.slower_frac,
    measured.slower_frac > (select value from threshold where name = 'uneven_step_frac') as is_uneven,
    range_path.path,
    measured.start_ns,
    measured.range_id,
    measured.source_id,
    source.rank
from measured
join range_path using (path_id)
join source on source.source_id = measured.source_id
left join run_step on run_step.source_id = measured.source_id and run_step.step = measured.step
left join phase using (range_id)
left join range_measure as measure using (range_id)
left join _source_with_gpu as gpu on gpu.source_id = measured.source_id
order by measured.source_id, measured.start_ns, measured.range_id
