-- A row is an operator's name with the shapes and types of its inputs, and what one call computes and moves.
--
-- Products of matrices: 2 m n k. Attention: the products that it is made of, two forward and five backward, of a causal
-- mask only the pairs that it leaves. A convolution: 2 · outputs · inputs per output, and that again for each gradient
-- that its backward computes. Softmax: five for each value, four backward; norms: seven for each value, eleven backward.
-- Elementwise: one for each value of the largest input. Bytes: every input once and the output once; an embedding reads
-- of its table no more than it writes, and may find that in the cache, so only the output and the indices count.
-- Operators that only call others (aten::linear) have none, nor have those on lists of tensors, whose types no trace holds.
--
-- Texts of a trace may hold anything: all is computed in doubles, which neither overflow nor fail on a division by zero,
-- and what is not a finite number is NULL.
--
-- columns:
--   source_id        integer   the input
--   name_id          bigint    name of the operator
--   shape_id         bigint    its inputs as the file has them, see range
--   operator         varchar   that name as text
--   input_shapes     varchar   sizes of its inputs
--   input_types      varchar   their types
--   value_bytes      integer   size of one value of its first input (behind a list of the second), NULL for an unknown type
--   is_elementwise   boolean   whether it is no product of matrices, no convolution and no attention
--   flop             double    floating-point operations of one call, NULL for operators that are not counted
--   least_flop       double    the fewest of them that do, of a convolution with a window a quarter, NULL likewise
--   bytes            double    bytes that one call must move at least, NULL likewise

