-- A row is a step of one of several ranks and what its devices did between its begin and its end on the CPU.
--
-- Lengths of unions per device, added up over the devices. A source without steps counts as one step, number NULL, from
-- the begin of its first GPU work to the end of its last.

with
several_ranks as (
    select source_id
    from source
    where rank is not null and (select count(distinct rank) from source) > 1
),
window_of_source as (
    select source_id, min(start_ns) as start_ns, max(end_ns) as end_ns
    from gpu_op
    semi join several_ranks using (source_id)
    group by source_id
),
step as (
    select source_id, step, start_ns, end_ns from _step semi join several_ranks using (source_id)
    union all
    select source_id, null, start_ns, end_ns
    from window_of_source
    where source_id not in (select source_id from _step)
),
-- what a device did up to a moment is a sum over what it did before: no pair of step and stretch is made
stretch as (
    select
        *,
        sum(end_ns - start_ns) over (
            partition by source_id, device_id, activity order by start_ns rows unbounded preceding
        ) - (end_ns - start_ns) as before_ns
    from _device_activity
    semi join several_ranks using (source_id)
),
border as (
    select step.*, used.device, used.activity, side.is_end, if(side.is_end, step.end_ns, step.start_ns) as time_ns
    from step
    join (
        select distinct source_id, coalesce(device_id, -1) as device, activity from stretch
    ) as used using (source_id)
    cross join (values (false), (true)) as side(is_end)
),
until as (
    select
        border.*,
        coalesce(
            stretch.before_ns + least(border.time_ns, stretch.end_ns) - stretch.start_ns, 0
        ) * if(border.is_end, 1, -1) as done_ns
    from border
    asof left join stretch
        on stretch.source_id = border.source_id
        and coalesce(stretch.device_id, -1) = border.device
        and stretch.activity = border.activity
        and stretch.start_ns <= border.time_ns
)
select
    source_id,
    step,
    start_ns,
    end_ns,
    sum(done_ns) filter (activity = 'busy') as busy_ns,
    sum(done_ns) filter (activity = 'compute') as compute_ns,
    sum(done_ns) filter (activity = 'communication') as communication_ns,
    sum(done_ns) filter (activity = 'compute or communication') as active_ns
from until
group by source_id, step, start_ns, end_ns
