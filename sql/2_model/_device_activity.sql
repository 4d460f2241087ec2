-- A row is a stretch of time without a gap in which a device did a kind of work.
--
-- activity is 'busy' (anything), 'compute' (kernels and graphs), 'communication', 'memory' (copies and memsets),
-- or 'compute or communication'. Stretches that touch are one.

with
work as (
    select
        source_id,
        device_id,
        start_ns,
        end_ns,
        case
            when kind in ('memcpy', 'memset') then ['busy', 'memory']
            when class = 'communication' then ['busy', 'communication', 'compute or communication']
            else ['busy', 'compute', 'compute or communication']
        end as activities
    from _classed_op
),
each_activity as (
    select source_id, device_id, unnest(activities) as activity, start_ns, end_ns
    from work
),
marked as (
    select
        *,
        start_ns > max(end_ns) over (
            partition by source_id, device_id, activity
            order by start_ns, end_ns
            rows between unbounded preceding and 1 preceding
        ) as is_new
    from each_activity
),
numbered as (
    select
        *,
        sum(coalesce(is_new, false)::integer) over (
            partition by source_id, device_id, activity
            order by start_ns, end_ns
            rows unbounded preceding
        ) as number
    from marked
)
select source_id, device_id, activity, number, min(start_ns) as start_ns, max(end_ns) as end_ns
from numbered
group by all