with
pair as (
    select distinct range.source_id, range.name_id, range.shape_id
    from range
    where range.kind = 'operator' and range.shape_id is not null
),
text as (
    select
        pair.*,
        name.text as operator,
        string_split(shape.text, '|') as part
    from pair
    join name using (name_id)
    join name as shape on shape.name_id = pair.shape_id
),
parsed as (
    select
        *,
        part[1] as input_shapes,
        part[2] as input_types,
        try_cast(try_cast(part[1] as json) as double[][]) as dims,
        try_cast(try_cast(part[2] as json) as varchar[]) as types,
        list_transform(
            coalesce(try_cast(try_cast(part[3] as json) as varchar[]), []),
            lambda v: try_cast(try_cast(v as json) as double[])
        ) as input_values,
        coalesce(try_cast(try_cast(part[3] as json) as varchar[]), []) as input_texts
    from text
),
sized as (
    select
        *,
        regexp_replace(operator, '^aten::', '') as short,
        case regexp_replace(types[if(types[1] = 'GenericList', 2, 1)], '^c10::', '')
            when 'float' then 4 when 'double' then 8 when 'BFloat16' then 2 when 'Half' then 2 when 'int' then 4
            when 'long' then 8 when 'long int' then 8 when 'bool' then 1 when 'unsigned char' then 1 when 'signed char' then 1
            when 'Float8_e4m3fn' then 1 when 'Float8_e5m2' then 1 when 'Float8_e4m3fnuz' then 1 when 'Float8_e5m2fnuz' then 1
        end as value_bytes,
        list_transform(dims, lambda d: if(len(d) = 0, 1, list_product(d))) as sizes
    from parsed
),
placed as (
    select
        *,
        -- padding, stride and dilation follow each other behind input and weight, and behind bias on the CPU
        case
            when short in ('cudnn_convolution', 'miopen_convolution') then 3
            when short = 'mkldnn_convolution' then 4
        end as padding_at,
        -- FlashAttention's own operators take [batch, length, heads, width], the others [batch, heads, length, width]
        if(regexp_matches(short, '^_(flash|efficient)_attention'), 2, 3) as length_at,
        case
            when short in ('_scaled_dot_product_flash_attention', '_scaled_dot_product_flash_attention_for_cpu') then 5
            when short in (
                '_scaled_dot_product_efficient_attention', '_scaled_dot_product_cudnn_attention', '_cudnn_attention_forward'
            ) then 7
            when short = '_flash_attention_forward' then 9
            when short in (
                '_scaled_dot_product_flash_attention_backward', '_scaled_dot_product_efficient_attention_backward',
                '_flash_attention_backward'
            ) then 12
            when short = '_scaled_dot_product_cudnn_attention_backward' then 15
        end as causal_at,
        -- an operator that was handed its output lists it behind its inputs
        case
            when regexp_matches(short, '^(mul|div)$') and len(dims) > 2 and len(dims[3]) > 0 then 1
            when regexp_matches(short, '^(add|sub|rsub)$') and len(dims) > 3 and len(dims[4]) > 0 then 1
            else 0
        end as has_output
    from sized
),
masked as (
    select
        *,
        case when input_texts[causal_at] = 'True' then
            least(queries, keys) * (least(queries, keys) + 1) / 2 / (queries * keys)
            + greatest(queries - keys, 0) / queries
        else 1 end as pair_frac
    from (
        select
            *,
            dims[if(short like '%backward', 2, 1)][length_at] as queries,
            dims[if(short like '%backward', 3, 2)][length_at] as keys
        from placed
    )
),
conv as (
    select
        *,
        case
            when padding_at is not null and len(dims[1]) > 2
                then dims[1][1] * dims[2][1] * list_product(
                    list_transform(
                        range(1, len(dims[1]) - 1),
                        lambda i: floor(
                            (
                                dims[1][i + 2] + 2 * input_values[padding_at][least(i, len(input_values[padding_at]))]
                                - input_values[padding_at + 2][least(i, len(input_values[padding_at + 2]))]
                                * (dims[2][i + 2] - 1) - 1
                            ) / input_values[padding_at + 1][least(i, len(input_values[padding_at + 1]))]
                        ) + 1
                    )
                )
        end as conv_outputs
    from masked
),
counted as (
    select
        *,
        case
            when short = 'mm' then 2.0 * dims[1][1] * dims[1][2] * dims[2][2]
            when short in ('addmm', '_addmm_activation') then 2.0 * dims[2][1] * dims[2][2] * dims[3][2]
            when short in ('_scaled_mm', '_int_mm') then 2.0 * dims[1][1] * dims[1][2] * dims[2][2]
            when short = 'convolution_backward'
                then 2.0 * sizes[if(input_texts[8] = 'True', 2, 1)] * sizes[3] / dims[3][1]
                    * len(regexp_extract_all(left(input_texts[11], 12), 'True'))
            when short = 'cudnn_convolution_backward_input' then 2.0 * sizes[2] * sizes[3] / dims[3][1]
            when regexp_matches(short, '^_(log_)?softmax$') then 5.0 * sizes[1]
            when regexp_matches(short, '^_(log_)?softmax_backward_data$') then 4.0 * sizes[1]
            when regexp_matches(short, '^(native_layer|native_batch|cudnn_batch|miopen_batch|native_group)_norm$')
                then 7.0 * sizes[1]
            when regexp_matches(short, '^(native_layer|native_batch|cudnn_batch|miopen_batch|native_group)_norm_backward$')
                then 11.0 * sizes[1]
            when short = 'bmm' then 2.0 * dims[1][1] * dims[1][2] * dims[1][3] * dims[2][3]
            when short in ('baddbmm', 'baddbmm_') then 2.0 * dims[2][1] * dims[2][2] * dims[2][3] * dims[3][3]
            when regexp_matches(short, '^_(scaled_dot_product_.*|flash|efficient|cudnn)_attention(_forward)?(_for_cpu)?$')
                and len(dims[1]) = 4
                then 2.0 * pair_frac * sizes[1] * dims[2][length_at] * (dims[1][4] + dims[3][4]) / dims[1][4]
            when regexp_matches(
                short, '^_(scaled_dot_product_.*|flash|efficient|cudnn)_attention(_for_cpu)?_backward$'
            ) and len(dims[2]) = 4
                then 2.0 * pair_frac * sizes[2] * dims[3][length_at] * (3 * dims[2][4] + 2 * dims[4][4]) / dims[2][4]
            when conv_outputs is not null then 2.0 * conv_outputs * sizes[2] / dims[2][1]
            when regexp_matches(
                short,
                '^(add|sub|rsub|mul|div|neg|exp|log|pow|sqrt|rsqrt|reciprocal|abs|sigmoid|tanh|gelu|silu|relu|threshold|'
                || 'gelu_backward|silu_backward|sigmoid_backward|tanh_backward|threshold_backward|where|clamp|sin|cos|'
                || 'addcmul|addcdiv|lerp|masked_fill)_?$'
            ) then list_max(sizes)
        end as flop,
        case
            when short in ('_scaled_mm', '_int_mm') then sizes[1] + sizes[2] + dims[1][1] * dims[2][2]
            when short = 'convolution_backward'
                then sizes[1] + if(regexp_matches(input_texts[11], '^.True'), sizes[3] + sizes[2], 0)
                    + if(regexp_matches(input_texts[11], '^.\w+, True'), sizes[2] + sizes[3], 0)
            when short = 'cudnn_convolution_backward_input' then sizes[2] + sizes[3]
            when regexp_matches(short, '^_(log_)?softmax$') then 2 * sizes[1]
            when regexp_matches(short, '^_(log_)?softmax_backward_data$') then 3 * sizes[1]
            when regexp_matches(short, '^(native_layer|native_batch|cudnn_batch|miopen_batch|native_group)_norm$')
                then 2 * sizes[1]
            when regexp_matches(short, '^(native_layer|native_batch|cudnn_batch|miopen_batch|native_group)_norm_backward$')
                then 3 * sizes[1]
            when short = 'embedding' then sizes[2] * dims[1][2] + sizes[2] * 8 / value_bytes
            when short = 'mm' then sizes[1] + sizes[2] + dims[1][1] * dims[2][2]
            when short in ('addmm', '_addmm_activation')
                then sizes[1] + sizes[2] + sizes[3] + dims[2][1] * dims[3][2]
            when short = 'bmm' then sizes[1] + sizes[2] + dims[1][1] * dims[1][2] * dims[2][3]
            when short in ('baddbmm', 'baddbmm_')
                then sizes[1] + sizes[2] + sizes[3] + dims[2][1] * dims[2][2] * dims[3][3]
            when short like '%attention%backward' then list_sum(sizes[1:5]) + list_sum(sizes[2:4])
            when short like '%attention%' then list_sum(sizes[1:3]) + sizes[1] / dims[1][4] * dims[3][4]
            when conv_outputs is not null then sizes[1] + sizes[2] + conv_outputs
        end as moved
    from conv
)
select
    source_id,
    name_id,
    shape_id,
    operator,
    input_shapes,
    input_types,
    value_bytes,
    not (
        short in ('mm', 'addmm', '_addmm_activation', 'bmm', 'baddbmm', 'baddbmm_', '_scaled_mm', '_int_mm')
        or short like '%convolution%'
        or short like '%attention%'
    ) as is_elementwise,
    if(isfinite(flop), flop, null) as flop,
    -- Winograd's transformations (tiles of 4 x 4 outputs) do with a quarter of a convolution's products
    if(isfinite(flop), flop, null) * if(short like '%convolution%' and list_product(convolved) > 1, 0.25, 1) as least_flop,
    if(isfinite(bytes), bytes, null) as bytes
from (
    select
        *,
        coalesce(dims[if(short like '%backward%', 3, 2)][3:], []) as convolved,
        case
            when moved is not null then moved
            when flop is not null then list_sum(sizes) + if(has_output = 1, 0, list_max(sizes))
        end * value_bytes as bytes
    from counted
)
