-- A row is a kernel of matrix products in 32 bits on a device whose tensor cores are faster.
--
-- Let tensor cores do it: autocast, bfloat16 weights, or fp32_precision = "tf32" of torch.backends.cuda.matmul and torch.backends.cudnn.conv.
--
-- Without torch: Let tensor cores do it: 16 bits, or TF32 by the framework's setting (cuBLAS: cublasSetMathMode; NVIDIA_TF32_OVERRIDE=1 to try it).
--
-- Only with: from _blamed_kernel where rule = 'float32_matmul'
with
-- tensor cores of Volta and Turing know 16 bits of one kind; PyTorch's settings for TF32 are NVIDIA's
other as (
    select
        source_id,
        if(
            bool_or(regexp_matches(name, '\bMI\d')),
            'Let matrix cores do it in 16 bits: autocast to bfloat16, or bfloat16 weights.',
            'Let tensor cores do it: autocast to float16 with scaled gradients (GradScaler), or float16 weights; this device has '
            || 'neither TF32 nor bfloat16 in its tensor cores.'
        ) as advice
    from device
    where is_before_ampere(name) or regexp_matches(name, '\bMI\d\w+\b')
    group by source_id
)
select
    kernel.source_id,
    short.short_name as place,
    sum(kernel.critical_ns * kernel.gain_frac) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} of the critical path; 16 bits are {:.0f} times as fast by this device''s data sheet', said_ns(sum(kernel.critical_ns)),
        1 / (1 - max(kernel.gain_frac))) as evidence,
    case
        when any_value(other.advice) is not null then any_value(other.advice)
        -- a tensor core takes twice as long for TF32 as for 16 bits
        when max(kernel.gain_frac) <= 0.5 then
            'Let tensor cores do it in 16 bits: autocast, or bfloat16 weights. TF32 is no faster than float32 on this device.'
    end as advice
from _blamed_kernel as kernel
join _short_name as short using (source_id, name_id)
left join other using (source_id)
where kernel.rule = 'float32_matmul'
group by kernel.source_id, short.short_name
