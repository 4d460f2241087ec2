-- A row is a product of matrices that is a part of a LoRA layer, as shapes and order show.
--
-- A LoRA layer multiplies its input by the base's weight and by two narrow ones, whose results are added:
--
--     [m, k] x [k, n]     base             then, nothing but casts, dropout and sums of them between:
--     [m, k] x [k, r]     lora_A           the input of the base again
--     [m, r] x [r, n]     lora_B           as wide as the base's result; more such pairs for further adapters
--
-- with r at most half of both k and n. An activation or a norm between them is of another module (a bottleneck, a gated
-- unit). A pair may have other rows than the base: an adapter's share of a batch, or DoRA's weight. bitsandbytes multiplies
-- by a base in 8 bits, or in 4: two values in each byte of a column.
--
-- needs: staged_name, staged_range

with
named as (
    select name_id, regexp_replace(text, '^aten::', '') as operator
    from staged_name
    where regexp_matches(
        text,
        '^(MatMul(4Bit|8bit(Lt|Fp))|aten::(linear|matmul|mm|addmm_?|_addmm_activation|'
        || '(leaky_)?relu6?_?|gelu|silu_?|mish|elu_?|selu|tanh|sigmoid|hardswish|softplus|softmax|'
        || '(native_)?(layer|batch|group)_norm|rms_norm|instance_norm|scaled_dot_product_attention|embedding))$'
    )
),
placed as (
    select
        staged_range.thread_id,
        staged_range.start_ns,
        staged_range.end_ns,
        staged_range.position,
        staged_range.shape_id,
        named.operator,
        -- what lies in another of these is how that one is done
        coalesce(staged_range.start_ns < max(staged_range.end_ns) over (
            partition by staged_range.thread_id
            order by staged_range.start_ns, staged_range.end_ns desc, staged_range.position
            rows between unbounded preceding and 1 preceding
        ), false) as is_inner
    from staged_range
    join named on named.name_id = staged_range.text_id
    where staged_range.kind = 'operator' and not staged_range.is_backward and staged_range.end_ns is not null
),
shape as (
    select
        used.shape_id,
        try_cast(try_cast(string_split(staged_name.text, '|')[1] as json) as double[][]) as dims,
        case try_cast(try_cast(string_split(staged_name.text, '|')[2] as json) as varchar[])[2]
            when 'unsigned char' then 2 when 'c10::BFloat16' then 4 when 'c10::Half' then 4 when 'float' then 8
        end as packed_cnt  -- values of 4 bits in one of its second input
    from (select distinct shape_id from placed where not is_inner) as used
    join staged_name on staged_name.name_id = used.shape_id
),
-- an addmm has the sum's other side first, a linear's weight lies the other way round
sized as (
    select
        placed.* exclude (is_inner, shape_id),
        shape.dims[if(placed.operator like '%addmm%', 2, 1)] as input,
        shape.dims[if(placed.operator like '%addmm%', 3, 2)] as weight,
        shape.packed_cnt,
        (regexp_matches(placed.operator, '^(linear|matmul|mm|addmm_?|_addmm_activation)$') or placed.operator like 'MatMul%')
            and len(weight) = 2 as is_product
    from placed
    left join shape using (shape_id)
    where not placed.is_inner
),
product as (
    select
        thread_id, start_ns, end_ns, position,
        if(is_product, input[-1], null) as k,
        if(is_product, list_product(input) / nullif(input[-1], 0), null) as m,
        case
            when not is_product then null
            when operator = 'MatMul4Bit' then list_product(weight) * packed_cnt / nullif(input[-1], 0)
            when operator = 'linear' or operator like 'MatMul8bit%' then weight[1]
            else weight[2]
        end as n
    from sized
),
beside as (
    select
        *,
        lag(k) over earlier as base_k,
        lag(n) over earlier as base_n,
        coalesce(
            lead(k) over earlier = n and lead(m) over earlier = m and 2 * n <= least(k, lead(n) over earlier), false
        ) as is_first,
        lead(n) over earlier as out_n
    from product
    window earlier as (partition by thread_id order by start_ns, position)
),
-- what follows a pair of the same layer is its next adapter's; the first of a layer has the base before it
chained as (
    select
        *,
        is_first and coalesce(
            lag(is_first, 2) over earlier and lag(k, 2) over earlier = k and base_n = out_n, false
        ) as is_further,
        coalesce(base_k = k and base_n = out_n, false) as has_base
    from beside
    window earlier as (partition by thread_id order by start_ns, position)
),
layered as (
    select
        *,
        coalesce(bool_or(is_first and not is_further and has_base) over (partition by thread_id, layer), false) as is_layer
    from (
        select
            *,
            count(*) filter (is_first and not is_further) over (
                partition by thread_id order by start_ns, position
            ) as layer
        from chained
    )
),
labelled as (
    select
        thread_id, start_ns, end_ns, n,
        case
            when is_first and is_layer then 'lora_A'
            when lag(is_first and is_layer) over earlier then 'lora_B'
            when lead(is_first and is_layer and not is_further) over earlier then 'base'
        end as part,
        try_cast(if(part = 'lora_B', lag(k) over earlier, k) as bigint) as in_width,
        try_cast(if(part = 'lora_A', out_n, n) as bigint) as out_width,
        try_cast(if(part = 'lora_A', n, null) as bigint) as rank
    from layered
    window earlier as (partition by thread_id order by start_ns, position)
)
select
    thread_id,
    start_ns,
    end_ns,
    part,
    'linear ' || in_width || 'x' || out_width as module,
    n as result_width,
    rank
from labelled
where part is not null and in_width is not null and out_width is not null
