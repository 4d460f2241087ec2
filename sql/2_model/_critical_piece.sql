-- A row is a stretch of the critical path within one step.
--
-- An input without steps counts as one, number NULL.

with
whole as (
    select source_id, min(start_ns) as start_ns, max(end_ns) as end_ns
    from critical_segment
    group by source_id
),
step as (
    select source_id, process_id, step_id, step, start_ns, end_ns
    from _step
    union all
    select source_id, null, null, null, start_ns, end_ns
    from whole
    where source_id not in (select source_id from _step)
)
select
    step.source_id,
    step.step_id,
    step.step,
    step.end_ns - step.start_ns as step_ns,
    segment.kind,
    segment.gpu_op_id,
    segment.thread_id,
    greatest(segment.start_ns, step.start_ns) as start_ns,
    least(segment.end_ns, step.end_ns) as end_ns
from step
join critical_segment as segment
    on segment.source_id = step.source_id
    and segment.start_ns < step.end_ns
    and segment.end_ns > step.start_ns
where segment.process_id is null
    or step.process_id is null
    or segment.process_id = step.process_id
