-- A row is one device at whose peak what a forward leaves behind, and no backward needs, is more than the threshold memory_share_frac.
--
-- If nothing is to learn, run it under torch.inference_mode(): then only what the program itself holds stays. Let go of that, or move it to the CPU (lists of outputs, caches, what hooks keep). If it trains, record until after a backward.

with
held as (
    select
        source_id,
        device,
        sum(live_bytes) as cost_bytes,
        any_value(peak_bytes) as peak_bytes,
        coalesce(sum(live_bytes) filter (contains(stack, '(autocast)')), 0) as cast_bytes,
        -- by its callers or itself: update of a DynamicCache, cache_utils
        coalesce(sum(live_bytes) filter (regexp_matches(
            array_to_string(string_split(stack, ' < ')[:4], ' '),
            '(?i)cache_?utils|(kv|key_value|static|dynamic|quantized|sliding\w*)_?cache|past_key|cache\w*\.py:\d+ (update|append)'
        )), 0) as cache_bytes,
        coalesce(bool_or(regexp_matches(array_to_string(string_split(stack, ' < ')[:4], ' '), '(?i)quant')), false) as is_quantised,
        arg_max(
            {'path': if(path = '(before the recording)' and stack is not null, null, path), 'stack': stack}, live_bytes
        ) as largest
    from memory_peak
    where category = 'forward_result'
    group by source_id, device
)
select
    held.source_id,
    held.device,
    cost_bytes,
    format(
        '{:,.0f} MiB that a forward made are kept{}; {}the largest: {}',
        cost_bytes / 1048576,
        if(learning.source_id is null, ', and nothing learns in this recording', ' for longer than a backward needs them'),
        case
            when 10 * cast_bytes > cost_bytes then format('{:,.0f} of it are copies by autocast; ', cast_bytes / 1048576)
            when 2 * cache_bytes > cost_bytes then format('{:,.0f} of it are a cache of keys and values; ', cache_bytes / 1048576)
            else ''
        end,
        coalesce(largest['path'], place_in_stack(largest['stack']), 'outside all ranges')
    ) as evidence,
    case
        when 2 * cast_bytes > cost_bytes
            then 'Autocast copies what is not in 16 bits yet, weights above all, and keeps the copies until its block ends: load the '
                || 'weights in bfloat16.'
        when 2 * cache_bytes > cost_bytes
            then 'A cache of keys and values grows with the batch and the length of the context: smaller batches, a shorter or '
                || 'sliding window, pages in place of the longest length (PagedAttention), '
                || if(is_quantised, '', 'keys and values in 8 or 4 bits, ')
                || 'or a cache on the CPU (OffloadedCache).'
        when learning.source_id is not null
            then 'Find what holds it: a list of outputs (keep .item(), or a detached copy on the CPU), a hook, a buffer or a cache.'
    end as advice
from held
left join _memory_learning as learning using (source_id)
where cost_bytes > peak_bytes * (select value from threshold where name = 'memory_share_frac')
