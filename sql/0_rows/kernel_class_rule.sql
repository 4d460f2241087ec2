-- A row is one built-in rule of kernel_class.

select priority, subject, pattern, class
from (
    values
    (100, 'kernel', 'nccl|rccl|deep_ep|dpsk::ep|nvshmem|mscclpp|multimem|cross_device_reduce|(one|two)_?shot', 'communication'),
    (101, 'kernel', 'all_?reduce|all_?gather_kernel|reduce_?scatter', 'communication'),
    (110, 'path', '(^|/)(record_param_comms|c10d::|nccl:|rccl:)', 'communication'),
    (120, 'kernel', '^\[cuda (memcpy|memset)|^(memcpy|memset) ', 'copy'),
    (130, 'kernel', '^\[cuda graph\]', 'graph'),
    (200, 'path', '(^|/)lora_(a|b|embedding_a|embedding_b)(/|$)', 'lora'),
    (210, 'kernel', 'lora|sgmv|bgmv', 'lora'),
    (300, 'kernel', 'dequant|kdequantize', 'dequantise'),
    (310, 'kernel', 'quantize|quantise|doublerowcolquant|kgetcolrowstats|int8_vectorwise|_quant_kernel|fp8_quant', 'quantise'),
    (390, 'kernel', 'reshape_and_cache|kv_?indices', 'data_movement'),
    (400, 'kernel', 'flash|fmha|attention|attn_(fwd|bwd)|sage_(fwd|bwd|attn)|efficient_attention|scaled_dot_product', 'attention'),
    (500, 'kernel', 'multi_tensor_apply|adam|sgd_|lamb_|optimizer|foreach', 'optimizer'),
    (510, 'path', '(^|/)(optimizer|Optimizer\.step)', 'optimizer'),
    (590, 'kernel', 'nchwtonhwc|nhwctonchw|batched_transpose|converttensor|transpose_readwrite', 'layout'),
    (595, 'kernel', '^triton_poi_\w*(conv|mm|linear)', 'elementwise'),
    (600, 'kernel', '(^|[^b]|[^f]b)gemm|gemv|cutlass($|[^:]|::(kernel|device|gemm|conv|reduction))|cublas|xmma|wgrad|dgrad|fprop|matmul|_mm_|nvjet|splitk|^cijk_|^bmm_|ck_moe|mlp_fused', 'matmul'),
    (610, 'kernel', 'conv($|[^e])|fft\dd_(r2c|c2r)|vector_fft|regular_fft|[hsdi]\d*cudnn_|winograd|ampere_.*_tn|miopensp3', 'matmul'),
    (650, 'kernel', 'routing|moe::dev|moe_align', 'routing'),
    (660, 'kernel', 'topk|radix|bitonic|sort', 'sort'),
    (690, 'kernel', 'rope_|rotary|upsample|grid_sampl', 'elementwise'),
    (700, 'kernel', 'triton_[a-z]+_fused_\w*mean_\w*rsqrt|layer_?norm|rms_?norm|batch_?norm|group_?norm|welford|norm_kernel|bn_(fw|bw)|bnorm', 'norm'),
    (790, 'kernel', 'permute_(pooled|\dd)', 'data_movement'),
    (800, 'kernel', 'triton_(red|per)_|softmax|reduce|sum_|argmax|nll_loss|cross_entropy|cub::device|pool', 'reduction'),
    (900, 'kernel', 'copy|cat_?array|transpose|gather|scatter|index|embedding|fill|pad|concat|kv_?cache', 'data_movement'),
    (1000, 'kernel', 'elementwise|pointwise|vectorized|unrolled|triton|gelu|silu|swiglu|relu|dropout|add|mul|cast|rope|^cupy_', 'elementwise'),
    (1010, 'kernel', 'subtensorop|scalepackedtensor|optensor|axpy|half2float|float2half|curandstate|generate_seed', 'elementwise'),
    (2000, 'path', '(^|/)(aten|autograd)::[^/]*(mm|linear|matmul|einsum|conv)[^/]*$', 'matmul'),
    (2010, 'path', '(^|/)(aten|autograd)::[^/]*(attention)[^/]*$', 'attention'),
    (2020, 'path', '(^|/)(aten|autograd)::[^/]*(norm)[^/]*$', 'norm'),
    (2030, 'path', '(^|/)(aten|autograd)::[^/]*(softmax|sum|mean|loss|max|min|pool)[^/]*$', 'reduction'),
    (2040, 'path', '(^|/)(aten|autograd)::[^/]*(copy|cat|index|gather|scatter|embedding|fill|zero|clone|contiguous)[^/]*$', 'data_movement'),
    (2050, 'path', '(^|/)aten::[^/]*$', 'elementwise')
) as rules(priority, subject, pattern, class)
