-- A row is the name of GPU work of an input, and a short one that a person can say and tell from others.
--
-- What it does, on what, in which type, with which tile. Libraries are told by how they name kernels; what none of the
-- patterns knows is the function's own name without namespaces and arguments. No two names of an input have the same
-- short one: of those that would, each is told by its variant or template numbers, and in the end by a number of its own.
--
-- columns:
--   source_id    integer   the input
--   name_id      bigint    key of the name
--   short_name   varchar   at most 40 characters

with
plain as (
    select
        name_id,
        left(text, 4000) as text,
        -- without what says nothing: return types, casts of template numbers, namespaces
        regexp_replace(
            regexp_replace(left(text, 4000), '^(?:std::enable_if<.*?>::type |void )', ''),
            '\((?:anonymous namespace|int|bool|unsigned long long|unsigned long|unsigned int|long)\)(?:::)?|<unnamed>::'
            || '|at::native::|c10::|std::|\bat::|\bcuda::|\bgpu_(?:index_)?kernel(?:_impl)?(?:_nocast)?<',
            '', 'g'
        ) as plain
    from name
    semi join (select distinct name_id from gpu_op) as op using (name_id)
),
parted as (
    select
        *,
        -- of kernels that are called just that the namespace
        coalesce(
            nullif(regexp_extract(plain, '^[\w:]*\bdevice_kernel<[\w:]*?(\w+)::\w*[Kk]ernel>', 1), ''),
            regexp_extract(regexp_extract(plain, '^[^<(]*'), '([^:]*?)(?:::kernel)?$', 1)
        ) as base,
        regexp_extract(plain, '[<(](.*)$', 1) as rest,
        -- an index is no type of the values
        replace(if(contains(plain, '<'), regexp_extract(plain, '<(.*)>(?:\(|$)', 1), plain), 'lambda(int)', '') as typed
    from plain
),
judged as (
    select
        *,
        -- what an elementwise kernel or a reduction computes
        lower(coalesce(
            said_as(rest, '\b(adam|Adam|lamb|sgd|SGD|FusedAdam|FusedSgd)\w*?(?:Math)?Functor', '\1'),
            said_as(rest, '\b(plus|minus|multiplies|divides|power_functor)<', '\1'),
            said_as(rest, 'CUDAFunctor(?:OnSelf)?_(\w+)', '\1'),
            said_as(rest, 'binary_internal::(\w+?)Functor', '\1'),
            said_as(rest, '(?:UnaryFunctor|BinaryFunctor)<[^<]*?\b(\w+?)(?:Functor|_kernel_impl)\b', '\1'),
            said_as(rest, '\b(?:direct_)?(\w+?)(?:_tensor)?(?:_scalar)?_kernel_(?:cuda|impl)\b', '\1'),
            said_as(rest, '\blaunch_(\w+)_scalar\b', '\1'),
            said_as(rest, '\b(\w+?)_(?:scalar_)?kernel\b', '\1'),
            said_as(rest, '\b(\w+)_cuda_out\b', '\1'),
            said_as(rest, '\b(\w+?)CUDAKernelImpl\b', '\1'),
            said_as(rest, '\b(\w+?)(?:Functor|_functor|Ops)\b', '\1'),
            'op'
        )) as operation,
        -- the first type of its template, or else of its arguments: one of floating-point numbers, if there is one
        case
            coalesce(
                nullif(regexp_extract(
                    typed,
                    '\b(?:__nv_|__hip_|__)?(bfloat16|BFloat16|DF16b|half|Half|Float8_e\w*|float8_e\w*|double|float)(?:_t)?\b', 1
                ), ''),
                regexp_extract(typed, '\b(OpaqueType|long|int64_t|int|bool|signed char|unsigned char|int8_t)\b', 1)
            )[:6]
            when 'bfloat' then 'bf16' when 'BFloat' then 'bf16' when 'DF16b' then 'bf16' when 'half' then 'f16'
            when 'Half' then 'f16' when 'Float8' then 'fp8' when 'float8' then 'fp8' when 'double' then 'f64'
            when 'float' then 'f32' when 'long' then 'i64' when 'int64_' then 'i64' when 'int' then 'i32'
            when 'bool' then 'bool' when 'signed' then 'i8' when 'int8_t' then 'i8' when 'unsign' then 'u8'
            else ''
        end as type,
        -- AMD's products of matrices say by their indices whether they transpose, and their type by a letter
        case when starts_with(text, 'Cijk_') then concat(
            'Cijk ',
            case regexp_extract(text, '^Cijk_\w+?_\w+?_([A-Z]\d?)', 1)
                when 'B' then 'bf16 ' when 'H' then 'f16 ' when 'S' then 'f32 ' when 'D' then 'f64 ' when 'F8' then 'fp8 '
                when 'I8' then 'i8 '
            end,
            if(contains(text, '_Alik'), 't', 'n'),
            if(contains(text, '_Bjlk'), 't', 'n')
        ) end as tensile,
        list_aggregate(regexp_extract_all(regexp_extract(plain, '<([^(]*)', 1), '\b(\d+)(?:u|l|ul)?\b', 1)[1:5],
            'string_agg', 'x') as numbers
    from parted
),
said as (
    select
        name_id,
        text,
        numbers,
        coalesce(
            -- copies and communication
            said_as(text, '^Memcpy (\w+) \(.*Pageable', 'copy \1 pageable'),
            said_as(text, '^Memcpy (\w+) \(.*Pinned', 'copy \1 pinned'),
            said_as(text, '^(?:\[CUDA memcpy (\w+)\]|Memcpy (\w+) )', 'copy \1\2'),
            said_as(text, '^\[CUDA Unified Memory memcpy (\w+)\]', 'page copy \1'),
            said_as(text, '^(?:\[CUDA memset\]|Memset )', 'memset'),
            said_as(text, '^n?r?ccl(?:Dev)?Kernel_([A-Za-z]+)_(RING|TREE|NVLS|COLLNET\w*?)_(LL128|LL|SIMPLE)(?:_(\w+))?',
                'nccl \1 \2 \3 \4'),
            said_as(text, '^(n|r)ccl(?:Dev)?Kernel_?(\w+)', '\1ccl \2'),
            -- attention
            said_as(plain, 'flash_fwd_(splitkv_)?kernel<.*?traits<(\d+),.*?>\s?>?, \w+, (?:true|1),', 'flash fwd \1hdim\2 causal'),
            said_as(plain, 'flash_fwd_(splitkv_)?kernel<.*?traits<(\d+),', 'flash fwd \1hdim\2'),
            said_as(plain, 'flash_bwd_(dq_dk_dv|convert_dq|dot_do_o)\w*<.*?traits<(\d+),.*?>\s?>?, \w+, (?:true|1),',
                'flash bwd \1 hdim\2 causal'),
            said_as(plain, 'flash_bwd_(dq_dk_dv|convert_dq|dot_do_o)\w*<.*?traits<(\d+),', 'flash bwd \1 hdim\2'),
            said_as(plain, 'FlashAttn(Fwd|Bwd)(Combine|Preprocess|PostprocessConvertdQ)?', 'flash3 \1 \2'),
            said_as(text, 'fmha_cutlass(F|B)_(\w+?)_aligned_(\d+x\d+)(?:_(k\d+))?', 'fmha cutlass \1 \2 \3 \4'),
            said_as(text, 'sdpa_sm\d+_flash_(fprop|bprop)_\w*?(b?f16)_knob_\d+_(\d+x\d+x\d+)', 'cudnn flash \1 \2 \3'),
            said_as(text, 'fmhaSm(\w+?)Kernel_Qkv(\w+?)O(\w+?)(H\d+)PagedKv(\w*?Causal)', 'fmha \4 \2 \5'),
            said_as(text, 'paged_attention_(\w+?)_kernel', 'paged_attention \1'),
            -- products of matrices, convolutions
            tensile || said_as(text, '_MT(\d+x\d+x\d+)', ' MT\1'),
            said_as(text, 'cutlass_(?:\d+_)?(?:simt_|tensorop_|wmma_)?(\w*?(?:gemm|fprop|dgrad|wgrad))(?:_[a-z]+\d*)*?'
                || '_(\d+x\d+)_(\d+x\d+)_(nn|nt|tn|tt|\w+?)_align(\d+)', 'cutlass \1 \2 \4 a\5'),
            said_as(text, '(?:ampere|volta|turing|maxwell|hopper|pascal)_(\w*?gemm\w*?|(?:fp16_|fp32_)?[hsdi]\d*cudnn)_(?:fp16_|fp32_)?(?:(winograd)_)?(\d+x\d+)'
                || '(?:_ldg\d)*(?:_relu|_interior|_small|_medium|_large|_xregs|_exp|_tile\w+)*(_stridedB|_sliced\w+?)?(_splitK)?'
                || '(?:_\w+?)??_(nn|nt|tn|tt)\b?', '\1 \2 \3\4\5 \6'),
            said_as(text, 'sm\d+_xmma_(fprop|wgrad|dgrad|gemm)_(?:implicit_gemm_indexed_)?([a-z]+\d+)\w*?_(?:(nn|nt|tn|tt)_n_)?'
                || 'tilesize(\d+x\d+x\d+)\w*?(split_k)', 'xmma \1 \2 \3 \4 \5'),
            said_as(text, 'sm\d+_xmma_(fprop|wgrad|dgrad|gemm)_(?:implicit_gemm_indexed_)?([a-z]+\d+)\w*?_(?:(nn|nt|tn|tt)_n_)?'
                || 'tilesize(\d+x\d+x\d+)', 'xmma \1 \2 \3 \4'),
            said_as(text, 'nvjet_(?:sm\d+_)?([a-z]+)_(\d+x\d+)_\w+?(_2cta)?_[hv]_bz(_bias|_splitK)?\w*?_([NT]{3})',
                'nvjet \1 \2 \5\4\3'),
            said_as(text, 'igemm_(fwd|bwd|wrw)_\w+?_(nhwc|nchw)_(\w+?)_\w*?bt(\d+x\d+x\d+)', 'igemm \1 \2 \3 \4'),
            said_as(text, 'bmm_(\w+?)_Fp32_t(\d+x\d+x\d+)\w*?(_swiGlu)?', 'bmm \1 \2'),
            said_as(text, 'bmm_(\w+?)_t(\d+x\d+x\d+)', 'bmm \1 \2'),
            said_as(text, 'cutlass\w*::Kernel\w*<(?:cutlass_)?(\w+)>', '\1'),
            said_as(plain, 'cutlass::gemm::kernel::(\w+)<.*?MainloopSm(\d+).*?\bC<\d+>, (?:cute::)?C<\d+>, (?:cute::)?C<\d+>>'
                || '.*?\bC<(\d+)>, (?:cute::)?C<(\d+)>, (?:cute::)?C<(\d+)>', 'cutlass \1 sm\2 \3x\4x\5'),
            said_as(plain, 'cutlass::gemm::kernel::(\w+)<.*?GemmShape<(\d+), ?(\d+), ?(\d+)>', 'cutlass \1 \2x\3x\4'),
            said_as(text, 'ImplicitGemmConvolution.*?(Fprop|Dgrad|Wgrad)', 'cutlass conv \1'),
            said_as(text, '\dkernel_(grouped_conv_(?:fwd|bwd_data|bwd_weight))', 'ck \1'),
            said_as(text, 'ck_tile.*?\d\d([A-Z][a-z]+\w*?(?:Fwd|Bwd))I', 'ck_tile \1'),
            said_as(text, '(epilogue)::impl::globalKernel', 'cublasLt epilogue'),
            -- what others generate
            said_as(text, 'triton_(poi|red|per|tem|for)_fused_+(\w+)', 'triton \1 fused \2'),
            said_as(text, 'triton_+0d[\dd]+', 'triton'),
            said_as(text, 'rocprim::.*?wrapped_(\w+?)_config', 'rocprim \1'),
            said_as(text, '^_ZN?\d+(aiter|vllm|sgl_hip)\d*.*?\d([a-z]\w*?)(?:_kernel)?I', '\1 \2'),
            said_as(text, '^_Z.*?\d([a-z_A-Z]+?)_?[kK]ernel', '\1'),
            -- PyTorch
            if(regexp_matches(base, '^vectorized_elementwise'), 'elementwise ' || operation || ' ' || type, null),
            if(regexp_matches(base, '^unrolled_elementwise'), 'elementwise ' || operation || ' ' || type || ' unrolled', null),
            if(regexp_matches(base, '^index_elementwise'), 'elementwise ' || operation, null),
            if(regexp_matches(base, '^elementwise_kernel'), 'elementwise ' || operation || ' ' || type || ' strided', null),
            if(base = 'reduce_kernel', 'reduce ' || operation || ' ' || type, null),
            if(regexp_matches(base, '^multi_tensor_apply'), 'foreach ' || operation || ' ' || type, null),
            regexp_replace(base, '(?:_?[kK]ernel)(_|$)', '\1') || ' ' || type
        ) as short
    from judged
),
tidy as (
    select
        name_id,
        text,
        numbers,
        coalesce(
            nullif(regexp_replace(trim(regexp_replace(short, '[\s_]*\s[\s_]*', ' ', 'g')), '^_+', ''), ''),
            nullif(left(text, 40), ''),
            '(no name)'
        ) as short
    from said
),
-- unique among the kernels of an input, whatever else is in the database
of_source as (
    select op.source_id, tidy.*
    from (select distinct source_id, name_id from gpu_op) as op
    join tidy using (name_id)
),
told as (
    select
        source_id,
        name_id,
        text,
        if(count(*) over (partition by source_id, left(short, 40)) > 1 and numbers is not null,
            format('{} {}', left(short, 39 - least(length(numbers), 16)), left(numbers, 16)), short) as short
    from of_source
),
cut as (
    select source_id, name_id, text, if(length(short) > 40, left(short, 39) || '…', short) as short
    from told
),
counted as (
    select
        source_id,
        name_id,
        text,
        short,
        count(*) over (partition by source_id, short) > 1 as is_shared
    from cut
)
select
    source_id,
    name_id,
    if(
        is_shared,
        format('{} #{}', left(short, 34), row_number() over (
            partition by source_id, left(short, 34), is_shared order by text
        )),
        short
    ) as short_name
from counted
