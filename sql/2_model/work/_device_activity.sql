-- A row is a stretch of time without a gap in which a device did a kind of work.
--
-- Stretches that touch are one.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device, NULL without
--   activity    varchar   'busy' (anything), 'compute' (kernels and graphs), 'communication', 'memory' (copies and memsets), or
--         'compute or communication'
--   gpu_op_id   bigint    the operation that the stretch begins with
--   start_ns    bigint    begin
--   end_ns      bigint    end

with
work as (
    select
        source_id,
        device_id,
        gpu_op_id,
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
    select source_id, device_id, unnest(activities) as activity, gpu_op_id, start_ns, end_ns
    from work
),
-- when all that began earlier had ended
marked as (
    select
        *,
        max(end_ns) over (
            partition by source_id, device_id, activity
            order by start_ns, gpu_op_id
            rows between unbounded preceding and 1 preceding
        ) as ended_ns,
        max(end_ns) over (partition by source_id, device_id, activity) as last_end_ns
    from each_activity
),
-- a stretch ends where the work before the next one had ended
beginning as (
    select *
    from marked
    where ended_ns is null or start_ns > ended_ns
)
select
    source_id,
    device_id,
    activity,
    gpu_op_id,
    start_ns,
    coalesce(
        lead(ended_ns) over (partition by source_id, device_id, activity order by start_ns), last_end_ns
    ) as end_ns
from beginning
