-- A row is one device and what it did in the time that findings are about (_steady_time), from its own first work to its last.
--
-- Of stretches of work (_device_activity) and gaps (_explained_gap) that begin before or end behind it counts what lies in it.
--
-- columns:
--   source_id        integer   the input
--   device_id        integer   the device
--   start_ns         bigint    begin
--   end_ns           bigint    end
--   busy_ns          bigint    time with any work
--   compute_ns       bigint    time with kernels that do not communicate, or graphs
--   active_ns        bigint    time with these or communication
--   host_ns          bigint    idle because the CPU launched late
--   dependency_ns    bigint    idle though the work was launched in time
--   kernel_wait_ns   bigint    the device's own distance between kernels

with
-- what lies in it of each stretch: of those without work the cause is the activity
clipped as (
    select
        own.source_id,
        own.device_id,
        own.start_ns,
        own.end_ns,
        done.activity,
        least(done.end_ns, own.end_ns) - greatest(done.start_ns, own.start_ns) as ns
    from _steady_device as own
    left join (
        select source_id, device_id, activity, start_ns, end_ns from _device_activity
        union all
        select source_id, device_id, cause, start_ns, end_ns from _explained_gap
    ) as done
        on done.source_id = own.source_id
        and done.device_id is not distinct from own.device_id
        and done.start_ns < own.end_ns
        and done.end_ns > own.start_ns
)
select
    source_id,
    device_id,
    any_value(start_ns) as start_ns,
    any_value(end_ns) as end_ns,
    coalesce(sum(ns) filter (activity = 'busy'), 0)::bigint as busy_ns,
    coalesce(sum(ns) filter (activity = 'compute'), 0)::bigint as compute_ns,
    coalesce(sum(ns) filter (activity = 'compute or communication'), 0)::bigint as active_ns,
    coalesce(sum(ns) filter (activity = 'host'), 0)::bigint as host_ns,
    coalesce(sum(ns) filter (activity = 'dependency'), 0)::bigint as dependency_ns,
    coalesce(sum(ns) filter (activity = 'kernel_wait'), 0)::bigint as kernel_wait_ns
from clipped
group by source_id, device_id
