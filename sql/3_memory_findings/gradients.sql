-- A row is one device at whose peak gradients are more than the threshold memory_share_frac.
--
-- Train fewer weights (LoRA), free each gradient as soon as it is used (an optimizer step in the backward), set them to None instead of zero, or spread them over ranks (ZeRO, FSDP).

with
gradient as (
    select *, coalesce(is_of_ddp_buckets(stack), false) as is_bucket
    from memory_peak
    where category = 'gradient'
)
select
    source_id,
    device,
    sum(live_bytes) as cost_bytes,
    format('{:,.0f} MiB of gradients at the peak', sum(live_bytes) / 1048576)
    || if(bool_or(is_bucket), format('; {:,.0f} of them are the buckets of DDP', sum(live_bytes) filter (is_bucket) / 1048576), '')
        as evidence,
    -- as large beside them are the gradients that are copied into the buckets
    if(
        sum(live_bytes) filter (is_bucket) between 0.5 * sum(live_bytes) filter (not is_bucket)
        and 2 * sum(live_bytes) filter (not is_bucket),
        'DDP copies gradients into buckets: gradient_as_bucket_view=True keeps them there once. Or train fewer weights (LoRA), or '
        || 'spread gradients over ranks (ZeRO, FSDP).',
        null
    ) as advice
from gradient
group by source_id, device
having sum(live_bytes) > any_value(peak_bytes) * (select value from threshold where name = 'memory_share_frac')
