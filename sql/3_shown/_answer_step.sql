-- A row is an input with steps: how those that its answer is about are spread, so without cold ones (_steady_time).
--
-- Where the CPU runs ahead, as at the begin of a recording, steps are shorter there, together, than what they queue for the
-- GPU: then each counts as long as the GPU takes for it. So does the last in any case: where no range is the step, it ends
-- with its last launch.
--
-- columns:
--   source_id   integer   the input
--   step_cnt    bigint    how many, of all processes together
--   p50_ns      double    median, interpolated
--   p95_ns      double    95th percentile
--   min_ns      bigint    shortest
--   max_ns      bigint    longest

select
    step.source_id,
    count(*) filter (not step.is_beside) as step_cnt,
    quantile_cont(step.length_ns, 0.5) as p50_ns,
    quantile_cont(step.length_ns, 0.95) as p95_ns,
    min(step.length_ns) as min_ns,
    max(step.length_ns) as max_ns
from (
    select
        *,
        if(
            sum(busy_ns) over (partition by source_id) > sum(wall_ns) over (partition by source_id)
            or start_ns = max(start_ns) over (partition by source_id),
            greatest(wall_ns, coalesce(busy_ns, 0)),
            wall_ns
        ) as length_ns
    from _step_turn
) as step
left join _steady_time as steady using (source_id)
where step.start_ns >= coalesce(steady.first_step_ns, step.start_ns)
group by step.source_id
