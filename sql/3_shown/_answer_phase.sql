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

select
    step.source_id,
    (sum(step.wall_ns) + coalesce(sum(step.between_ns), 0))::bigint as wall_ns,
    coalesce(sum(step.between_ns), 0)::bigint as between,
    sum(step.data_ns)::bigint as data,
    sum(step.h2d_ns)::bigint as h2d,
    sum(step.forward_ns)::bigint as forward,
    sum(step.backward_ns)::bigint as backward,
    sum(step.optimizer_ns)::bigint as optimizer
from step_summary as step
join _steady_time as steady using (source_id)
where step.start_ns >= coalesce(steady.first_step_ns, step.start_ns)
group by step.source_id
