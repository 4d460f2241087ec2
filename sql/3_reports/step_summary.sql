-- A row is one step, of training or of what else repeats: how long it took, what its phases took, and what the GPU did for it.
--
-- Steps are found in the first of these ways that finds any (found_by), all of an input in the same one:
-- 'annotation': numbered ranges (`step 3`, `ProfilerStep#12`, `## step 3 ##`, `Iteration: 4`, `train_step_5`);
-- 'framework': what Lightning, nanotron, vLLM and SGLang open around a step; 'repetition': a range that repeats on one
-- thread and covers most of the time in which work is launched, or, without GPU work, several side by side that come in turn;
-- 'optimizer': from the end of one `Optimizer.step#…` to the end of the next; 'period': the sequence of kernel names repeats,
-- or a long CUDA graph recorded as a whole does: from the launch of a step's first kernel to that of the next one's first. Of
-- nested ones the outer. Without GPU work the outermost operators of a thread take the place of kernels, where each repetition
-- has a backward. Steps of the last two, and of several ranges, are stretches of time without a range: their work is
-- what their process launches in them.
--
-- Phases are ranges inside by what their names mean, whatever the case and the punctuation; where no name says forward or
-- backward, the time that operators cover which sequence numbers link to backward nodes, and that the nodes cover. A step is
-- uneven when it is slower than the input's median by more than the threshold uneven_step_frac.
--
-- columns:
--   step                bigint    its number; counted from 1 where the trace gives none
--   found_by            varchar   'annotation', 'framework', 'repetition', 'optimizer' or 'period'
--   length_ns           bigint    how long it takes: until the next one begins; where the CPU runs ahead of the GPU, from when
--         the GPU is done with the step before (of the first, its own start) to when it is done with it; else of a step that
--         none follows wall_ns, or what keeps a device busy for longer
--   wall_ns             bigint    its own duration on the CPU, which may just enqueue what the GPU then takes long for
--   between_ns          bigint    time on the CPU between its end and the start of the next one: loading, logging; NULL where none follows
--   data_ns             bigint    wall time of fetching input inside it
--   h2d_ns              bigint    of copying input to the device
--   forward_ns          bigint    of the forward, or time covered by its operators
--   backward_ns         bigint    of the backward, or time covered by its nodes
--   optimizer_ns        bigint    of the optimizer, or of torch's Optimizer.step
--   launch_cnt          bigint    launching calls of its GPU work
--   launch_api_ns       bigint    their summed duration
--   launch_wait_ns      bigint    how much of it they waited for the GPU (sync_summary): not what launching costs
--   kernel_cnt          bigint    kernels
--   kernel_ns           bigint    their summed duration
--   gpu_busy_ns         bigint    time in which its GPU work ran, per device, added up
--   launch_overhead_ns  bigint    time of the step in which none of its GPU work ran, NULL if no GPU work was recorded
--   token_cnt           bigint    tokens of the step of all adapters; NULL without steps.csv of lorabench collect beside the trace
--   slower_frac         double    length_ns / median of the input's steps - 1
--   is_uneven           boolean   slower_frac above the threshold
--   path                varchar   name path of the step, NULL where no range is the step
--   start_ns            bigint    start
--   range_id            bigint    key, see range_instance; NULL where no range is the step
--   source_id           integer   the input, see trace_info
--   rank                integer   rank of the input, NULL if not recorded

with
measured as (
    select
        step.*,
        step.end_ns - step.start_ns as wall_ns,
        length.length_ns,
        length.between_ns,
        length.length_ns / median(length.length_ns) over (partition by step.source_id) - 1 as slower_frac
    from _step as step
    join _step_length as length using (source_id, step_id)
)
select
    measured.step,
    measured.found_by,
    measured.length_ns,
    measured.wall_ns,
    measured.between_ns,
    phase.data_ns,
    phase.h2d_ns,
    phase.forward_ns,
    phase.backward_ns,
    phase.optimizer_ns,
    coalesce(measure.launch_cnt, 0) as launch_cnt,
    coalesce(measure.launch_api_ns, 0) as launch_api_ns,
    coalesce(measure.launch_wait_ns, 0) as launch_wait_ns,
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
left join range_path using (path_id)
join source on source.source_id = measured.source_id
left join run_step on run_step.source_id = measured.source_id and run_step.step = measured.step
left join _step_phase as phase on phase.source_id = measured.source_id and phase.step_id = measured.step_id
left join _step_work as measure on measure.source_id = measured.source_id and measure.step_id = measured.step_id
left join _source_with_gpu as gpu on gpu.source_id = measured.source_id
order by measured.source_id, measured.start_ns, measured.step_id
