"""Rules about kernels: each on a trace with the fault, on one without, and on one where the fault costs nothing.

All work is launched in the first microseconds, so the GPU is the limit; what stream 8 does beside the long kernel of
stream 7 is not on the critical path.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import dear, quick
from hypothesis import example, given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze

# name, stream, begin and duration in microseconds, operator around its launch
Kernel = tuple[str, int, int, int, str | None]

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3> >()"
MUL = ADD.replace("_add", "_mul")
LAYOUT = "void cudnn::ops::nchwToNhwcKernel<float, float>(float*)"
SOFTMAX = "void softmax_warp_forward<float, float, float, 8, false, false>(float*)"
SGEMM, GEMM = "ampere_sgemm_128x64_nt", "nvjet_sm90_tst_64x48_64x15_2x4_h_bz_TNT"
MATH, FLASH = "aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_flash_attention"
LONG: Kernel = ("long_gemm", 7, 100, 1000, None)
BESIDE = 8

WITH: dict[str, tuple[list[Kernel], list[Kernel], dict[str | None, float]]] = {
    # rule: kernels with the fault, kernels without, and by place what the rule says they cost
    "layout_conversion": ([(LAYOUT, 7, 1100, 100, None)], [(GEMM, 7, 1100, 100, None)], {"step": 100}),
    "unfused_elementwise": (
        [(ADD, 7, 1100, 100, None), (MUL, 7, 1200, 150, None), (ADD, 7, 1350, 50, None)],
        [(ADD, 7, 1100, 100, None), (GEMM, 7, 1200, 150, None), (ADD, 7, 1350, 50, None)],
        {"step": 150},  # the longest stands for the one pass that a fused kernel makes
    ),
    "recomputation": (
        [(GEMM, 7, 1100, 100, "recompute"), (SOFTMAX, 7, 1200, 80, "recompute")],
        [(GEMM, 7, 1100, 100, "aten::mm"), (SOFTMAX, 7, 1200, 80, "aten::_softmax")],
        {"step/recompute": 180},
    ),
    "math_attention": (
        [(GEMM, 7, 1100, 100, MATH), (SOFTMAX, 7, 1200, 80, MATH)],
        [(GEMM, 7, 1100, 100, FLASH), (SOFTMAX, 7, 1200, 80, FLASH)],
        {f"step/{MATH}": 80},  # the product remains
    ),
    "float32_matmul": (
        [(SGEMM, 7, 1100, 500, None)],
        [(GEMM, 7, 1100, 500, None)],
        {"sgemm 128x64 nt": 500 * (1 - 67 / 989)},
    ),
    "dominant_kernel": (
        [(GEMM, 7, 1100, 200, "aten::mm")],
        [(GEMM, 7, 1100, 100, "aten::mm")],  # less than a tenth
        {"nvjet tst 64x48 TNT": 200 - 2 * 1000 * 2000 * 3000 / 989e12 * 1e6},
    ),
}  # fmt: skip


def findings(
    folder: Path, kernels: list[Kernel], rule: str, device: str = "NVIDIA H100 80GB HBM3"
) -> dict[str | None, float]:
    """Places and microseconds that a rule finds in a trace of one step."""
    return {place: us for place, us, _, _ in found_in(folder, kernels, rule, device)}


def found_in(
    folder: Path, kernels: list[Kernel], rule: str, device: str, about: dict[str, Any] | None = None
) -> list[tuple[str | None, float, str, str]]:
    """The same with evidence and advice. about: what is said of all kernels."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 0, "dur": 3000}
    ]
    shapes = {"Input Dims": [[1000, 2000], [2000, 3000]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    for n, (name, stream, start, duration, operator) in enumerate(kernels, start=1):
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5 * n, "dur": 2}
        kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration}
        events += [call | {"args": {"correlation": n}}]
        events += [kernel | {"args": {"correlation": n, "device": 0, "stream": stream} | (about or {})}]
        if operator:
            events.append(call | {"cat": "cpu_op", "name": operator, "ts": 5 * n - 1, "dur": 4, "args": shapes})
    wait = {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1, "ts": 90}
    events.append(wait | {"dur": max(start + duration for _, _, start, duration, _ in kernels) - 90})
    path = folder / "trace.json"
    content = {"deviceProperties": [{"id": 0, "name": device, "numSms": 80}], "traceEvents": events}
    path.write_text(json.dumps(content), "utf-8")
    with analyze([path], folder / "x.duckdb") as database:
        return database.rows(
            "select place, saving_ns / 1e3, evidence, advice from finding "
            f"where rule = '{rule}' and place is distinct from 'long_gemm'"
        )


@pytest.mark.parametrize("rule", WITH)
def test_a_kernel_with_a_fault_is_found_with_what_it_costs_at_most(rule: str, tmp_path: Path) -> None:
    kernels, _, expected = WITH[rule]
    assert findings(tmp_path, [LONG, *kernels], rule) == {
        place: pytest.approx(us, abs=1e-3) for place, us in expected.items()
    }


@pytest.mark.parametrize("rule", WITH)
def test_a_kernel_without_the_fault_is_not(rule: str, tmp_path: Path) -> None:
    _, kernels, _ = WITH[rule]
    assert findings(tmp_path, [LONG, *kernels], rule) == {}


