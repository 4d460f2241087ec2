-- A row is what a forward leaves behind that is live at a device's peak: for the backward, or beyond it.
--
-- columns:
--   source_id      integer   the input
--   device         varchar   the device
--   category       varchar   'activation' (for the backward) or 'forward_result'
--   cost_bytes     bigint    how much
--   peak_bytes     bigint    the peak
--   cast_bytes     bigint    of it copies by autocast
--   cache_bytes    bigint    of it caches of keys and values
--   loss_bytes     bigint    of it logits and what the loss keeps of them
--   is_recomputed  boolean   whether the program recomputes some of it already
--   is_quantised   boolean   whether something of it comes from code that quantizes
--   largest_path   varchar   range of the largest allocation, NULL outside of ranges or where its stack says more
--   largest        varchar   where the largest was allocated

with
seen as (
    select
        *,
        -- its callers or itself: update of a DynamicCache, cache_utils
        array_to_string(string_split(stack, ' < ')[:4], ' ') as callers
    from memory_peak
    where category in ('activation', 'forward_result')
),
held as (
    select
        source_id,
        device,
        category,
        sum(live_bytes) as cost_bytes,
        any_value(peak_bytes) as peak_bytes,
        coalesce(sum(live_bytes) filter (contains(stack, '(autocast)')), 0) as cast_bytes,
        coalesce(sum(live_bytes) filter (regexp_matches(
            callers,
            '(?i)cache_?utils|(kv|key_value|static|dynamic|quantized|sliding\w*)_?cache|past_key|cache\w*\.py:\d+ (update|append)'
        )), 0) as cache_bytes,
        coalesce(sum(live_bytes) filter (regexp_matches(
            coalesce(stack, path), '(?i)cross_entropy|nll_loss|log_softmax|lm_head|logits|ForCausalLMLoss|loss_function'
        )), 0) as loss_bytes,
        coalesce(bool_or(contains(stack, 'torch/utils/checkpoint.py') or contains(path, 'recompute')), false) as is_recomputed,
        coalesce(bool_or(regexp_matches(callers, '(?i)quant')), false) as is_quantised,
        arg_max(
            {'path': if(path = '(before the recording)' and stack is not null, null, path), 'stack': stack}, live_bytes
        ) as largest
    from seen
    group by source_id, device, category
)
select
    * exclude (largest),
    largest['path'] as largest_path,
    coalesce(largest['path'], place_in_stack(largest['stack']), 'outside all ranges') as largest
from held
