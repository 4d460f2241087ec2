-- A row is one built-in rule of kernel_class.

select priority, subject, pattern, class
from (
    values
    (100, 'kernel', 'nccl|rccl|deep_ep|nvshmem|mscclpp|all_?reduce_kernel|all_?gather_kernel|reduce_?scatter_kernel', 'communication'),
    (110, 'path', '(^|/)(record_param_comms|c10d::|nccl:)', 'communication'),
    (120, 'kernel', '^\[cuda (memcpy|memset)|^(memcpy|memset) ', 'copy'),
    (200, 'path', '(^|/)lora_(a|b|embedding_a|embedding_b)(/|$)', 'lora'),
    (210, 'kernel', 'lora|sgmv|bgmv', 'lora'),
    (300, 'kernel', 'dequant|kdequantize', 'dequantise'),
    (310, 'kernel', 'quantize|quantise|doublerowcolquant|kgetcolrowstats|int8_vectorwise', 'quantise'),
    (400, 'kernel', 'flash|fmha|attention|attn_(fwd|bwd)|efficient_attention|scaled_dot_product', 'attention'),
    (500, 'kernel', 'multi_tensor_apply|adam|sgd_|lamb_|optimizer|foreach', 'optimizer'),
    (510, 'path', '(^|/)(optimizer|Optimizer\.step)', 'optimizer'),
    (600, 'kernel', 'gemm|gemv|cutlass|cublas|xmma|wgrad|dgrad|fprop|conv|ampere_.*_tn|matmul|_mm_|nvjet|splitk', 'matmul'),
    (700, 'kernel', 'layer_?norm|rms_?norm|batch_?norm|group_?norm|welford|norm_kernel', 'norm'),
    (800, 'kernel', 'softmax|reduce|sum_|argmax|nll_loss|cross_entropy|cub::device', 'reduction'),
    (900, 'kernel', 'copy|cat_?array|transpose|gather|scatter|index|embedding|fill|pad|concat', 'copy'),
    (1000, 'kernel', 'elementwise|pointwise|vectorized|unrolled|triton|gelu|silu|swiglu|relu|dropout|add|mul|cast|rope|rotary', 'elementwise')
) as rules(priority, subject, pattern, class)
