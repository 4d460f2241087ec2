-- A row is one device at whose peak gradients are more than the threshold memory_share_frac.
--
-- Train fewer weights (LoRA), free each gradient as soon as it is used (an optimizer step in the backward), set them to None instead of zero, or spread them over ranks (ZeRO, FSDP).

select
    source_id,
    device,
    sum(live_bytes) as cost_bytes,
    format('{:,.0f} MiB of gradients at the peak', sum(live_bytes) / 1048576) as evidence
from memory_peak
where category = 'gradient'
group by source_id, device
having sum(live_bytes) > any_value(peak_bytes) * (select value from threshold where name = 'memory_share_frac')