@pytest.mark.parametrize("rule", WITH)
def test_a_fault_that_something_else_hides_costs_nothing(rule: str, tmp_path: Path) -> None:
    kernels, _, _ = WITH[rule]
    hidden = [(name, BESIDE, start - 950, duration, operator) for name, _, start, duration, operator in kernels]
    assert findings(tmp_path, [LONG, *hidden], rule) == {}


V100, MI300X = "Tesla V100-SXM2-32GB", "AMD Instinct MI300X"
BY_8 = {V100: 1 - 15.7 / 125, MI300X: 1 - 163.4 / 1307}


PRODUCTS = [
    (V100, "volta_scudnn_128x64_relu_medium_nn_v1", BY_8[V100], "to float16"),
    (V100, "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)", BY_8[V100], "to float16"),
    (V100, "void implicit_convolve_sgemm<float, float, 1024, 6>(int)", BY_8[V100], "to float16"),
    # a quarter of the products
    (V100, "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", 1 - 4 * 15.7 / 125, "to float16"),
    ("NVIDIA A10G", "ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", 0, ""),
    (V100, "void implicit_convolve_sgemm<__half, __half, 1024, 6>(int)", 0, ""),
    (V100, "volta_h884gemm_64x128_ldg8_tn", 0, ""),
    (MI300X, "Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1_SN", BY_8[MI300X], "matrix cores"),
    (MI300X, "Cijk_Ailk_Bljk_SB_MT64x64x16_MI16x16x1_SN", BY_8[MI300X], "matrix cores"),
    (MI300X, "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64_MI16x16x1_SN", 0, ""),
]  # fmt: skip


@pytest.mark.parametrize("device", [V100, "NVIDIA A10G", MI300X])
def test_products_in_32_bits_are_known_by_their_names(device: str, tmp_path: Path) -> None:
    """All of a device one after another, each of a length of its own."""
    cases = [case[1:] for case in PRODUCTS if case[0] == device]
    lengths = [500 + 10 * number for number in range(len(cases))]
    kernels = [
        (name, 7, 1100 + sum(lengths[:number]), lengths[number], None) for number, (name, *_) in enumerate(cases)
    ]
    found = found_in(tmp_path, [LONG, *kernels], "float32_matmul", device)
    expected = {length * gain: advised for length, (_, gain, advised) in zip(lengths, cases, strict=True) if gain}
    assert sorted(us for _, us, _, _ in found) == pytest.approx(sorted(expected), abs=1e-3)
    for _, us, _, advice in found:
        assert expected[min(expected, key=lambda other: abs(other - us))] in advice


@pytest.mark.parametrize(
    ("grid", "block", "said"),
    [
        ([1, 1, 1], [1, 1, 1], "A single thread runs on a GPU of 80 multiprocessors: "),
        ([1, 1, 1], [256, 1, 1], "One block runs on a GPU of 80 multiprocessors: "),
        ([5, 8, 1], [256, 1, 1], "At most 40 blocks run on a GPU of 80 multiprocessors: "),
        ([41, 1, 1], [256, 1, 1], "Make one kernel of it and its neighbours"),
        ([2**31 - 1, 65535, 65535], [1024, 1, 1], "Make one kernel of it and its neighbours"),
    ],
)
def test_what_leaves_most_of_the_gpu_idle_is_told_so(
    grid: list[int], block: list[int], said: str, tmp_path: Path
) -> None:
    ((_, _, _, advice),) = found_in(
        tmp_path, [(ADD, 7, 1100, 500, None)], "dominant_kernel", V100, {"grid": grid, "block": block}
    )
    assert advice.startswith(said)


@pytest.mark.parametrize(
    ("name", "is_known"), [("matmul_k(float *, int)", False), ("volta_fp16_s884gemm_fp16_64x64_nn", True)]
)
def test_a_product_of_ones_own_is_told_of_libraries(name: str, is_known: bool, tmp_path: Path) -> None:
    ((_, _, _, advice),) = found_in(tmp_path, [(name, 7, 1100, 500, None)], "dominant_kernel", V100)
    assert ("It is in no library that is known here" in advice) != is_known


@pytest.mark.parametrize(("operator", "is_told"), [("aten::mm", True), (None, False)])
def test_a_product_far_from_what_an_amd_device_allows_is_told_of_tuning(
    operator: str | None, is_told: bool, tmp_path: Path
) -> None:
    """Only where shapes say how far."""
    kernel = ("Cijk_Alik_Bljk_BBS_BH_MT256x192x64", 7, 1100, 500, operator)
    ((_, _, _, advice),) = found_in(tmp_path, [LONG, kernel], "dominant_kernel", MI300X)
    assert ("PYTORCH_TUNABLEOP_ENABLED" in advice) == is_told


def test_products_in_64_bits_are_not_told_to_use_16(tmp_path: Path) -> None:
    name = "void gemv2T_kernel_val<int, int, double, double, double, double, (int)128, (int)16>(T)"
    ((_, _, _, advice),) = found_in(tmp_path, [LONG, (name, 7, 1100, 500, None)], "dominant_kernel", V100)
    assert advice.startswith("Compute in 32 bits or fewer")


FUSED_ADAM = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >"
FOREACH = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor<float, 2> >"
H100, T4 = "NVIDIA H100 80GB HBM3", "Tesla T4"
BITS, TILES, LIBRARY = "Compute in 16 or 8 bits", "It is a kernel of its own", "It is in no library that is known here"


