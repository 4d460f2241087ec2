"""Short names of kernels: what a person says, and each told from all others."""
# ruff: noqa: E501 - names of kernels are long

from pathlib import Path

import pytest
from lorabench.analyze.store.building import building
from lorabench.analyze.store.database import Database
from views.test_rows import fill

_ADD = "at::native::CUDAFunctor_add<c10::BFloat16>"
_FLASH = "flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t, flash::T<128, 128> >"
_LAMBDA = "(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda(float)#1}"
SAID = {
    f"void at::native::vectorized_elementwise_kernel<8, {_ADD}, std::array<char*, 3ul> >(int, {_ADD})": "elementwise add bf16",
    f"void at::native::vectorized_elementwise_kernel<4, at::native::cos_kernel_cuda{_LAMBDA}>(int)": "elementwise cos f32",
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda"
    f"{_LAMBDA}>(at::TensorIteratorBase&)::{{lambda(int)#1}}>(int)": "elementwise copy f32 strided",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>, int, float, 4> >(x)":
        "reduce mean f32",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)":
        "vectorized_layer_norm bf16",
    "ampere_sgemm_128x64_nt": "sgemm 128x64 nt",
    "volta_h884gemm_64x128_ldg8_tn": "h884gemm 64x128 tn",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x4_nn_align8>(T1::Params)":
        "cutlass bf16_s16816gemm 128x128 nn a8",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)": "cutlass sgemm 256x128 nn a1",
    "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<cutlass::gemm::threadblock::MmaPipelined<cutlass::gemm::GemmShape<"
    "(int)128, (int)64, (int)32>, cutlass::transform::PitchLinear<(int)32>, float> > >(T1::Params)":
        "cutlass Gemm 128x64x32",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, cutlass::gemm::collective"
    "::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmma<(int)5, cute::tuple<cute::C<(int)2>, cute::C<(int)1>, cute::C<(int)1>>"
    ", cutlass::gemm::K>, cute::tuple<cute::C<(int)128>, cute::C<(int)256>, cute::C<(int)64>>, cutlass::half_t> > >(T1)":
        "cutlass GemmUniversal sm90 128x256x64",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas":
        "xmma gemm bf16 tn 128x128x64",
    "nvjet_sm90_tst_64x48_64x15_2x4_h_bz_TNT": "nvjet tst 64x48 TNT",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64_MI16x16x1_SN": "Cijk bf16 tn MT128x128x64",
    "Cijk_Ailk_Bjlk_HHS_BH_MT64x32x16_SE": "Cijk f16 nt MT64x32x16",
    f"void flash::flash_fwd_kernel<{_FLASH}, false, true, false, false, false, true, false>(flash::P)":
        "flash fwd hdim128 causal",
    f"void flash::flash_fwd_kernel<{_FLASH}, false, false, false, false, false, true, false>(flash::P)":
        "flash fwd hdim128",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)": "fmha cutlass F bf16 64x64",
    "triton_red_fused_add_mean_3": "triton red fused add_mean_3",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "nccl AllGather RING LL",
    "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*, unsigned char*, float*)": "kDequantizeBlockwise bf16",
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(int, int volatile*)": "foreach adam f32",
    "Memcpy HtoD (Pageable -> Device)": "copy HtoD pageable",
    "[CUDA memcpy DtoH]": "copy DtoH",
    "saxpy(double *, double *, int)": "saxpy f64",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256EEvPT0_": "aiter add_rmsnorm_quant",
}  # fmt: skip


def named(folder: Path, texts: list[str]) -> dict[str, str]:
    def op(n: int) -> dict[str, object]:
        return {"gpu_op_id": n, "source_id": 1, "kind": "kernel", "name_id": n, "start_ns": n, "end_ns": n + 1}

    def asked(database: Database) -> dict[str, str]:
        return dict(database.rows("select text, short_name from _short_name join name using (name_id)"))

    with building(folder / "model.duckdb") as database:
        model = {"name": [{"name_id": n, "text": text} for n, text in enumerate(texts)]}
        fill(database, model | {"gpu_op": [op(n) for n in range(len(texts))]})
        return asked(database)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return named(tmp_path_factory.mktemp("names"), list(SAID))


@pytest.mark.parametrize("text", SAID, ids=SAID.values())
def test_a_kernel_is_called_what_a_person_calls_it(text: str, said: dict[str, str]) -> None:
    assert said[text] == SAID[text]


def test_no_two_kernels_have_the_same_short_name(tmp_path: Path) -> None:
    """Told by the numbers of their templates, else counted; long ones and odd ones too."""
    long = "a_function_with_a_name_that_goes_on_and_on"
    texts = [f"void k<float, {n}>(int)" for n in (4, 8)]
    texts += [f"void same_kernel<float>({kind})" for kind in ("int", "long")]
    texts += [f"{long}_{n}" for n in range(200)] + [f"{long}_{n}<float, 1>(x)" for n in range(9)]
    texts += ["", " ", "<", "(", "\n", "a\nb", "\ufffd" * 50, "x" * 100_000, "x" * 100_001]
    found = named(tmp_path, texts)
    assert len(set(found.values())) == len(texts)
    assert max(map(len, found.values())) <= 40
    assert [found[text] for text in texts[:4]] == ["k f32 4", "k f32 8", "same f32 #1", "same f32 #2"]
