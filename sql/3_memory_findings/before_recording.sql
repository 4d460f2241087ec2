-- A row is one device of whose peak more than the threshold memory_share_frac was there before the recording, for an unknown purpose.
--
-- Mostly weights, and optimizer states once it has stepped: use a frozen base in 8 or 4 bits (QLoRA), an 8-bit or paged optimizer. To know which: start recording before the model is made (torch.cuda.memory._record_memory_history()).

with
resident as (
    select
        source_id,
        device,
        sum(live_bytes) filter (category = 'unknown' and path = '(before the recording)') as before_bytes,
        max(largest_bytes) filter (category = 'unknown' and path = '(before the recording)') as largest_bytes,
        -- the history may begin after stacks were noted
        coalesce(
            sum(live_bytes) filter (category = 'unknown' and path = '(before the recording)' and stack is not null), 0
        ) as told_bytes,
        arg_max(stack, live_bytes) filter (category = 'unknown' and path = '(before the recording)' and stack is not null) as stack,
        sum(live_bytes) filter (category = 'gradient') as gradient_bytes,
        sum(live_bytes) filter (category = 'optimizer_state' and path = '(before the recording)') as state_bytes,
        any_value(peak_bytes) as peak_bytes,
        bool_or(category = 'activation') as keeps_for_backward,
        -- a layer of quantized weights has run, whatever it has allocated
        coalesce(bool_or(regexp_matches(stack, '(^| )(bitsandbytes/(autograd|nn|functional|_ops|backends)|hqq/|auto_gptq/|'
            || 'gptqmodel/|awq/|torchao/(quantization|dtypes)/|optimum/quanto/)')), false) as is_quantised
    from memory_peak
    group by source_id, device
),
held as (
    select
        *,
        -- each weight that is trained has one gradient of its size, and of Adam two states
        coalesce(before_bytes between 0.97 * gradient_bytes and 1.03 * gradient_bytes, false) as equals_gradients,
        coalesce(state_bytes between 1.94 * before_bytes and 2.06 * before_bytes, false) as is_half_the_states
    from resident
),
phase as (
    select
        source_id,
        -- or stacks that would show that something learns
        bool_or(coalesce(phase_of_step(phase) = 'forward', false) or is_generating or stack_id is not null and made_as is null and not is_before)
            as is_told
    from _memory_event_phase
    group by source_id
)
select
    source_id,
    device,
    before_bytes as cost_bytes,
    format('{:,.0f} MiB were there before the recording began', before_bytes / 1048576)
    || if(state_bytes > 0, format(' besides {:,.0f} of the optimizer''s states', state_bytes / 1048576), '')
    || case
        when equals_gradients
            then ', as much as gradients: the weights'
        when before_bytes between 1.97 * gradient_bytes and 2.03 * gradient_bytes
            then ', twice the gradients: weights and one state of each (momentum)'
        when before_bytes between 2.97 * gradient_bytes and 3.03 * gradient_bytes
            then ', three times the gradients: weights and two states of each (Adam)'
        when is_half_the_states
            then ', half as much as the states of the optimizer: the weights'
        when 2 * told_bytes > before_bytes then '; most of it: ' || place_in_stack(stack)
        when is_quantised then format(', the largest alone {:,.0f}', largest_bytes / 1048576)
        else ''
    end as evidence,
    case
        when is_quantised
            then 'The base is quantized already, but not its embeddings and head, often the largest part where '
                || 'prepare_model_for_kbit_training has cast them to 32 bits: cast them back to 16. Optimizer states '
                || 'may be there, too: use an 8-bit or paged one.'
        when equals_gradients or is_half_the_states
            then 'Weights, all of which are trained: train only a few beside a frozen base in 16, 8 or 4 bits (LoRA, QLoRA), or spread them '
                || 'over ranks (FSDP).'
        when 2 * told_bytes > before_bytes then 'Look at what keeps it there, and whether the rest of the run needs it.'
        when is_told and gradient_bytes is null and state_bytes is null and not keeps_for_backward and source_id not in (select source_id from _memory_learning)
            then 'Mostly weights, and nothing is trained in this recording: load them in 16 bits, or quantized to 8 or 4.'
    end as advice
from held
left join phase using (source_id)
where before_bytes > peak_bytes * (select value from threshold where name = 'memory_share_frac')
