-- A row is one device in the time that the answer, findings and what-if are about: its steps once they are warm.
--
-- Cold steps at the start (each more than 1.5 times the median), what is loaded before them and written after the last are
-- left out where the warm steps hold at least half of the kernels' time, and something worth leaving out is there (cold
-- steps, or a twentieth of the recorded time); where only the warm steps and all after them hold that, the cold ones and what
-- is before them are; else it is all that was recorded and equals gpu_timeline_summary. compute_ns + exposed_communication_ns + exposed_memory_ns +
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
--   rank_wait_ns               bigint    part of it in which the rank waits for ranks that come later to a collective; NULL where
--         none are compared
--   exposed_memory_ns          bigint    time with copies or memsets and nothing else
--   host_idle_ns               bigint    idle because the CPU launched late, see idle_gap
--   dependency_idle_ns         bigint    idle though the work was launched in time
--   kernel_wait_ns             bigint    the device's own distance between kernels
--   start_ns                   bigint    its start
--   end_ns                     bigint    its end
--   source_id                  integer   the input, see trace_info
--   rank                       integer   rank of the input, NULL if not recorded

select
    spent.device_id,
    device.name as device_name,
    (spent.end_ns - spent.start_ns)::bigint as window_ns,
    steady.recorded_ns,
    steady.is_steady,
    steady.step_cnt,
    steady.cold_step_cnt,
    steady.cold_ns,
    spent.compute_ns,
    spent.active_ns - spent.compute_ns as exposed_communication_ns,
    if(late.waited_ns is null, null, least(late.waited_ns, spent.active_ns - spent.compute_ns))::bigint as rank_wait_ns,
    spent.busy_ns - spent.active_ns as exposed_memory_ns,
    spent.host_ns as host_idle_ns,
    spent.dependency_ns as dependency_idle_ns,
    spent.kernel_wait_ns,
    spent.start_ns,
    spent.end_ns,
    spent.source_id,
    source.rank
from _steady_spent as spent
join _steady_time as steady using (source_id)
join source using (source_id)
left join device on device.source_id = spent.source_id and device.device_id = spent.device_id
left join (
    select source_id, device_id, sum(waited_ns) as waited_ns from _late_rank_wait group by source_id, device_id
) as late on late.source_id = spent.source_id and late.device_id = spent.device_id
order by spent.source_id, spent.device_id
