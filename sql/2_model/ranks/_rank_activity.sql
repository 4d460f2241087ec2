-- A row is a stretch of time in which a rank was busy, computed, or computed or communicated: of several ranks only.
--
-- Of inputs with GPU work these are the stretches of their devices, of others _cpu_activity.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device, NULL on CPUs
--   activity    varchar   'busy', 'compute', 'communication' or 'compute or communication'
--   start_ns    bigint    begin
--   end_ns      bigint    end

with
work as (
    select
        source_id,
        start_ns,
        end_ns,
        if(activity = 'compute', ['busy', 'compute', 'compute or communication'], ['busy', 'compute or communication'])
            as activities
    from _cpu_activity
    semi join _several_ranks using (source_id)
),
each_activity as (
    select source_id, unnest(activities) as activity, start_ns, end_ns
    from work
),
marked as (
    select
        *,
        max(end_ns) over (
            partition by source_id, activity
            order by start_ns, end_ns
            rows between unbounded preceding and 1 preceding
        ) as ended_ns,
        max(end_ns) over (partition by source_id, activity) as last_end_ns
    from each_activity
)
select source_id, device_id, activity::varchar as activity, start_ns, end_ns
from _device_activity
semi join _several_ranks using (source_id)
where activity in ('busy', 'compute', 'communication', 'compute or communication')
union all
select
    source_id,
    null as device_id,
    activity,
    start_ns,
    coalesce(lead(ended_ns) over (partition by source_id, activity order by start_ns), last_end_ns) as end_ns
from marked
where ended_ns is null or start_ns > ended_ns
