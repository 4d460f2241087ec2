-- A row is one range whose attention is computed step by step (PyTorch's math implementation) instead of by one kernel.
--
-- Find out why no fused kernel was chosen: with torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION) PyTorch warns of the reason. Usual ones: float32 (use bfloat16), a mask (pass is_causal=True), a head dimension over 256, lengths of nested tensors. The matmuls remain and are not counted here.
--
-- Only with: from _blamed_kernel where rule = 'math_attention'
select
    kernel.source_id,
    range_path.path as place,
    sum(kernel.critical_ns) as saving_ns,
    count(*) as occurrence_cnt,
    format('{:,} kernels of softmax, masks, scaling and copies, {} of the critical path', count(*),
        said_ns(sum(kernel.critical_ns))) as evidence
from _blamed_kernel as kernel
join range_path using (path_id)
where kernel.rule = 'math_attention'
group by kernel.source_id, range_path.path