@pytest.mark.parametrize(
    ("name", "device", "operator", "said"),
    [
        # precision, as names of libraries have it
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", H100, None, "Compute with sizes"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN", H100, None, "Compute with sizes"),
        ("nvjet_sss_128x256_64x4_1x2_h_bz_coopA_NTN", H100, None, BITS),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", T4, None, "Compute with sizes"),
        ("ampere_s1688gemm_128x128_ldg4_stages_32x3_tn", H100, None, BITS),
        ("some_gemm", H100, None, BITS),
        ("some_gemm", H100, "aten::mm", "Compute with sizes"),  # its operator's numbers are bfloat16
        # libraries
        ("fused_moe_kernel", H100, None, "more tokens for each expert"),
        ("void marlin::Marlin<__nv_bfloat16, 256, 1>", H100, None, TILES),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256", H100, None, TILES),
        ("matmul_kernel_persistent", H100, None, TILES),
        ("matmul_k(float *, int)", H100, None, LIBRARY),
        # 64 bits
        ("ampere_dgemm_128x64_tn", H100, None, "it moves half the bytes"),
        ("ampere_dgemm_128x64_tn", "NVIDIA A10G", None, "most devices have few units for 64"),
        ("cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1", H100, None, "Compute in 32 bits"),
        # what is fused already, or batched
        ("_sgmv_shrink_kernel", H100, None, "It serves all adapters of a batch in one pass already"),
        ("paged_attention_v2_kernel", H100, None, "It is fused already, and reads what earlier tokens left"),
        ("kernel_unified_attention_2d", H100, None, "It is fused already, and reads what earlier tokens left"),
        ("written_out_attention", H100, None, "Take a fused kernel"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm70", V100, None, "this device has neither bfloat16 nor FlashAttention"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", H100, None, "FlashAttention takes its place"),
        ("triton_poi_fused_add_mul_silu_3", H100, None, "The compiler has fused it already"),
        ("loop_add_fusion_3", H100, None, "The compiler (XLA) has fused it already"),
        (ADD, H100, None, "Make one kernel of it"),
        (FUSED_ADAM, H100, None, "It updates many weights in one pass already"),
        (FOREACH, H100, None, "Update all weights in one kernel: an optimizer with fused=True"),
        # softmax of attention, of a router, of a loss
        (SOFTMAX, H100, None, "Between two products of matrices it is attention written out"),
        ("void vllm::moe::topkGatingSoftmax<4, 64, 4, 16, int>", H100, None, "Make one kernel of it"),
        ("triton_red_fused__log_softmax_nll_loss_2", H100, None, "The compiler has fused it already"),
    ],
)  # fmt: skip
def test_advice_on_a_kernel_is_none_that_it_follows_already(
    name: str, device: str, operator: str | None, said: str, tmp_path: Path
) -> None:
    ((_, _, _, advice),) = found_in(tmp_path, [(name, 7, 1100, 500, operator)], "dominant_kernel", device)
    assert said in advice


