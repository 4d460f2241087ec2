-- A row is a stretch of copies, or of communication, and how much of it nothing hides.
--
-- Communication is exposed where nothing computes, a copy where nothing computes or communicates, as in
-- gpu_timeline_summary, whose exposed times these add up to.
--
-- columns:
--   source_id    integer   the input
--   device_id    integer   the device
--   activity     varchar   'communication' or 'memory'
--   gpu_op_id    bigint    the operation that the stretch begins with
--   start_ns     bigint    its start
--   exposed_ns   bigint    how much of it is exposed

with
hiding as (
    select
        source_id,
        device_id,
        if(activity = 'compute', 'communication', 'memory') as activity,
        start_ns,
        end_ns,
        coalesce(sum(end_ns - start_ns) over (
            partition by source_id, device_id, activity
            order by start_ns
            rows between unbounded preceding and 1 preceding
        ), 0) as before_ns
    from _device_activity
    where activity in ('compute', 'compute or communication')
),
stretch as (
    select *
    from _device_activity
    where activity in ('communication', 'memory')
),
-- hidden time until each end of a stretch
begun as (
    select
        stretch.*,
        coalesce(hiding.before_ns + least(stretch.start_ns, hiding.end_ns) - hiding.start_ns, 0) as hidden_before_ns
    from stretch
    asof left join hiding
        on hiding.source_id = stretch.source_id
        and hiding.device_id is not distinct from stretch.device_id
        and hiding.activity = stretch.activity
        and hiding.start_ns <= stretch.start_ns
)
select
    begun.source_id,
    begun.device_id,
    begun.activity,
    begun.gpu_op_id,
    begun.start_ns,
    (
        begun.end_ns - begun.start_ns + begun.hidden_before_ns
        - coalesce(hiding.before_ns + least(begun.end_ns, hiding.end_ns) - hiding.start_ns, 0)
    )::bigint as exposed_ns
from begun
asof left join hiding
    on hiding.source_id = begun.source_id
    and hiding.device_id is not distinct from begun.device_id
    and hiding.activity = begun.activity
    and hiding.start_ns <= begun.end_ns
