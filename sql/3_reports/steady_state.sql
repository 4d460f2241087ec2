-- A row is one device in the time that the answer, findings and what-if are about: its steps once they are warm.
--
-- Cold steps at the begin (each more than twice the median), what is loaded before them and written behind the last are
-- left out where the warm steps hold at least half of the kernels' time, and something worth leaving out is there (cold
-- steps, or a twentieth of the recorded time); else it is all that was recorded and equals gpu_timeline_summary. compute_ns + exposed_communication_ns + exposed_memory_ns +
-- host_idle_ns + dependency_idle_ns + kernel_wait_ns = window_ns exactly. The window ends at the device's own first and
-- last work, and when the work launched in the last step has ended.
--
-- columns:
--   device_id                  integer   the device
--   device_name                varchar   its name, NULL if not recorded
--   window_ns                  bigint    the time it is about
--   recorded_ns                bigint    the time that was recorded, of all devices
--   is_steady                  boolean   whether something is left out
--   step_cnt                   bigint    steps in it, NULL without steps
--   cold_step_cnt              bigint    cold steps left out
--   cold_ns                    bigint    their length
--   compute_ns                 bigint    time with kernels that do not communicate, or graphs
--   exposed_communication_ns   bigint    time with communication and without compute
--   exposed_memory_ns          bigint    time with copies or memsets and nothing else
--   host_idle_ns               bigint    idle because the CPU launched late, see idle_gap
--   dependency_idle_ns         bigint    idle though the work was launched in time
--   kernel_wait_ns             bigint    the device's own distance between kernels
--   start_ns                   bigint    its begin
--   end_ns                     bigint    its end
--   source_id                  integer   the input, see trace_info
--   rank                       integer   rank of the input, NULL if not recorded

with
device_time as (
    select
        op.source_id,
        op.device_id,
        greatest(min(op.start_ns), any_value(steady.start_ns)) as start_ns,
        least(max(op.end_ns), any_value(steady.end_ns)) as end_ns
    from gpu_op as op
    join _steady_time as steady using (source_id)
    group by op.source_id, op.device_id
    having greatest(min(op.start_ns), any_value(steady.start_ns)) < least(max(op.end_ns), any_value(steady.end_ns))
        or not any_value(steady.is_steady)
),
-- what lies in it of each stretch: of those without work the cause is the activity
clipped as (
    select
        own.source_id,
        own.device_id,
        done.activity,
        least(done.end_ns, own.end_ns) - greatest(done.start_ns, own.start_ns) as ns
    from device_time as own
    left join (
        select source_id, device_id, activity, start_ns, end_ns from _device_activity
        union all
        select source_id, device_id, cause, start_ns, end_ns from _blamed_gap
    ) as done
        on done.source_id = own.source_id
        and done.device_id is not distinct from own.device_id
        and done.start_ns < own.end_ns
        and done.end_ns > own.start_ns
),
spent as (
    select
        source_id,
        device_id,
        coalesce(sum(ns) filter (activity = 'busy'), 0)::bigint as busy_ns,
        coalesce(sum(ns) filter (activity = 'compute'), 0)::bigint as compute_ns,
        coalesce(sum(ns) filter (activity = 'compute or communication'), 0)::bigint as active_ns,
        coalesce(sum(ns) filter (activity = 'host'), 0)::bigint as host_ns,
        coalesce(sum(ns) filter (activity = 'dependency'), 0)::bigint as dependency_ns,
        coalesce(sum(ns) filter (activity = 'kernel_wait'), 0)::bigint as kernel_wait_ns
    from clipped
    group by source_id, device_id
)
select
    own.device_id,
    device.name as device_name,
    (own.end_ns - own.start_ns)::bigint as window_ns,
    steady.recorded_ns,
    steady.is_steady,
    steady.step_cnt,
    steady.cold_step_cnt,
    steady.cold_ns,
    spent.compute_ns,
    spent.active_ns - spent.compute_ns as exposed_communication_ns,
    spent.busy_ns - spent.active_ns as exposed_memory_ns,
    spent.host_ns as host_idle_ns,
    spent.dependency_ns as dependency_idle_ns,
    spent.kernel_wait_ns,
    own.start_ns,
    own.end_ns,
    own.source_id,
    source.rank
from device_time as own
join _steady_time as steady using (source_id)
join source using (source_id)
join spent on spent.source_id = own.source_id and spent.device_id is not distinct from own.device_id
left join device on device.source_id = own.source_id and device.device_id = own.device_id
order by own.source_id, own.device_id