@pytest.mark.parametrize(("streams", "told"), [(1, "At most 10 blocks run"), (2, "At most 20 blocks run"), (8, "")])
def test_blocks_that_run_at_once_on_several_streams_count_together(streams: int, told: str, tmp_path: Path) -> None:
    kernels: list[Kernel] = [(ADD, 7 + n % streams, 1100 + 100 * (n // streams), 100, None) for n in range(16)]
    about = {"grid": [10, 1, 1], "block": [256, 1, 1]}
    ((_, _, _, advice),) = found_in(tmp_path, kernels, "dominant_kernel", V100, about)
    assert advice.startswith(told or "Make one kernel of it")


def launched(
    launch: int, begin: int, length: int, number: int, call_length: int = 2, name: str = GEMM
) -> list[dict[str, Any]]:
    """A launching call and its kernel, in microseconds."""
    link = {"correlation": number}
    call = called("cudaLaunchKernel", launch, call_length)
    kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": begin, "dur": length}
    return [call | {"args": link}, kernel | {"args": link | {"device": 0, "stream": 7}}]


def called(name: str, start: int, length: int) -> dict[str, Any]:
    """A call that launches nothing."""
    return {"ph": "X", "pid": 1, "tid": 1, "cat": "cuda_runtime", "name": name, "ts": start, "dur": length}


@pytest.mark.parametrize("told_at", [None, -8, -2])
def test_a_stream_that_was_told_to_wait_is_named(told_at: int | None, tmp_path: Path) -> None:
    """Before the launch of what ended the gap, or already before the launch before it."""
    events = [*launched(0, 10, 8, 1), *launched(15, 20, 8, 2), *launched(20, 30_000, 8, 3)]
    if told_at is not None:
        events.append(called("cudaStreamWaitEvent", 20 + told_at, 1))
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((evidence,),) = database.rows("select evidence from finding where rule = 'long_dependency'")
    assert ("cudaStreamWaitEvent" in evidence) is (told_at == -2)


@pytest.mark.parametrize(
    ("wait", "other_device", "rule"),
    [
        ((25, 30_000), False, "unrecorded_work"),
        ((25, 9_000), False, "long_dependency"),
        ((25, 30_000), True, "long_dependency"),
    ],
)
def test_what_the_cpu_waits_for_while_the_gpu_seems_idle_is_not_in_the_file(
    wait: tuple[int, int], other_device: bool, rule: str, tmp_path: Path
) -> None:
    """The work was launched in time; with two devices, what it waits for may be on the other."""
    events = [*launched(0, 10, 8, 1), *launched(15, 30_000, 8, 2), called("cudaStreamSynchronize", wait[0], wait[1])]
    if other_device:
        events += launched(17, 20, 8, 3)
        events[-1]["args"]["device"] = 1
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((found, saving_ns, evidence),) = database.rows(
            "select rule, saving_ns, evidence from finding where rule in ('long_dependency', 'unrecorded_work')"
        )
    assert found == rule
    assert (saving_ns is None) == (rule == "unrecorded_work")
    assert ("cudaStreamSynchronize" in evidence) == (wait[1] > 10_000)


def test_a_recording_may_end_behind_a_copy_that_waits(tmp_path: Path) -> None:
    """No wait follows it that would say whether its result is read."""
    link = {"correlation": 9}
    copied = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 0, "tid": 7}
    copied |= {"ts": 9_020, "dur": 5, "args": link | {"device": 0, "stream": 7, "bytes": 4}}
    events = [*launched(0, 10, 9_000, 1), called("cudaMemcpyAsync", 20, 9_020) | {"args": link}, copied]
    events += launched(30_000, 30_010, 8, 2)
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert database.rows("select rule from _judged_gap where rule is not null") == [("pageable_async_copy",)]


@pytest.mark.parametrize(
    ("bytes_", "direction", "advised"),
    [(4_096, "HtoD (Pageable -> Device)", "Small copies (4,096 bytes on average)"),
     (1 << 20, "HtoD (Pageable -> Device)", "Allocate the host tensor in pinned memory"),
     (4_096, "DtoH (Device -> Pageable)", "The CPU reads a result back")],
)  # fmt: skip
def test_small_copies_to_the_device_are_not_advised_on_as_batches(
    bytes_: int, direction: str, advised: str, tmp_path: Path
) -> None:
    """A list of indices that is made a tensor in each call is better moved once than pinned."""
    link = {"correlation": 9}
    copied = {"ph": "X", "cat": "gpu_memcpy", "name": f"Memcpy {direction}", "pid": 0, "tid": 7}
    copied |= {"ts": 9_020, "dur": 5, "args": link | {"device": 0, "stream": 7, "bytes": bytes_}}
    events = [*launched(0, 10, 9_000, 1), called("cudaMemcpyAsync", 20, 9_026) | {"args": link}, copied]
    events += launched(9_300, 9_310, 8, 2)
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((advice,),) = database.rows("select advice from finding where rule = 'pageable_async_copy'")
    assert advice.startswith(advised)


def test_elementwise_kernels_with_a_copy_between_them_are_no_row(tmp_path: Path) -> None:
    kernels = [((ADD, MUL)[n], 7, 1100 + 100 * n, 100, None) for n in range(2)] + [("Memcpy", 7, 1300, 10, None)]
    kernels += [((ADD, MUL)[n], 7, 1310 + 100 * n, 100, None) for n in range(2)]
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == {}


def test_what_a_compiler_fused_is_not_called_unfused(tmp_path: Path) -> None:
    kernels = [(f"triton_poi_fused_add_{n}", 7, 1100 + 100 * n, 100, None) for n in range(4)]
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == {}


def test_one_kernel_takes_the_place_of_ten_at_most(tmp_path: Path) -> None:
    """A loop over parameters has tensors of its own in each turn."""
    kernels = [((ADD, MUL)[n % 2], 7, 1100 + 100 * n, 100, None) for n in range(24)]
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == {"step": (9 + 9 + 3) * 100}


def test_a_norm_in_pieces_with_its_casts_is_one_row(tmp_path: Path) -> None:
    """A residual and an RMS norm, as transformers writes it: one kernel reads it once. A gather reads from anywhere."""
    part = "void at::native::vectorized_elementwise_kernel<4, at::native::{}, std::array<char*, 3ul> >(int)"
    copy, reduce = part.format("direct_copy_kernel_cuda"), "void at::native::reduce_kernel<512, 1, MeanOps<float> >()"
    names = [ADD, copy, part.format("pow_tensor_scalar"), reduce, ADD, part.format("rsqrt_kernel_cuda"), MUL, copy, MUL]
    kernels = [(name, 7, 1100 + 100 * n, 100 - n, None) for n, name in enumerate(names)]
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == {"step": sum(99 - n for n in range(8))}
    (tmp_path / "b").mkdir()
    gather = [
        (name, 7, 1100 + 100 * n, 100, None) for n, name in enumerate((ADD, MUL, "indexSelectLargeIndex", ADD, MUL))
    ]
    assert findings(tmp_path / "b", [LONG, *gather], "unfused_elementwise") == {}


@pytest.mark.parametrize(
    ("names", "cost"),
    [((ADD,) * 6, {}), ((ADD,) * 3 + (MUL,) * 3, {}), ((ADD, ADD, MUL, MUL, ADD), {"step": 200}),
     (("loop_add_fusion_1", "loop_multiply_fusion", "loop_add_fusion"), {}), ((ADD, MUL, ADD), {"step": 200}),
     ((ADD, "void scalePackedTensor_kernel<float, float>(long, float*, float)", MUL), {}),
     ((ADD, "SubTensorOpWithScalar1d", MUL), {})],
)  # fmt: skip
def test_one_operation_on_several_arrays_is_no_chain(
    names: tuple[str, ...], cost: dict[str, float], tmp_path: Path
) -> None:
    """Each has a pass of its own: one kernel for all of them moves as many bytes. What XLA made is fused already."""
    kernels = [(name, 7, 1100 + 100 * n, 100, None) for n, name in enumerate(names)]
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == cost


def test_a_kernel_is_blamed_once(tmp_path: Path) -> None:
    """Three elementwise kernels in a row inside math attention are attention's."""
    kernels = [((ADD, MUL)[n % 2], 7, 1100 + 100 * n, 100, MATH) for n in range(3)]
    (tmp_path / "a").mkdir()
    assert findings(tmp_path / "a", [LONG, *kernels], "math_attention") == {f"step/{MATH}": 300}
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == {}


Span = tuple[str, str, int, int]  # category, name, begin and length in us


def with_gap(path: Path, inside: list[Span], copied: str | None = None) -> tuple[str, str]:
    """Evidence and advice of a gap from 110 to 30,010 us in which the CPU is in these, ended by a kernel or a copy."""
    common = {"ph": "X", "pid": 1, "tid": 1}
    events: list[dict[str, Any]] = []
    for number, time in enumerate((0, 30_000), start=1):
        link = {"correlation": number}
        events.append(common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": time, "dur": 5, "args": link})
        kernel = {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": time + 10, "dur": 100}
        ended = {"cat": "gpu_memcpy", "name": copied} if copied and number == 2 else {}
        events.append(kernel | ended | {"args": link | {"device": 0, "stream": 7}})
    events += [common | {"cat": category, "name": name, "ts": begin, "dur": length}
               for category, name, begin, length in inside]  # fmt: skip
    (path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([path / "trace.json"], path / "x.duckdb") as database:
        ((evidence, advice),) = database.rows("select evidence, advice from finding where rule = 'long_idle_gap'")
    return evidence.partition("in it the CPU is in ")[2], advice


@pytest.mark.parametrize(
    ("inside", "advised"),
    [
        (None, "Name what the CPU does there"),
        (("cuda_runtime", "cudaHostAlloc"), "Memory of the host is pinned there"),
        (("cpu_op", "aten::bernoulli_"), "Compare its calls"),
        (("user_annotation", "save"), "Look at what is done there"),
        (("python_function", "train.py(7): log"), "Look at what is done there"),
    ],
)
def test_advice_on_a_long_gap_is_about_what_the_cpu_was_in(
    inside: tuple[str, str] | None, advised: str, tmp_path: Path
) -> None:
    said, advice = with_gap(tmp_path, [(*inside, 500, 29_000)] if inside else [])
    assert said == (inside[1] if inside else "no range or CUDA call")
    assert advice.startswith(advised)


@pytest.mark.parametrize(
    ("operator", "copy", "advised"),
    [
        ("aten::normal_", "Memcpy HtoD (Pageable -> Device)", "The CPU computes there what is then copied"),
        ("aten::stack", "Memcpy HtoD (Pinned -> Device)", "The CPU computes there what is then copied"),
        ("aten::normal_", "Memcpy DtoD (Device -> Device)", "Compare its calls"),
        ("aten::_to_copy", "Memcpy HtoD (Pageable -> Device)", "Compare its calls"),
        ("aten::_pin_memory", "Memcpy HtoD (Pinned -> Device)", "Memory of the host is pinned there"),
    ],
)
def test_what_the_cpu_computes_before_it_is_copied_should_be_computed_elsewhere(
    operator: str, copy: str, advised: str, tmp_path: Path
) -> None:
    said, advice = with_gap(tmp_path, [("cpu_op", operator, 500, 29_000)], copied=copy)
    assert said == operator and advice.startswith(advised)


def test_an_operator_that_is_slow_to_launch_is_named(tmp_path: Path) -> None:
    """The gap is inside the operator whose kernel ends it: it compiles, loads or chooses an algorithm."""
    said, advice = with_gap(tmp_path, [("cpu_op", "aten::addmm", 500, 29_510)])
    assert said == "aten::addmm"
    assert advice.startswith("Compare its calls")


@pytest.mark.parametrize("loads", [0, 1, 3])
def test_what_is_loaded_while_something_compiles_does_not_end_it(loads: int, tmp_path: Path) -> None:
    compiled = {"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation", "name": "backend_compile (dynamo_timed)"}
    events = [*launched(0, 10, 100, 1), compiled | {"ts": 1, "dur": 29_900}, *launched(30_000, 30_010, 100, 2)]
    events += [called("cuModuleLoadData", 20 + 20 * number, 10) for number in range(loads)]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert database.rows("select rule, idle_ns from _judged_gap") == [("compiling_or_loading", 29_900_000)]


@pytest.mark.parametrize("load", [5_000, 12_000, 20_000])
def test_a_gap_is_blamed_on_loading_that_is_most_of_it(load: int, tmp_path: Path) -> None:
    """A kernel that loads for 5 of 30 ms ends a gap in which the CPU did something else; one for 20 what made it."""
    slow = launched(30_000 - load, 30_010, 100, 2, call_length=load, name="other")
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [*launched(0, 10, 100, 1), *slow]}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        rules = database.rows("select rule from _judged_gap")
        savings = database.rows("select saving_ns from finding where rule = 'compiling_or_loading'")
    assert rules == [("compiling_or_loading" if load == 20_000 else "long_idle_gap",)]
    assert len(savings) == (load == 20_000)


def test_what_a_slow_launch_returned_from_in_the_gap_begins_late_for_the_loading(tmp_path: Path) -> None:
    """Lazy loading goes on behind the call: nothing else is there that the kernel could have waited for."""
    events = [*launched(0, 10, 500, 1), *launched(300, 2_500, 8, 2, call_length=800, name="other")]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert database.rows("select cause, idle_ns from idle_gap") == [("host", 1_990_000)]
        assert database.rows("select rule from _judged_gap") == [("compiling_or_loading",)]


@pytest.mark.parametrize(
    ("call", "category", "name", "advised"),
    [
        ("cudaGraphLaunch", "kernel", "other", "The first launch of a graph"),
        ("cudaMemcpyAsync", "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "The call itself takes so long"),
    ],
)
def test_a_call_that_is_most_of_the_gap_that_its_own_work_ends_is_named(
    call: str, category: str, name: str, advised: str, tmp_path: Path
) -> None:
    """And not the Python around it, of which nothing else is there to be looked at."""
    slow, work = launched(200, 9_130, 8, 3, call_length=8_900, name=name)
    around = {"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation", "name": "replay", "ts": 150, "dur": 9_000}
    events = [*launched(0, 10, 100, 1), slow | {"name": call}, work | {"cat": category}, around]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((evidence, advice),) = database.rows("select evidence, advice from finding where rule = 'long_idle_gap'")
    assert evidence.endswith(f"in it the CPU is in {call} itself")
    assert advice.startswith(advised)


@pytest.mark.parametrize(
    ("later", "advised"),
    [
        (
            1_000,
            "The first call makes CUDA ready, which is paid once: warm up before the recording begins. "
            "Later ones take 1.0 ms at most, from pinned memory less.",
        ),
        (8_000, "The call itself takes so long before anything moves"),
    ],
)  # fmt: skip
def test_a_copy_that_is_slow_once_is_told_from_copies_that_all_are(later: int, advised: str, tmp_path: Path) -> None:
    """What is paid once, pinned memory does not save."""
    name = "Memcpy HtoD (Pageable -> Device)"
    slow = launched(200, 9_130, 8, 2, call_length=8_900, name=name)
    next_one = launched(9_200, 39_150, 8, 4, call_length=later, name=name)  # the GPU works meanwhile
    events = [*launched(0, 10, 100, 1), *launched(9_120, 9_140, 30_000, 3)]
    for call, copy in (slow, next_one):
        events += [call | {"name": "cudaMemcpyAsync"}, copy | {"cat": "gpu_memcpy"}]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        advice = [text for (text,) in database.rows("select advice from finding where rule = 'long_idle_gap'")]
    assert any(text.startswith(advised) for text in advice), advice


@pytest.mark.parametrize("call", ["cuLibraryLoadData", "cudaGraphInstantiate"])
def test_without_steps_the_whole_gap_around_what_is_made_ready_is_said(call: str, tmp_path: Path) -> None:
    """The first launch behind a load is slow as well: the load alone would leave most of the gap unsaid."""
    events = [*launched(0, 10, 100, 1), called(call, 500, 9_000), *launched(30_000, 30_010, 100, 2)]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((rule, place, saving_ns, evidence),) = database.rows(
            "select rule, place, saving_ns, evidence from finding where saving_ns > 0"
        )
    assert (rule, place) == ("compiling_or_loading", call)
    assert saving_ns == pytest.approx(29_900_000, rel=0.01)
    assert evidence.endswith("once; the GPU is idle for 29.9 ms around it")


@pytest.mark.parametrize(
    ("before", "is_first"), quick(4, [(0, True), (4, True), (0, False), (4, False), (1, True), (1, False)])
)
def test_a_launch_that_takes_the_whole_gap_was_late_although_it_began_in_time(
    before: int, is_first: bool, tmp_path: Path
) -> None:
    """At its first launch a kernel is loaded; a slow launch behind that is the CPU's all the same."""
    events = [*launched(0, 10, 100, 1), *launched(5, 110, 8, 2, name="idle" if is_first else "other")]
    events += launched(118 - before, 9_130, 8, 3, call_length=9_000, name="other")
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert database.rows("select cause, idle_ns from idle_gap") == [("host", 9_012_000)]
        found = database.rows("select rule, place, limit_ns from _predicted_finding where limit_ns > 0")
    assert found == [
        ("compiling_or_loading", "cudaLaunchKernel", 9_012_000) if is_first else ("long_idle_gap", None, 9_012_000)
    ]


@pytest.mark.parametrize(
    ("call", "calls", "advised"),
    [("hipFree", 9, "Once, it is a library"), ("cuModuleUnload", 1, "Avoid this call within steps")],
)
def test_the_call_that_takes_most_of_a_gap_is_named_and_not_the_operator_around_it(
    call: str, calls: int, advised: str, tmp_path: Path
) -> None:
    freeing: list[Span] = [("cuda_runtime", call, 600 + n * (27_000 // calls), 26_000 // calls) for n in range(calls)]
    said, advice = with_gap(tmp_path, [("cpu_op", "NativeBatchNormBackward0", 500, 29_000), *freeing])
    assert said == call
    assert advice.startswith(advised)


@pytest.mark.parametrize(
    ("listed", "named"),
    [(["MI300X"], "MI300X"), (["MI300X", "MI300X"], "MI300X"), (["V100", "T4"], None), ([""], None)],
)
def test_a_device_by_another_number_is_as_those_that_the_file_lists(
    listed: list[str], named: str | None, tmp_path: Path
) -> None:
    """ROCm counts the CPU's nodes when it records work, and not when it lists devices."""
    devices = [{"id": number, "name": name} for number, name in enumerate(listed)]
    events = launched(0, 10, 100, 1)
    for event in events:
        event["args"] = {**event["args"], "device": 9}
    (tmp_path / "trace.json").write_text(json.dumps({"deviceProperties": devices, "traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert database.rows("select device_id, device_name from steady_state") == [(9, named)]


@pytest.mark.parametrize(("early", "rule"), [(7, "synchronisation"), (-7, "synchronisation"), (50, "long_idle_gap")])
def test_clocks_of_cpu_and_gpu_may_differ_by_microseconds(early: int, rule: str, tmp_path: Path) -> None:
    """A synchronization seems to end before the kernel that it waited for."""
    events = [*launched(0, 10, 990, 1), *launched(31_000, 31_010, 990, 2)]
    events.append(called("cudaDeviceSynchronize", 20, 980 - early))
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert database.rows("select rule from _judged_gap") == [(rule,)]


@pytest.mark.parametrize(
    ("cnt", "length", "said", "advised"),
    [
        (20, 1_000, "31 ranges and calls, most of it aten::cat", "Do less in many small steps"),
        (2, 10_000, "4 ranges and calls, most of it aten::cat", "Look at what is done there"),
        (20, 500, "no range or CUDA call for 66%, else most in aten::cat", "Name what the CPU does there"),
        (20, 100, "no range or CUDA call", "Name what the CPU does there"),
    ],
)
def test_a_gap_full_of_short_operators_is_no_gap_of_nothing(
    cnt: int, length: int, said: str, advised: str, tmp_path: Path
) -> None:
    each = 29_800 // cnt
    spans = [("cpu_op", "aten::cat", 150 + n * each, length) for n in range(cnt)]
    spans += [("cpu_op", "aten::view", begin + length // 4, length // 2) for _, _, begin, _ in spans]  # inside
    spans += [("cuda_runtime", "cudaEventQuery", 150 + n * each + length + 20, 5) for n in range(0, cnt, 2)]
    found, advice = with_gap(tmp_path, spans)
    assert found == said and advice.startswith(advised)


@dear(2, slow=30)
@given(parts=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 2_400)), min_size=1, max_size=24))
@example(parts=[(5, 2_000)] * 5)  # a third of it
@example(parts=[(1, 1_200)] * 20)  # most of it, none of them half of it
def test_what_lies_in_a_gap_counts_once(parts: list[tuple[int, int]]) -> None:
    """Operators one after another, each with one inside it, and the launch that ends the gap: by a loop."""
    spans, at = [], 150
    for pause, length in parts:
        at += pause * 20
        if at + length > 29_900:
            break
        spans += [("cpu_op", f"op{length % 3}", at, length), ("cpu_op", "inner", at, max(1, length // 2))]
        at += length
    outer = spans[::2]
    of_name = {name: sum(length for _, other, _, length in outer if other == name) for _, name, _, _ in outer}
    with TemporaryDirectory() as folder:
        found, _ = with_gap(Path(folder), spans)
    covered = sum(of_name.values()) + 5
    most = [name for name, length in of_name.items() if length == max(of_name.values())]
    if 10 * covered <= 29_900:
        assert found == "no range or CUDA call"
    elif 2 * covered <= 29_900:
        part = f"no range or CUDA call for {1 - covered / 29_900:.0%}"
        assert found in [f"{part}, else most in {name}" for name in most]
    elif max((length for *_, length in outer)) * 2 <= 29_900:
        assert found in [f"{len(outer) + 1} ranges and calls, most of it {name}" for name in most]


@pytest.mark.parametrize(("waited", "idle", "stays"), [(1_000, 30_000, True), (30_000, 1_000, False)])
def test_a_gap_behind_a_short_wait_is_said_to_be_the_work_of_the_cpu(
    waited: int, idle: int, stays: bool, tmp_path: Path
) -> None:
    events: list[dict[str, Any]] = []
    calls = (("cudaMemcpy", 0, waited, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)"),
             ("cudaLaunchKernel", waited + idle, 5, "kernel", GEMM))  # fmt: skip
    for number, (api, time, length, category, name) in enumerate(calls, start=1):
        link = {"correlation": number}
        call = {"ph": "X", "pid": 1, "tid": 1, "cat": "cuda_runtime", "name": api, "ts": time, "dur": length}
        events.append(call | {"args": link})
        work = {
            "ph": "X",
            "pid": 0,
            "tid": 7,
            "cat": category,
            "name": name,
            "ts": time + 8,
            "dur": max(length - 10, 100),
        }
        events.append(work | {"args": link | {"device": 0, "stream": 7}})
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((evidence,),) = database.rows("select evidence from finding where rule = 'blocking_copy'")
    assert evidence.endswith("most of it is the CPU's work") is stays


def found_by_rule(folder: Path, events: list[dict[str, Any]]) -> dict[str, tuple[str, str, str]]:
    """Place, evidence and advice of the finding of each rule in a trace."""
    (folder / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    with analyze([folder / "trace.json"], folder / "x.duckdb") as database:
        rows = database.rows("select rule, place, evidence, advice from finding")
    return {rule: (place, evidence, advice) for rule, place, evidence, advice in rows}


def test_a_graph_is_made_from_the_begin_of_its_capture_to_the_end(tmp_path: Path) -> None:
    """What is launched in between runs when the graph does."""
    around = [*launched(0, 10, 8, 1), *launched(60_000, 60_010, 8, 2)]
    captured = [called("hipStreamBeginCapture", 100, 5), called("hipStreamEndCapture", 55_000, 50)]
    assert "compiling_or_loading" in found_by_rule(tmp_path, [*around, *captured])
    assert "compiling_or_loading" not in found_by_rule(tmp_path, [*around, captured[0]])


def test_calls_in_a_part_of_a_gap_are_named_with_the_part(tmp_path: Path) -> None:
    """Two fifths of it in calls, one after another: neither nothing nor most of it is in the trace."""
    around = [*launched(0, 10, 8, 1), *launched(20_018, 20_028, 8, 2)]
    calls = [called("cudaFree", 100 + 500 * number, 400) for number in range(20)]
    _, evidence, advice = found_by_rule(tmp_path, [*around, *calls])["long_idle_gap"]
    assert evidence.endswith("no range or CUDA call for 60%, else most in cudaFree")
    assert "most of it is not in the trace" in advice
    _, evidence, advice = found_by_rule(tmp_path, around)["long_idle_gap"]
    assert evidence.endswith("in no range or CUDA call") and "nothing of it is in the trace" in advice


@pytest.mark.parametrize(
    ("calls", "around", "named"),
    [
        ([("hipFree", 29_000)], "python_function", "hipFree on another thread"),
        ([("hipStreamSynchronize", 29_000)], "python_function", "tokenize"),
        ([("hipFree", 9_000), ("hipFree", 9_000)], "python_function", "tokenize"),  # at once: a third of the gap
        ([("cudaHostAlloc", 29_000)], "user_annotation", "tokenize"),  # a thread that pins what is loaded ahead
    ],
)
def test_memory_that_another_thread_frees_is_named_where_python_waits(
    calls: list[tuple[str, int]], around: str, named: str, tmp_path: Path
) -> None:
    """Python waits for autograd's thread: what that one calls is why the next launch is late."""
    events = [*launched(0, 10, 8, 1), *launched(30_018, 30_028, 8, 2)]
    events.append({"ph": "X", "cat": around, "name": "tokenize", "pid": 1, "tid": 1, "ts": 50, "dur": 29_900})
    for number, (call, length) in enumerate(calls):
        events.append(called(call, 500, length) | {"tid": 2 + number})
    _, evidence, _ = found_by_rule(tmp_path, events)["long_idle_gap"]
    assert f"in it the CPU is in {named}" in evidence


def test_what_the_cpu_sits_in_while_nobody_is_late_is_named(tmp_path: Path) -> None:
    """The next launch hangs in the driver for as long as the device waits."""
    around = [*launched(0, 10, 8, 1), *launched(15, 20_020, 8, 2), *launched(30, 20_040, 8, 3, call_length=20_000)]
    place, evidence, _ = found_by_rule(tmp_path, around)["long_dependency"]
    assert place is None and evidence.endswith("in it the CPU is in cudaLaunchKernel")


@pytest.mark.parametrize(("place", "is_exchange"), [("all_to_all", True), ("_all_gather_base", False)])
def test_advice_for_communication_goes_by_what_was_called(place: str, is_exchange: bool, tmp_path: Path) -> None:
    """NCCL's SendRecv is all-to-all in most programs, but gathering as well."""
    events = [{"ph": "X", "cat": "user_annotation", "name": f"nccl:{place}", "pid": 1, "tid": 1, "ts": 0, "dur": 40}]
    events += launched(2, 12, 9_000, 1, name="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)")
    events += launched(50, 9_020, 900, 2)
    _, _, advice = found_by_rule(tmp_path, events)["exposed_communication"]
    assert advice.startswith("All-to-all") is is_exchange


@pytest.mark.parametrize(
    ("sizes", "is_even"), [("[[1024, 512], [512, 256]]", True), ("[[1000, 512], [512, 256]]", False)]
)
def test_sizes_that_are_multiples_already_are_not_advised(sizes: str, is_even: bool, tmp_path: Path) -> None:
    arguments = {"Input Dims": json.loads(sizes), "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 40, "args": arguments}
    ]
    events += launched(2, 12, 9_000, 1)
    _, _, advice = found_by_rule(tmp_path, events)["dominant_kernel"]
    assert ("multiples of 64" not in advice) is is_even
