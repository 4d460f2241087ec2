-- A row is a step, and whether it is cold: before the first that takes no more than 1.5 times the median.
--
-- Steps of one number that follow one another on a thread (adapters in turn) are judged together.
--
-- columns:
--   source_id   integer   the input
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   own_ns      bigint    how long it takes without what is between the steps (_step_length)
--   is_cold     boolean   whether it is before the first warm one

with
step as (
    select
        step.source_id,
        step.step_id,
        step.thread_id,
        step.start_ns,
        step.end_ns,
        length.own_ns,
        coalesce(step.step = lag(step.step) over (partition by step.source_id, step.thread_id order by step.start_ns, step.step_id), false)
            as is_more
    from _step as step
    join _step_length as length using (source_id, step_id)
),
turned as (
    select
        *,
        sum((not is_more)::integer) over (partition by source_id, thread_id order by start_ns, step_id) as turn
    from step
),
turn as (
    select source_id, thread_id, turn, sum(own_ns) as own_ns
    from turned
    group by source_id, thread_id, turn
),
judged as (
    select source_id, thread_id, turn, own_ns > 1.5 * median(own_ns) over (partition by source_id) as is_slow
    from turn
)
select
    turned.source_id,
    turned.start_ns,
    turned.end_ns,
    turned.own_ns,
    turned.start_ns < min(turned.start_ns) filter (not judged.is_slow) over (partition by turned.source_id) as is_cold
from turned
join judged
    on judged.source_id = turned.source_id
    and judged.thread_id is not distinct from turned.thread_id
    and judged.turn = turned.turn
