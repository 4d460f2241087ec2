-- A row is a step and what the devices of its input did between its begin and its end on the CPU.
--
-- Lengths of unions per device, added up over the devices. A source without steps counts as one step, number NULL, from
-- the begin of its first GPU work to the end of its last.

with
window_of_source as (
    select source_id, min(start_ns) as start_ns, max(end_ns) as end_ns
    from gpu_op
    group by source_id
),
step as (
    select source_id, step, start_ns, end_ns from _step
    union all
    select source_id, null, start_ns, end_ns
    from window_of_source
    where source_id not in (select source_id from _step)
)
select
    step.source_id,
    step.step,
    step.start_ns,
    step.end_ns,
    sum(least(step.end_ns, activity.end_ns) - greatest(step.start_ns, activity.start_ns))
        filter (activity.activity = 'busy') as busy_ns,
    sum(least(step.end_ns, activity.end_ns) - greatest(step.start_ns, activity.start_ns))
        filter (activity.activity = 'compute') as compute_ns,
    sum(least(step.end_ns, activity.end_ns) - greatest(step.start_ns, activity.start_ns))
        filter (activity.activity = 'communication') as communication_ns,
    sum(least(step.end_ns, activity.end_ns) - greatest(step.start_ns, activity.start_ns))
        filter (activity.activity = 'compute or communication') as active_ns
from step
left join _device_activity as activity
    on activity.source_id = step.source_id
    and activity.start_ns < step.end_ns
    and activity.end_ns > step.start_ns
group by all
