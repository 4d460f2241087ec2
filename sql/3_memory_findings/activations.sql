-- A row is one device at whose peak activations are more than the threshold memory_share_frac.
--
-- Recompute them in the backward (gradient checkpointing), shorten or shrink the micro batch and accumulate gradients, use an attention that does not keep its scores (flash, SDPA), or a 16-bit activation type.

select
    held.source_id,
    held.device,
    cost_bytes,
    cast_bytes,
    format('{:,.0f} MiB kept for the backward at the peak{}; {}the largest: {}', cost_bytes / 1048576,
        if(learning.has_learned, '', ', which the recording does not reach'),
        if(10 * cast_bytes > cost_bytes, format('{:,.0f} of it are copies by autocast; ', cast_bytes / 1048576), ''),
        largest)
    as evidence,
    case
        when 2 * cast_bytes > cost_bytes
            then 'Autocast copies what is not in 16 bits yet, weights above all, and the copies are kept for the backward: load '
                || 'the weights in bfloat16 (a frozen base always). Then checkpointing.'
        when 2 * loss_bytes > cost_bytes
            then format('{:,.0f} MiB of it are logits and what the loss keeps of them, which checkpointing does not save: compute the '
                || 'loss in chunks, or with a fused linear cross-entropy (Liger), which keeps none; or fewer tokens at once.',
                loss_bytes / 1048576)
        when contains(largest_path, '/recompute') or is_recomputed
            then 'They are recomputed already: at the peak one piece holds its own. Shorten or shrink the micro batch and accumulate '
                || 'gradients, recompute smaller pieces, or use an attention that does not keep its scores (flash, SDPA).'
    end as advice
from _memory_kept as held
left join _memory_learning as learning using (source_id)
where category = 'activation' and cost_bytes > peak_bytes * (select value from threshold where name = 'memory_share_frac')
