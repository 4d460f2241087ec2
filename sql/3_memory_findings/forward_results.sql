-- A row is one device at whose peak what a forward leaves behind, and no backward needs, is more than the threshold memory_share_frac.
--
-- If nothing is to be trained, run it under torch.inference_mode(): then only what the program itself holds stays. Release that, or move it to the CPU (lists of outputs, caches, what hooks keep). If it trains, record until after a backward.

select
    held.source_id,
    held.device,
    cost_bytes,
    format(
        '{:,.0f} MiB that a forward made are kept{}; {}the largest: {}',
        cost_bytes / 1048576,
        if(learning.source_id is null, ', and nothing is trained in this recording', ' for longer than a backward needs them'),
        case
            when 10 * cast_bytes > cost_bytes then format('{:,.0f} of it are copies by autocast; ', cast_bytes / 1048576)
            when 2 * cache_bytes > cost_bytes then format('{:,.0f} of it are a cache of keys and values; ', cache_bytes / 1048576)
            else ''
        end,
        largest
    ) as evidence,
    case
        when 2 * cast_bytes > cost_bytes
            then 'Autocast copies what is not in 16 bits yet, weights above all, and keeps the copies until its block ends: load the '
                || 'weights in bfloat16.'
        when 2 * cache_bytes > cost_bytes
            then 'A cache of keys and values grows with the batch and the length of the context: smaller batches, a shorter or '
                || 'sliding window, pages instead of the maximum length (PagedAttention), '
                || if(is_quantised, '', 'keys and values in 8 or 4 bits, ')
                || 'or a cache on the CPU (OffloadedCache).'
        when learning.source_id is not null
            then 'Find what holds it: a list of outputs (keep .item(), or a detached copy on the CPU), a hook, a buffer or a cache.'
    end as advice
from _memory_kept as held
left join _memory_learning as learning using (source_id)
where category = 'forward_result' and cost_bytes > peak_bytes * (select value from threshold where name = 'memory_share_frac')
