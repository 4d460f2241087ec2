-- A row is an input with steps: how much of the CPU's time of those that count is in which phase, and between them.
--
-- columns:
--   source_id   integer   the input
--   wall_ns     bigint    all of it
--   between     bigint    ns between their ends and the begins of the next ones
--   data        bigint    ns in getting input
--   h2d         bigint    ns in moving it to the device
--   no_grad     bigint    ns in a forward without gradients
--   forward     bigint    ns in the forward
--   backward    bigint    ns in the backward
--   optimizer   bigint    ns in the optimizer
--   recompute   bigint    ns of the backward in computing again what the forward did not keep, on any thread

with
step as (
    select step_summary.*
    from step_summary
    join _steady_time as steady using (source_id)
    where step_summary.start_ns >= coalesce(steady.first_step_ns, step_summary.start_ns)
),
named as (
    select range.source_id, said.phase, range.start_ns, range.end_ns
    from range
    join _phase_name as said on said.name_id = range.text_id
    where range.kind = 'annotation' and said.phase in ('recompute', 'no_grad')
),
aside as (
    from named
    union all
    select source_id, 'recompute', start_ns, end_ns
    from _recomputing_stretch
    where source_id not in (select source_id from named where phase = 'recompute')
),
within as (
    select
        aside.source_id,
        sum(least(aside.end_ns, step.start_ns + step.wall_ns) - aside.start_ns) filter (phase = 'recompute') as recompute,
        sum(least(aside.end_ns, step.start_ns + step.wall_ns) - aside.start_ns) filter (phase = 'no_grad') as no_grad
    from aside
    asof join step on step.source_id = aside.source_id and step.start_ns <= aside.start_ns
    where aside.start_ns < step.start_ns + step.wall_ns
    group by aside.source_id
)
select
    step.source_id,
    (sum(step.wall_ns) + coalesce(sum(step.between_ns), 0))::bigint as wall_ns,
    coalesce(sum(step.between_ns), 0)::bigint as between,
    sum(step.data_ns)::bigint as data,
    sum(step.h2d_ns)::bigint as h2d,
    any_value(within.no_grad)::bigint as no_grad,
    sum(step.forward_ns)::bigint as forward,
    sum(step.backward_ns)::bigint as backward,
    sum(step.optimizer_ns)::bigint as optimizer,
    if(any_value(within.recompute) is null, null, least(any_value(within.recompute), sum(step.backward_ns)))::bigint as recompute
from step
left join within using (source_id)
group by step.source_id
