-- A row is an input with steps: how those that its answer is about are spread, so without cold ones (_steady_time).
--
-- Steps are as long as _step_length says.
--
-- columns:
--   source_id   integer   the input
--   step_cnt    bigint    how many, one after another: those of processes side by side count once
--   cold_cnt    bigint    cold ones before them, counted in the same way
--   is_named    boolean   a range or the optimizer says what a step is; else it is a period of the kernels' names
--   mean_ns     double    mean
--   p50_ns      double    median, interpolated
--   p95_ns      double    95th percentile
--   min_ns      bigint    shortest
--   max_ns      bigint    longest

select
    step.source_id,
    count(*) filter (step.is_shown and not step.is_beside) as step_cnt,
    count(*) filter (not step.is_shown and not step.is_beside) as cold_cnt,
    any_value(step.found_by) <> 'period' as is_named,
    avg(step.length_ns) filter (step.is_shown) as mean_ns,
    quantile_cont(step.length_ns, 0.5) filter (step.is_shown) as p50_ns,
    quantile_cont(step.length_ns, 0.95) filter (step.is_shown) as p95_ns,
    min(step.length_ns) filter (step.is_shown) as min_ns,
    max(step.length_ns) filter (step.is_shown) as max_ns
from (
    select
        turn.*,
        turn.start_ns >= coalesce(steady.first_step_ns, turn.start_ns) as is_shown
    from _step_turn as turn
    left join _steady_time as steady using (source_id)
) as step
group by step.source_id
having bool_or(step.is_shown)
