-- A row is a range in which the CPU's time is on the critical path, and how much of it.
--
-- Of the stretches of its thread the sum up to its end less the sum up to its start, both looked up. It is about ranges that
-- lie within a step: those around hold none of its time that they do not share with it.
--
-- columns:
--   source_id       integer   the input
--   step_id         bigint    the step, NULL for an input without steps
--   path_id         bigint    the range's path
--   outer_path_id   bigint    path of the ranges around, NULL where there are none in the step
--   critical_ns     bigint    CPU time on the critical path in it, and in the ranges inside it

with
cpu as (
    select
        *,
        sum(end_ns - start_ns) over (
            partition by source_id, thread_id order by start_ns rows unbounded preceding
        ) - (end_ns - start_ns) as before_ns
    from _critical_piece
    where kind = 'cpu'
),
bounded as (
    select
        range.source_id,
        coalesce(thread.process_id, 0) as process,
        range.thread_id,
        range.path_id,
        range.start_ns,
        range.end_ns
    from range
    join range_path using (path_id)
    left join thread on thread.source_id = range.source_id and thread.thread_id = range.thread_id
    where range_path.kind = 'annotation'
),
at_end as (
    select
        bounded.*,
        coalesce(cpu.before_ns + least(bounded.end_ns - cpu.start_ns, cpu.end_ns - cpu.start_ns), 0) as until_end_ns
    from bounded
    asof left join cpu
        on cpu.source_id = bounded.source_id
        and cpu.thread_id = bounded.thread_id
        and cpu.start_ns <= bounded.end_ns
),
inside as (
    select
        at_end.*,
        at_end.until_end_ns
        - coalesce(cpu.before_ns + least(at_end.start_ns - cpu.start_ns, cpu.end_ns - cpu.start_ns), 0) as critical_ns
    from at_end
    asof left join cpu
        on cpu.source_id = at_end.source_id
        and cpu.thread_id = at_end.thread_id
        and cpu.start_ns <= at_end.start_ns
),
step as (
    select
        source_id,
        process,
        start_ns,
        first(step_id order by end_ns desc, step_id) as step_id,
        max(end_ns) as end_ns
    from _critical_extent
    group by source_id, process, start_ns
),
placed as (
    select step.source_id, step.step_id, inside.path_id, inside.critical_ns
    from inside
    asof join step
        on step.source_id = inside.source_id
        and step.process = inside.process
        and inside.start_ns >= step.start_ns
    where inside.end_ns <= step.end_ns and inside.critical_ns > 0
)
select placed.source_id, placed.step_id, placed.path_id, outer_path.path_id as outer_path_id, placed.critical_ns::bigint as critical_ns
from placed
join range_path on range_path.path_id = placed.path_id
left join (select distinct source_id, step_id, path_id from placed) as outer_path
    on outer_path.source_id = placed.source_id
    and outer_path.step_id is not distinct from placed.step_id
    and outer_path.path_id = range_path.parent_path_id
