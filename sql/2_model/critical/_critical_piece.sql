-- A row is a stretch of the critical path within one step (_step_window).
--
-- An input without steps counts as one, number NULL.
-- A segment lies in steps from the first that ends after its start, or behind which such a one lies, to the last that
-- begins before its end: looked up, as comparing each with each would be quadratic.
--
-- columns:
--   source_id   integer   the input
--   step_id     bigint    the step, as _step has it, NULL for an input without steps
--   step        bigint    number of the step, NULL likewise
--   step_ns     bigint    length of the step
--   kind        varchar   'gpu', 'launch', 'wait' or 'cpu', see critical_segment
--   gpu_op_id   bigint    the operation, NULL for 'cpu'
--   thread_id   bigint    the thread, NULL but for 'cpu'
--   start_ns    bigint    begin
--   end_ns      bigint    end

with
whole as (
    select source_id, min(start_ns) as start_ns, max(end_ns) as end_ns
    from critical_segment
    group by source_id
),
step as (
    select
        *,
        coalesce(thread_id, -1) as thread,
        row_number() over in_order as place,
        max(end_ns) over in_order as latest_ns
    from (
        select source_id, process_id, thread_id, step_id, step, start_ns, end_ns
        from _step_window
        union all
        select source_id, null, null, null, null, start_ns, end_ns
        from whole
        where source_id not in (select source_id from _step_window)
    )
    window in_order as (
        partition by source_id, process_id, thread_id order by start_ns, end_ns, step_id rows unbounded preceding
    )
),
begun as (
    select source_id, thread, start_ns, max(place) as place
    from step
    group by all
),
latest as (
    select source_id, thread, latest_ns, min(place) as place
    from step
    group by all
),
thread as (
    select distinct source_id, process_id, thread
    from step
),
asked as (
    select segment.*, thread.thread
    from critical_segment as segment
    join thread
        on thread.source_id = segment.source_id
        and (segment.process_id is null or thread.process_id is null or segment.process_id = thread.process_id)
),
placed as (
    select asked.*, first.place as first_place, last.place as last_place
    from asked
    asof join begun as last
        on last.source_id = asked.source_id and last.thread = asked.thread and last.start_ns < asked.end_ns
    asof join latest as first
        on first.source_id = asked.source_id and first.thread = asked.thread and first.latest_ns > asked.start_ns
)
select
    step.source_id,
    step.step_id,
    step.step,
    step.end_ns - step.start_ns as step_ns,
    placed.kind,
    placed.gpu_op_id,
    placed.thread_id,
    greatest(placed.start_ns, step.start_ns) as start_ns,
    least(placed.end_ns, step.end_ns) as end_ns
from placed
cross join unnest(generate_series(placed.first_place, placed.last_place)) as within(place)
join step
    on step.source_id = placed.source_id
    and step.thread = placed.thread
    and step.place = within.place
    and step.end_ns > placed.start_ns
