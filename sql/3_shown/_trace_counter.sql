-- A row is a moment at which a hardware counter of a device says something else than before.
--
-- columns:
--   source_id   integer   the input
--   device_id   integer   the device
--   name_id     bigint    the metric
--   metric      varchar   its name and unit
--   time_ns     bigint    when
--   value       double    percent of what the device can do at most, or MHz

select
    one.source_id,
    one.device_id,
    one.name_id,
    name.text || if(is_clock(name.text), ' [MHz]', ' [%]') as metric,
    one.start_ns as time_ns,
    if(is_clock(name.text), one.value / 1e6, 100 * one.value) as value
from gpu_metric_sample as one
join name using (name_id)
qualify one.value is distinct from lag(one.value) over (partition by one.source_id, one.device_id, one.name_id order by one.start_ns)
