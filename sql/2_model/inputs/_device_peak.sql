-- A row is an input with a device that a data sheet is known for, and what that device can do at most.
--
-- columns:
--   source_id        integer   the input
--   matrix16_flops   double    FLOP/s of matrix products in 16 bits
--   matrix32_flops   double    FLOP/s of matrix products in 32 bits, without TF32
--   memory_bytes_s   double    bytes/s of its memory
--   cache_bytes      bigint    its last cache, 0 where not known

select
    device.source_id,
    arg_min(device_peak.matrix16_flops, device_peak.priority) as matrix16_flops,
    arg_min(device_peak.matrix32_flops, device_peak.priority) as matrix32_flops,
    arg_min(device_peak.memory_bytes_s, device_peak.priority) as memory_bytes_s,
    coalesce(any_value(cache.cache_bytes), 0) as cache_bytes
from device
join device_peak on regexp_matches(device.name, device_peak.pattern, 'i')
left join _device_cache as cache on regexp_matches(device.name, cache.pattern, 'i')
group by device.source_id
