-- A row is a kernel that takes a tenth of the time or more of an input in which the GPU computes a third of the time or more.
--
-- What makes it cheaper depends on what it is: fewer bits, a fused implementation, fewer and larger calls. The limit is what the device's data sheet allows; NULL where the trace has no shapes to say.
--
-- Only with: from _dominant_kernel
with
softmax as (
    select name_id
    from name
    -- a loss has the logarithm, a router of experts the largest
    where regexp_matches(text, '(?i)softmax') and not regexp_matches(text, '(?i)log_?softmax|topk|gating|moe')
),
own as (
    select operator_id, sum(end_ns - start_ns) as gpu_ns
    from gpu_op
    where operator_id is not null
    group by operator_id
),
shaped as (
    select
        name_id as shape_id,
        -- all sizes are multiples of 64, or of 8 and so large that the last tile hardly counts, as many tokens
        list_bool_and(
            list_transform(
                list_transform(regexp_extract_all(split_part(text, '|', 1), '\d+'), lambda size: try_cast(size as bigint)),
                lambda size: size % 64 = 0 or (size >= 1024 and size % 8 = 0)
            )
        ) as is_even,
        -- of numbers of 16 or 8 bits
        regexp_matches(split_part(text, '|', 2), 'BFloat16|Half|Float8') and not regexp_matches(split_part(text, '|', 2), '\b(float|double)\b')
            as is_short
    from name
    where name_id in (select distinct shape_id from range where shape_id is not null)
),
-- of each operator's call: how near its kernels come to what the device can do
near as (
    select
        range.range_id,
        1e9 * bound.least_s / nullif(own.gpu_ns, 0) as roofline_frac,
        shaped.is_even,
        shaped.is_short
    from own
    join range on range.range_id = own.operator_id
    left join shaped on shaped.shape_id = range.shape_id
    left join _operator_bound as bound
        on bound.source_id = range.source_id
        and bound.name_id = range.name_id
        and bound.shape_id = range.shape_id
),
unit as (
    select
        source_id,
        min(sm_cnt) as sm_cnt,
        -- 64 bits take twice as long as 32 there, by their data sheets
        bool_and(coalesce(regexp_matches(
            name, '\b(P100|G?V100|TITAN V|A100|A30|A800|G?H[12]00|G?B[12]00|MI(50|60|100|2\d\d|3\d\d)\w*)\b'
        ), false)) as has_doubles,
        bool_or(coalesce(is_before_ampere(name), false)) as is_before_ampere
    from device
    group by source_id
),
-- by name, of which there are few, before it is looked up; whole_ns with what other rules are blamed for
named as materialized (
    select
        kernel.source_id,
        kernel.name_id,
        count(*) filter (kernel.rule is null) as cnt,
        sum(kernel.critical_ns) as whole_ns,
        sum(op.end_ns - op.start_ns) filter (kernel.rule is null) as kernel_ns,
        sum(kernel.critical_ns) filter (kernel.rule is null) as critical_ns,
        -- of the calls whose shapes say it
        sum(kernel.critical_ns * greatest(0, 1 - near.roofline_frac)) filter (kernel.rule is null) as far_ns,
        sum(kernel.critical_ns) filter (kernel.rule is null and near.roofline_frac is not null) as known_ns,
        bool_and(near.is_even) filter (kernel.rule is null) as is_even,
        bool_and(coalesce(near.is_short, false)) filter (kernel.rule is null) as is_short,
        sum(op.end_ns - op.start_ns) as length_ns,
        any_value(kernel.class) filter (kernel.rule is null) as class,
        max(op.grid_x::hugeint * op.grid_y * op.grid_z) filter (kernel.rule is null) as block_cnt,
        max(op.block_x::hugeint * op.block_y * op.block_z) filter (kernel.rule is null) as thread_cnt
    from _blamed_kernel as kernel
    semi join _dominant_kernel as dominant using (source_id, name_id)
    join gpu_op as op using (gpu_op_id)
    left join near on near.range_id = op.operator_id
    group by kernel.source_id, kernel.name_id
),
-- of those with few blocks how many run at once: of what runs at the same time one is on the critical path
few as (
    select named.source_id, named.name_id, any_value(named.block_cnt) * sum(op.end_ns - op.start_ns) / any_value(named.length_ns) as block_cnt
    from named
    join unit on unit.source_id = named.source_id and 2 * named.block_cnt <= unit.sm_cnt
    join gpu_op as op on op.source_id = named.source_id and op.name_id = named.name_id
    join _steady_time as steady
        on steady.source_id = op.source_id and op.start_ns >= steady.start_ns and op.start_ns < steady.end_ns
    group by named.source_id, named.name_id
)
select
    kernel.source_id,
    short.short_name as place,
    if(
        -- what is known of most of its calls is taken for all
        2 * sum(kernel.known_ns) >= sum(kernel.critical_ns),
        -- what is padding is the rule padding's
        sum(kernel.far_ns) / sum(kernel.known_ns) * sum(kernel.critical_ns)
        * (1 - if(any_value(padding.padding_frac) >= (select value from threshold where name = 'padding_frac'),
            any_value(padding.padding_frac), 0)),
        null
    ) as saving_ns,
    sum(kernel.cnt)::bigint as occurrence_cnt,
    format('{}: {:.0f} % of the time is on the critical path in it', any_value(kernel.class),
        100 * sum(kernel.whole_ns) / any_value(dominant.path_ns))
    || if(sum(kernel.critical_ns) < 0.95 * sum(kernel.whole_ns), format(' ({:.0f} % not in other findings)',
        100 * sum(kernel.critical_ns) / any_value(dominant.path_ns)), '')
    || format(', {}', said_ns(sum(kernel.kernel_ns) / sum(kernel.cnt)))
    || if(sum(kernel.cnt) = 1, '', ' on average')
    || if(2 * sum(kernel.known_ns) >= sum(kernel.critical_ns), format(', where the device''s data sheet allows {}',
        said_ns(sum(kernel.kernel_ns) / sum(kernel.cnt) * (1 - sum(kernel.far_ns) / sum(kernel.known_ns)))), '')
    || coalesce(any_value(said_counters(counter.sm_active, counter.tensor_active, counter.dram_read + counter.dram_write))
        filter (counter.is_telling), '') as evidence,
    coalesce(any_value(limit_advice(counter.limited_by, has_torch(kernel.source_id))), '')
    || regexp_replace(case
        when 2 * max(few.block_cnt) <= any_value(unit.sm_cnt) and 2 * max(kernel.block_cnt) <= any_value(unit.sm_cnt) then
            case
                when max(few.block_cnt) < 1.5 and max(kernel.thread_cnt) = 1 then 'A single thread runs'
                when max(few.block_cnt) < 1.5 then 'One block runs'
                else format('At most {:.0f} blocks run', max(few.block_cnt))
            end
            || format(' on a GPU of {} multiprocessors: ', any_value(unit.sm_cnt))
            || if(has_torch(kernel.source_id), 'give it more work at once (larger batches, several adapters in one pass)',
                'share the work among more threads and blocks')
            || ', or let independent work run beside it on other streams.'
        when regexp_matches(short.short_name, '\bf64|\bnvjet d|(^|[^a-z])[dz]\d*gem[mv]') then
            'Compute in 32 bits or fewer where the result allows: '
            || if(any_value(unit.has_doubles), 'it moves half the bytes, and 16 bits are many times as fast on this device.',
                'most devices have few units for 64.')
        when regexp_matches(short.short_name, 'gemv') then
            'It multiplies by a vector, so it reads each weight for a single row: give it more rows (larger batches, several '
            || 'sequences or adapters at once), or weights of fewer bits.'
        when any_value(kernel.class) = 'matmul' and not regexp_matches(
            any_value(name.text),
            '(?i)gem[mv]|cutlass|cublas|cudnn|xmma|nvjet|cijk|splitk|[wd]grad|fprop|conv|winograd|fft|mma|_mm_|bmm_|triton|miopen'
        ) then
            if(
                -- what says no types is Triton's, in programs that have torch: it multiplies in tensor cores, too
                not bool_or(is_in_16_bits(name.text) or kernel.is_short)
                and (not has_torch(kernel.source_id) or regexp_matches(any_value(name.text), '\bfloat\b|f32|fp32')),
                'It is from no library known here: matmuls of cuBLAS, CUTLASS or cuDNN (torch.matmul) use tensor cores and '
                || 'read each number fewer times.',
                'It is a custom kernel: tune its tiles for this device and these sizes, and give it more rows ('
                || if(regexp_matches(any_value(name.text), '(?i)moe|expert|_ogs|grouped'), 'more tokens per expert', 'larger batches')
                || '); leave padding out.'
            )
        when any_value(kernel.class) = 'matmul' and regexp_matches(any_value(name.text), '(?i)[dw]grad|fprop|conv|winograd') then
            'It is a convolution: '
            || if(bool_or(is_in_16_bits(name.text) or kernel.is_short) or regexp_matches(short.short_name, 'f16|fp8|i8'), '', '16 bits, ')
            || if(has_torch(kernel.source_id), 'memory_format=torch.channels_last, cudnn.benchmark=True where sizes stay the same, ',
                'channels last in memory (NHWC), the fastest of the library''s algorithms for these sizes, ')
            || 'channel counts that are multiples of 8, larger batches.'
        when any_value(kernel.class) = 'matmul' then
            if(bool_or(is_in_16_bits(name.text) or kernel.is_short) or regexp_matches(short.short_name, 'f16|fp8|i8'), 'Compute', 'Compute in 16 or 8 bits,')
            || if(coalesce(bool_and(kernel.is_even), false), '', ' with sizes that are multiples of 64,') || ' in fewer and larger products ('
            || if(kernel.source_id in (select source_id from _lora_path), 'several adapters in one pass', 'larger batches')
            || '); leave padding out.'
            || if(2 * sum(kernel.far_ns) > sum(kernel.known_ns) and 2 * sum(kernel.known_ns) >= sum(kernel.critical_ns)
                and bool_or(starts_with(name.text, 'Cijk_')),
                ' If its sizes are large already, let the library choose by measuring (PYTORCH_TUNABLEOP_ENABLED=1).', '')
        when any_value(kernel.class) = 'lora' and regexp_matches(any_value(name.text), '(?i)[sb]gmv|lora_(shrink|expand)') then
            'It serves all adapters of a batch in one pass already: use ranks no larger than needed (max_lora_rank, too), batch more '
            || 'requests.'
        when any_value(kernel.class) = 'lora' then 'Train several adapters in one pass, in 16 bits, with ranks that are multiples of 16.'
        when any_value(kernel.class) = 'attention' and regexp_matches(short.short_name, 'fmha.* f32') then
            'It is fused, but in float32: '
            || if(any_value(unit.is_before_ampere),
                'float16 (autocast with GradScaler) is faster; this device has neither bfloat16 nor FlashAttention.',
                'in 16 bits (autocast, bfloat16 weights) FlashAttention takes its place.')
            || ' is_causal in place of a mask, and leave padding out.'
        when any_value(kernel.class) = 'attention' and regexp_matches(any_value(name.text), '(?i)paged|unified_attention|decode|_mla') then
            'It is fused already, and reads the KV cache: keep keys and values in 8 bits, use a model with fewer heads '
            || 'of them (GQA, MLA), shorter contexts, or another attention backend.'
        when any_value(kernel.class) = 'attention' and regexp_matches(short.short_name, '(?i)flash|fmha|sage|fused|attn_(fwd|bwd)') then
            'It is fused already: '
            || if(2 * sum(kernel.far_ns) > sum(kernel.known_ns) and 2 * sum(kernel.known_ns) >= sum(kernel.critical_ns),
                'another implementation may come closer to the data sheet (FlashAttention or cuDNN on NVIDIA, AITER or Composable '
                || 'Kernel on AMD). Otherwise: ', '')
            || 'is_causal in place of a mask, leave padding out, fewer heads of keys and values, sliding-window '
            || 'attention for long sequences.'
        when any_value(kernel.class) = 'attention' then
            'Take a fused kernel (FlashAttention, scaled_dot_product_attention), is_causal in place of a mask, and '
            || 'leave padding out.'
        when any_value(kernel.class) = 'dequantise' then 'Keep the base in 16 bits where memory allows, or use a kernel that multiplies 4-bit weights.'
        when bool_or(softmax.name_id is not null) then
            'Between two matmuls it is attention written out: scaled_dot_product_attention makes one kernel of '
            || 'all three and moves far fewer bytes.'
        when any_value(kernel.class) = 'optimizer' and regexp_matches(
            any_value(name.text), '(?i)(adam|sgd|lamb|lion|adagrad)\w*functor|koptimizer|fused_?(adam|sgd|lamb|adagrad)'
        ) then
            'It updates many weights in one pass already: train fewer of them (LoRA), keep states in fewer bits (8-bit optimizers), '
            || 'or update less often (gradient accumulation).'
        when any_value(kernel.class) = 'optimizer' and has_torch(kernel.source_id)
            and not regexp_matches(any_value(name.text), '(?i)gemm|nvjet|cutlass|^Cijk_|^triton_') then
            'Update all weights in one kernel: an optimizer with fused=True (foreach=True at least); or train fewer of them (LoRA).'
        when regexp_matches(any_value(name.text), '^triton_(poi|red|per)_') then
            'The compiler has fused it already (torch.compile): move fewer bytes (16 bits, fewer elements), or let it try more variants '
            || '(mode="max-autotune").'
        when regexp_matches(any_value(name.text), '_fusion(_\d+)?$') then
            'The compiler (XLA) has fused it already: move fewer bytes (16 bits, fewer elements).'
        when not has_torch(kernel.source_id) then
            if(any_value(counter.limited_by) is null,
                'Nsight Compute (ncu) says what limits it: memory, arithmetic or too few threads at once; fuse it with '
                || 'its neighbors, and move fewer bytes.',
                'Fuse it with its neighbors, and move fewer bytes.')
        else 'Fuse it with its neighbors (torch.compile, XLA, a fused implementation); move fewer bytes.'
    -- which is no help where counters say that memory is not the limit
    end, if(coalesce(any_value(counter.limited_by), 'memory') = 'memory', '^$', '(;|,| and) (and )?move fewer bytes\.$'), '.') as advice
from named as kernel
join _dominant_kernel as dominant using (source_id, name_id)
join _short_name as short using (source_id, name_id)
join name on name.name_id = kernel.name_id
left join few on few.source_id = kernel.source_id and few.name_id = kernel.name_id
left join unit on unit.source_id = kernel.source_id
left join softmax on softmax.name_id = kernel.name_id
left join _metric_use as counter on counter.source_id = kernel.source_id and counter.name_id = kernel.name_id
left join _padding as padding on padding.source_id = kernel.source_id
group by kernel.source_id, short.short_name
