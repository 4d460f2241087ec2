-- A row is a stretch between two busy stretches of a device, with the work that ended it.

with
busy as (
    select source_id, device_id, number, start_ns, end_ns
    from _device_activity
    where activity = 'busy'
),
gap as (
    select
        source_id,
        device_id,
        lag(end_ns) over (partition by source_id, device_id order by start_ns) as start_ns,
        start_ns as end_ns
    from busy
),
first_work as (
    select source_id, device_id, start_ns, min(gpu_op_id) as gpu_op_id
    from gpu_op
    group by all
)
select gap.source_id, gap.device_id, gap.start_ns, gap.end_ns, first_work.gpu_op_id
from gap
join first_work
    on first_work.source_id = gap.source_id
    and first_work.device_id is not distinct from gap.device_id
    and first_work.start_ns = gap.end_ns
where gap.start_ns is not null
