-- A row is one device at whose peak activations are more than the threshold memory_share_frac.
--
-- Recompute them in the backward (gradient checkpointing), shorten or shrink the micro batch and accumulate gradients, use an attention that does not keep its scores (flash, SDPA), or a 16-bit activation type.

with held as (
    select
        source_id,
        device,
        sum(live_bytes) as cost_bytes,
        any_value(peak_bytes) as peak_bytes,
        coalesce(sum(live_bytes) filter (contains(stack, '(autocast)')), 0) as cast_bytes,
        arg_max(
            {'path': if(path = '(before the recording)' and stack is not null, null, path), 'stack': stack}, live_bytes
        ) as largest
    from memory_peak
    where category = 'activation'
    group by source_id, device
)
select
    held.source_id,
    held.device,
    cost_bytes,
    cast_bytes,
    format('{:,.0f} MiB kept for the backward at the peak{}; {}the largest: {}', cost_bytes / 1048576,
        if(learning.has_learned, '', ', which the recording does not reach'),
        if(10 * cast_bytes > cost_bytes, format('{:,.0f} of it are copies by autocast; ', cast_bytes / 1048576), ''),
        coalesce(largest['path'], place_in_stack(largest['stack']), 'outside all ranges'))
    as evidence,
    case
        when 2 * cast_bytes > cost_bytes
            then 'Autocast copies what is not in 16 bits yet, weights above all, and the backward keeps it: load the weights in '
                || 'bfloat16 (a frozen base always). Then checkpointing.'
        when contains(largest['path'], '/recompute')
            then 'They are recomputed already: at the peak one piece keeps its own. Shorten or shrink the micro batch and accumulate '
                || 'gradients, recompute smaller pieces, or use an attention that does not keep its scores (flash, SDPA).'
    end as advice
from held
left join _memory_learning as learning using (source_id)
where cost_bytes > peak_bytes * (select value from threshold where name = 'memory_share_frac')
