-- A row is one device at whose peak the optimizer's state is more than the threshold memory_share_frac.
--
-- Train fewer weights (LoRA), or keep less for each: an 8-bit or paged optimizer (bitsandbytes), Adafactor, or the state spread over ranks (ZeRO, FSDP).

select
    source_id,
    device,
    sum(live_bytes) as cost_bytes,
    format('{:,.0f} MiB of state at the peak', sum(live_bytes) / 1048576) as evidence,
    if(
        coalesce(bool_or(regexp_matches(coalesce(path, '') || coalesce(stack, ''), '(?i)8bit|bitsandbytes/optim')), false),
        'It is kept in 8 bits already: train fewer weights (LoRA), use a paged optimizer, or spread the state over ranks (ZeRO, FSDP).',
        null
    ) as advice
from memory_peak
where category = 'optimizer_state'
group by source_id, device
having sum(live_bytes) > any_value(peak_bytes) * (select value from threshold where name = 'memory_share_frac')
