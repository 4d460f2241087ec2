-- A row is an input with steps: how those that its answer is about are spread, so without cold ones (_steady_time).
--
-- columns:
--   source_id   integer   the input
--   step_cnt    bigint    how many
--   p50_ns      double    median, interpolated
--   p95_ns      double    95th percentile
--   min_ns      bigint    shortest
--   max_ns      bigint    longest

select
    step.source_id,
    count(*) as step_cnt,
    quantile_cont(step.wall_ns, 0.5) as p50_ns,
    quantile_cont(step.wall_ns, 0.95) as p95_ns,
    min(step.wall_ns) as min_ns,
    max(step.wall_ns) as max_ns
from _step_turn as step
left join _steady_time as steady using (source_id)
where step.start_ns >= coalesce(steady.first_step_ns, step.start_ns)
group by step.source_id
