-- A row is one device at whose peak short-lived memory is more than the threshold memory_share_frac.
--
-- Look at where it is allocated: logits in 32 bits (compute the loss in chunks, or with a fused cross-entropy), dequantized weights (smaller blocks at a time), or copies between types and layouts.

with
held as (
    select
        source_id,
        device,
        sum(live_bytes) as cost_bytes,
        any_value(peak_bytes) as peak_bytes,
        arg_max({'path': path, 'stack': stack}, live_bytes) as largest
    from memory_peak
    where category in ('temporary', 'autograd_detail', 'quantisation_workspace')
    group by source_id, device
),
placed as (
    select
        source_id,
        device,
        cost_bytes,
        peak_bytes,
        coalesce(largest['path'], place_in_stack(largest['stack']), 'outside all ranges') as place,
        -- scores as its callers or itself: softmax, scaled_dot_product_attention, eager_attention_forward
        coalesce(regexp_matches(
            coalesce(largest['path'], array_to_string(string_split(largest['stack'], ' < ')[:4], ' ')),
            '(?i)softmax|attention'
        ), false) as is_attention,
        coalesce(largest['stack'], '') as stack
    from held
)
select
    source_id,
    device,
    cost_bytes,
    place,
    is_attention,
    format('{:,.0f} MiB at the peak are short-lived; the largest: {}', cost_bytes / 1048576, place) as evidence,
    case
        when place = 'outside all ranges' and stack = '' and source_id in (select source_id from source where not kind_has_work(kind))
            then 'Nothing in the recording says what they are, and activations may be among them: record stacks '
                || '(torch.cuda.memory._record_memory_history(stacks="all")).'
        when regexp_matches(stack, ' (nested_concat|pad_across_processes|evaluation_loop|prediction_step)( <|$)')
            then 'An evaluation gathers what the model puts out: move it to the CPU every few batches (eval_accumulation_steps=N), keep '
                || 'less of it (preprocess_logits_for_metrics), or use smaller batches.'
        when regexp_matches(place, 'Optimizer\.step|torch/optim/') and not contains(place, 'zero_grad')
            then case
                when regexp_matches(place || stack, '(?i)8bit|bitsandbytes')
                    then 'The optimizer works on as much at once as its largest weight.'
                -- of one that is not torch's nobody knows which arguments it takes
                when regexp_matches(place, 'Optimizer\.step#') and not regexp_matches(
                    place, '#(Adam|AdamW|SGD|NAdam|RAdam|Adamax|Adagrad|Adadelta|Adafactor|ASGD|RMSprop|Rprop|Muon|LBFGS)\.step'
                )
                    then 'The optimizer makes as much at once as it computes for its largest weight, or for all: update in place, '
                        || 'one weight at a time, large ones in blocks.'
                else 'The optimizer copies as much as it updates at once: fused=True updates in place'
                    -- on CPUs torch updates one weight at a time
                    || if(device = 'cpu' or contains(stack, '_single_tensor'), '.', ', foreach=False one weight at a time.')
            end
        when is_attention
            then 'If these are attention scores (queries by keys of each head), an attention that keeps them in registers needs '
                || 'none of it: scaled_dot_product_attention, flash attention. Otherwise compute the softmax on smaller blocks.'
        when contains(place, '(autograd engine)')
            then 'The backward makes them, as large as what the forward took in there: look for activations of this size, and '
                || 'make those smaller (fused attention, a loss in chunks, smaller micro batches).'
        -- a loss is computed where something is learned
        when source_id not in (select source_id from _memory_learning)
            then 'Look at where it is allocated: '
                || if(device = 'cpu', '',
                    'library workspaces (CUBLAS_WORKSPACE_CONFIG makes that of matmuls smaller), ')
                || 'copies between types and layouts, or dequantized weights.'
    end as advice
from placed
where cost_bytes > peak_bytes * (select value from threshold where name = 'memory_share_frac')
