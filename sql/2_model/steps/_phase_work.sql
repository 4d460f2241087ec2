-- A row is an input with steps: how much of the CPU's time of those that count is in which phase, and between them.
--
-- columns:
--   source_id   integer   the input
--   wall_ns     bigint    all of it
--   between     bigint    ns between their ends and the begins of the next ones
--   data        bigint    ns in getting input
--   h2d         bigint    ns in moving it to the device
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
again as (
    select range.source_id, range.start_ns, range.end_ns
    from range
    join _phase_name as said on said.name_id = range.text_id
    where range.kind = 'annotation' and said.phase = 'recompute'
),
recomputed as (
    select again.source_id, sum(least(again.end_ns, step.start_ns + step.wall_ns) - again.start_ns) as ns
    from again
    asof join step on step.source_id = again.source_id and step.start_ns <= again.start_ns
    where again.start_ns < step.start_ns + step.wall_ns
    group by again.source_id
)
select
    step.source_id,
    (sum(step.wall_ns) + coalesce(sum(step.between_ns), 0))::bigint as wall_ns,
    coalesce(sum(step.between_ns), 0)::bigint as between,
    sum(step.data_ns)::bigint as data,
    sum(step.h2d_ns)::bigint as h2d,
    sum(step.forward_ns)::bigint as forward,
    sum(step.backward_ns)::bigint as backward,
    sum(step.optimizer_ns)::bigint as optimizer,
    if(any_value(recomputed.ns) is null, null, least(any_value(recomputed.ns), sum(step.backward_ns)))::bigint as recompute
from step
left join recomputed using (source_id)
group by step.source_id
