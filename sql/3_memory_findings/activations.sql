-- A row is one device at whose peak activations are more than the threshold memory_share_frac.
--
-- Recompute them in the backward (gradient checkpointing), shorten or shrink the micro batch and accumulate gradients, use an attention that does not keep its scores (flash, SDPA), or a 16-bit activation type.

select
    source_id,
    device,
    sum(live_bytes) as cost_bytes,
    coalesce(sum(live_bytes) filter (contains(stack, '(autocast)')), 0) as cast_bytes,
    format('{:,.0f} MiB kept for the backward at the peak; {}the largest: {}', sum(live_bytes) / 1048576,
        if(10 * cast_bytes > cost_bytes, format('{:,.0f} of it are copies by autocast; ', cast_bytes / 1048576), ''),
        coalesce(
            arg_max(path, live_bytes) filter (path <> '(before the recording)' or stack is null),
            place_in_stack(arg_max(stack, live_bytes)),
            'outside all ranges'
        ))
    as evidence,
    if(2 * cast_bytes > cost_bytes,
        'Autocast copies what is not in 16 bits yet, weights above all, and the backward keeps it: load the weights in bfloat16 '
        || '(a frozen base always). Then checkpointing.', null) as advice
from memory_peak
where category = 'activation'
group by source_id, device
having sum(live_bytes) > any_value(peak_bytes) * (select value from threshold where name = 'memory_share_frac')
