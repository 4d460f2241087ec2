-- A row is one device at whose peak weights are more than the threshold memory_share_frac.
--
-- Quantise the frozen base (QLoRA: nf4, int8), load it in 16 bits, share one base among adapters (BatchLoRA), or spread it over devices.

select
    source_id,
    device,
    sum(live_bytes) as cost_bytes,
    format('{:,.0f} MiB of weights at the peak', sum(live_bytes) / 1048576) as evidence
from memory_peak
where category in ('parameter', 'adapter_parameter')
group by source_id, device
having sum(live_bytes) > any_value(peak_bytes) * (select value from threshold where name = 'memory_share_frac')
