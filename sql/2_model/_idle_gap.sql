-- A row is a stretch between two busy stretches of a device, with the work that ended it.

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
select source_id, device_id, start_ns, end_ns, gpu_op_id
from busy
where start_ns is not null
