-- A row is an input with a critical path: the share of its steady state that depends on the GPU, the mean of its processes.
--
-- All that is no time of the CPU or of copies: kernels, waiting for others, beginning behind a launch. Faster kernels save no
-- more than this, however long the GPU is busy (_steady_time, critical_segment). By replay they may save less: where a kernel
-- is shorter, something else is next.
--
-- columns:
--   source_id   integer   the input
--   gpu_frac    double    time on the critical path that is not the CPU's nor a copy's, as a fraction of the window
--   saved_frac  double    what kernels that take no time would save by replay, as a fraction of the window; NULL without a replay
--   paced_frac  double    ten times what a tenth less would save: of how much of the window they set the pace as it is

with
replayed as (
    select
        source_id,
        greatest(0, max(followed_rule.saving_ns) filter (rule = 'kernels') / any_value(_mean_window.window_ns)) as saved_frac,
        greatest(0, 10 * max(followed_rule.saving_ns) filter (rule = 'kernels_a_tenth') / any_value(_mean_window.window_ns)) as paced_frac
    from followed_rule
    join _mean_window using (source_id)
    where source_id not in (select source_id from _steady_time where has_rest)
        and source_id not in (select source_id from _clock_shift)
    group by source_id
)

select
    segment.source_id,
    coalesce(
        sum(least(segment.end_ns, steady.end_ns) - segment.start_ns) filter (segment.kind <> 'cpu' and op.kind not in ('memcpy', 'memset')), 0
    ) / count(distinct coalesce(segment.process_id, -1)) / any_value(steady.end_ns - steady.start_ns) as gpu_frac,
    any_value(replayed.saved_frac) as saved_frac,
    any_value(replayed.paced_frac) as paced_frac
from critical_segment as segment
join _steady_time as steady using (source_id)
left join gpu_op as op on op.gpu_op_id = segment.gpu_op_id
left join replayed on replayed.source_id = segment.source_id
where segment.start_ns >= steady.start_ns and segment.start_ns < steady.end_ns
group by segment.source_id
