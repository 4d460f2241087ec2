-- A row is an input of _cpu_activity: how much of its time went into compute, communication and neither.
--
-- Times are lengths of unions over all threads, from the first stretch to the end of the last, as gpu_timeline_summary has
-- them of devices.
--
-- columns:
--   source_id                  integer   the input
--   window_ns                  bigint    from the start of the first stretch to the end of the last
--   busy_ns                    bigint    time with either
--   compute_ns                 bigint    time in which operators compute
--   communication_ns           bigint    time with communication
--   exposed_communication_ns   bigint    time with communication and without compute
--   idle_ns                    bigint    time with neither

with
counted as (
    select source_id, unnest([activity, 'either']) as activity, start_ns, end_ns
    from _cpu_activity
),
follows as (
    select
        *,
        max(end_ns) over (
            partition by source_id, activity
            order by start_ns, end_ns rows between unbounded preceding and 1 preceding
        ) as before_ns
    from counted
),
summed as (
    select
        source_id,
        activity,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        sum(greatest(0, end_ns - greatest(start_ns, coalesce(before_ns, start_ns))))::bigint as ns
    from follows
    group by source_id, activity
)
select
    source_id,
    max(end_ns) - min(start_ns) as window_ns,
    max(ns) filter (activity = 'either') as busy_ns,
    coalesce(max(ns) filter (activity = 'compute'), 0) as compute_ns,
    coalesce(max(ns) filter (activity = 'communication'), 0) as communication_ns,
    busy_ns - compute_ns as exposed_communication_ns,
    window_ns - busy_ns as idle_ns
from summed
group by source_id
