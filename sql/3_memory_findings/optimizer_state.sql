-- A row is one device at whose peak the optimizer's state is more than the threshold memory_share_frac.
--
-- Train fewer weights (LoRA), or keep less for each: an 8-bit or paged optimizer (bitsandbytes), Adafactor, or the state spread over ranks (ZeRO, FSDP).

select
    source_id,
    device,
    sum(live_bytes) as cost_bytes,
    format('{:,.0f} MiB of state at the peak', sum(live_bytes) / 1048576) as evidence
from memory_peak
where category = 'optimizer_state'
group by source_id, device
having sum(live_bytes) > any_value(peak_bytes) * (select value from threshold where name = 'memory_share_frac')
