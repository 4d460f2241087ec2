"""Classes of kernels: by what a kernel computes, whatever types its template takes."""
# ruff: noqa: E501 - names of kernels are long

import pytest
from lorabench.analyze.store.building import building
from views.test_rows import fill

IS = {
    "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<{0}, {0}, 4, true> >(P)": "routing",
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<{0}>::exists, void>::type vllm::fused_add_rms_norm_kernel<{0}, 8>({0}*)": "norm",
    "void vllm::rotary_embedding_kernel<{0}, true>(long const*, {0}*)": "elementwise",
    "void vllm::reshape_and_cache_flash_kernel<{0}, {0}>({0} const*)": "data_movement",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, {0}>, false>(P)": "attention",
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_gemm_64x64_{0}>(T)": "matmul",
    "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<{0}> >(P)": "matmul",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<{0}>, std::array<char*, 3> >(int)": "elementwise",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<{0}, float>(int)": "norm",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<{0}, at::native::MeanOps<{0}, float> > >(x)": "reduction",
    "void cudnn::cnn::conv2d_grouped_direct_kernel<{0}, 3>(int)": "matmul",
    "void fft2d_r2c_16x16<{0}, true>(float2*, cudnn::reduced_divisor)": "matmul",
    "triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_7": "norm",
    "triton_per_fused_sum_3": "reduction",
    "triton_poi_fused_add_mul_silu_1": "elementwise",
    "triton_poi_fused__to_copy_2": "data_movement",
    "void permute_pooled_embs_kernel<{0}>(float const*)": "data_movement",
    "void fbgemm_gpu::permute_2D_data_kernel<true, long, {0}>(int)": "data_movement",
    "void split_embedding_codegen_forward_unweighted_kernel<{0}, fbgemm_gpu::CacheAlgorithm>(x)": "data_movement",
    "void tcnn::kernel_mlp_fused<64, 2, {0}>(P)": "matmul",
    "void at::native::(anonymous namespace)::upsample_bilinear2d_out_frame<{0}, float>(int)": "elementwise",
    "float2half(float const*, {0}*, int)": "elementwise",
    "void cudnn::ops::convertTensor_kernel<float, float, {0}, (cudnnKernelDataType_t)0>(float, float const*, float, {0}*)": "elementwise",
    "fused_moe_kernel": "matmul",
    "void marlin::Marlin<{0}, 256, 1>": "matmul",
    "void generate_seed_pseudo<rng_config<curandStateXORWOW, (curandOrdering)101>>({0})": "elementwise",
    "void fbgemm_gpu::f8f8bf16_rowwise::cutlass_gemm_kernel<{0}>(P)": "matmul",
    "ampere_fp16_s16816gemm_fp16_128x128_{0}": "matmul",
    "cupy_true_divide__float64_float64_float64": "elementwise",
    "cupy_copy__float64_float64": "data_movement",
    "void aiter::add_rmsnorm_quant_kernel<{0}, {0}, 256, 24, true>({0}*)": "norm",
    "void vllm::dynamic_per_token_scaled_fp8_quant_kernel<{0}, __nv_fp8_e4m3>({0} const*)": "quantise",
    "sm50_xmma_pooling_coalescedC_NHWC_kMAX_3_False_execute_kernel_trt": "reduction",
    "void genericReformat::copyVectorizedKernel<{0}>(P)": "layout",
    "void cutensor_internal_namespace::tensor_elementwise_kernel::permutationKernelPLC3<{0}>(P)": "layout",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)": "communication",
    # the types of arguments do not say what a kernel does
    "evaluate(int *, curandStateXORWOW *, {0} *)": "other",
    "void evaluate<{0}>(at::ElementwiseThing<{0}, void (*)(int, {0}), 2>, long)": "other",
    "void im2col4d_kernel<{0}, int>(im2col4d_params, cudnnConvolutionStruct, const {0} *)": "data_movement",
    "void foldedNhwcToNhwcKernel<{0}, float>(cudnn::reduced_divisor)": "layout",
}  # fmt: skip
TYPES = (
    "float",
    "__half",
    "__nv_bfloat16",
    "c10::BFloat16",
    "cutlass::half_t",
    "cutlass::bfloat16_t",
    "cutlass::float_e4m3_t",
)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The class of every kernel with every type."""
    names = sorted({name.format(kind) for name in IS for kind in TYPES})
    with building(tmp_path_factory.mktemp("classes") / "x.duckdb") as database:
        ops = [{"gpu_op_id": n, "source_id": 1, "kind": "kernel", "name_id": n, "start_ns": n, "end_ns": n + 1}
               for n in range(len(names))]  # fmt: skip
        fill(database, {"name": [{"name_id": n, "text": name} for n, name in enumerate(names)], "gpu_op": ops})
        return {names[number]: found for number, found in database.rows("select name_id, class from _op_class")}


@pytest.mark.parametrize("name", IS)
@pytest.mark.first(26)
def test_a_kernel_has_the_class_of_what_it_computes(name: str, classes: dict[str, str]) -> None:
    assert {kind: classes[name.format(kind)] for kind in TYPES} == dict.fromkeys(TYPES, IS[name])
