-- A row is a kernel of matrix products in 32 bits on a device whose tensor cores are faster.
--
-- Let tensor cores do it: autocast or bfloat16 weights, or torch.backends.cuda.matmul.fp32_precision = "tf32" where the last bits do not matter.
select
    kernel.source_id,
    short.short_name as place,
    sum(kernel.critical_ns * kernel.gain_frac) as saving_ns,
    count(*) as occurrence_cnt,
    format('{} of the critical path; 16 bits are {:.0f} times as fast on this device', said_ns(sum(kernel.critical_ns)),
        1 / (1 - any_value(kernel.gain_frac))) as evidence
from _blamed_kernel as kernel
join _short_name as short using (source_id, name_id)
where kernel.rule = 'float32_matmul'
group by kernel.source_id, short.short_name
