-- A row is a stretch between two busy stretches of a device, or from the start of the first step to its first work, with the
-- work that ended it.
--
-- The second only where a step begins long before any GPU work (_steady_time): is_lead says so.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device, NULL without
--   start_ns    bigint    begin
--   end_ns      bigint    end
--   gpu_op_id   bigint    the operation that ended it
--   is_lead     boolean   whether it lies before the device's first work

with
busy as (
    select
        source_id,
        device_id,
        gpu_op_id,
        lag(end_ns) over (partition by source_id, device_id order by start_ns) as start_ns,
        start_ns as end_ns
    from _device_activity
    where activity = 'busy'
)
select source_id, device_id, start_ns, end_ns, gpu_op_id, false as is_lead
from busy
where start_ns is not null
union all
select busy.source_id, busy.device_id, steady.start_ns, busy.end_ns, busy.gpu_op_id, true
from busy
join _steady_time as steady using (source_id)
where busy.start_ns is null and steady.lead_ns > 0
