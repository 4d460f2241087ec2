"""Rules about kernels: each on a trace with the fault, on one without, and on one where the fault costs nothing.

All work is launched in the first microseconds, so the GPU is the limit; what stream 8 does beside the long kernel of
stream 7 is not on the critical path.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import dear
from hypothesis import example, given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze

Row = dict[str, Any]
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
pytestmark = pytest.mark.first(2)  # each case is a trace that is read

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


def content(kernels: list[Kernel], device: str = "NVIDIA H100 80GB HBM3", about: Row | None = None) -> Row:
    """A trace of one step. about: what is said of all kernels."""
    events: list[Row] = [
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
    return {"deviceProperties": [{"id": 0, "name": device, "numSms": 80}], "traceEvents": events}


_WRITTEN: list[Row] = []  # traces of parametrized tests: one database of all costs little more than one of one


def traced(what: Row | list[Row]) -> int:
    """The number of a trace, of its content or its events, that the fixture `found` has the rows of."""
    _WRITTEN.append(what if isinstance(what, dict) else {"traceEvents": what})
    return len(_WRITTEN) - 1


Found = Callable[..., list[Row]]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """Looks up rows of a view about a trace that was made with `traced`: those that have the values, as rule=."""
    folder = tmp_path_factory.mktemp("traced")
    paths = [folder / f"{number}.json" for number in range(len(_WRITTEN))]
    own = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    asked = {item.callspec.params.get("trace") for item in own}
    used = [
        number for number in range(len(_WRITTEN)) if number in {*asked, SLOW_TO_LAUNCH, IN_PART, IN_NOTHING, SITTING}
    ]
    for number in used:
        paths[number].write_text(json.dumps(_WRITTEN[number]), "utf-8")
    made: dict[str, list[Row]] = {}
    with analyze([paths[number] for number in used], folder / "x.duckdb") as database:

        def get(number: int, view: str = "finding", **values: Any) -> list[Row]:
            if view not in made:
                made[view] = database.dicts(f"select name, of.* from {view} as of join source using (source_id)")
            assert number in used
            of_trace = [row for row in made[view] if row["name"] == paths[number].name]
            return [row for row in of_trace if all(row[column] == value for column, value in values.items())]

        yield get


def costs(rows: list[Row]) -> dict[str | None, float]:
    """By place the microseconds that findings save, but for the kernel that is in all traces."""
    return {row["place"]: row["saving_ns"] / 1e3 for row in rows if row["place"] != "long_gemm"}


def findings(folder: Path, kernels: list[Kernel], rule: str) -> dict[str | None, float]:
    """Places and microseconds that a rule finds in a trace of one step."""
    return {place: us for place, us, _, _ in found_in(folder, kernels, rule, "NVIDIA H100 80GB HBM3")}


def found_in(folder: Path, kernels: list[Kernel], rule: str, device: str) -> list[tuple[str | None, float, str, str]]:
    """The same with evidence and advice."""
    path = folder / "trace.json"
    path.write_text(json.dumps(content(kernels, device)), "utf-8")
    with analyze([path], folder / "x.duckdb") as database:
        return database.rows(
            "select place, saving_ns / 1e3, evidence, advice from finding "
            f"where rule = '{rule}' and place is distinct from 'long_gemm'"
        )


def hidden(kernels: list[Kernel]) -> list[Kernel]:
    """The same beside what is longer."""
    return [(name, BESIDE, start - 950, duration, operator) for name, _, start, duration, operator in kernels]


FAULTS = [
    pytest.param(rule, traced(content([LONG, *kernels])), expected, id=f"{rule}-{kind}")
    for rule, (faulty, sound, cost) in WITH.items()
    for kind, kernels, expected in (("with", faulty, cost), ("without", sound, {}), ("hidden", hidden(faulty), {}))
]


@pytest.mark.parametrize(("rule", "trace", "expected"), FAULTS)
@pytest.mark.first(3)
def test_a_kernel_with_a_fault_is_found_with_what_it_costs_at_most(
    rule: str, trace: int, expected: dict[str | None, float], found: Found
) -> None:
    """One without is not, and a fault that something else hides costs nothing."""
    assert costs(found(trace, rule=rule)) == {place: pytest.approx(us, abs=1e-3) for place, us in expected.items()}


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
@pytest.mark.slow
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


def in_blocks(kernels: list[Kernel], grid: list[int], block: list[int]) -> int:
    return traced(content(kernels, V100, {"grid": grid, "block": block}))


ONE: list[Kernel] = [(ADD, 7, 1100, 500, None)]


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (in_blocks(ONE, [1, 1, 1], [1, 1, 1]), "A single thread runs on a GPU of 80 multiprocessors: "),
        (in_blocks(ONE, [1, 1, 1], [256, 1, 1]), "One block runs on a GPU of 80 multiprocessors: "),
        (in_blocks(ONE, [5, 8, 1], [256, 1, 1]), "At most 40 blocks run on a GPU of 80 multiprocessors: "),
        (in_blocks(ONE, [41, 1, 1], [256, 1, 1]), "Fuse it with its neighbors"),
        (in_blocks(ONE, [2**31 - 1, 65535, 65535], [1024, 1, 1]), "Fuse it with its neighbors"),
    ],
)
def test_what_leaves_most_of_the_gpu_idle_is_told_so(trace: int, said: str, found: Found) -> None:
    (row,) = found(trace, rule="dominant_kernel")
    assert row["advice"].startswith(said)


@pytest.mark.parametrize(
    ("trace", "is_known"),
    [
        (traced(content([("matmul_k(float *, int)", 7, 1100, 500, None)], V100)), False),
        (traced(content([("volta_fp16_s884gemm_fp16_64x64_nn", 7, 1100, 500, None)], V100)), True),
    ],
)
def test_a_product_of_ones_own_is_told_of_libraries(trace: int, is_known: bool, found: Found) -> None:
    (row,) = found(trace, rule="dominant_kernel")
    assert ("It is from no library known here" in row["advice"]) != is_known


@pytest.mark.parametrize(
    ("trace", "is_told"),
    [
        (traced(content([LONG, ("Cijk_Alik_Bljk_BBS_BH_MT256x192x64", 7, 1100, 500, operator)], MI300X)), is_told)
        for operator, is_told in (("aten::mm", True), (None, False))
    ],
)
def test_a_product_far_from_what_an_amd_device_allows_is_told_of_tuning(
    trace: int, is_told: bool, found: Found
) -> None:
    """Only where shapes say how far."""
    (row,) = [row for row in found(trace, rule="dominant_kernel") if row["place"] != "long_gemm"]
    assert ("PYTORCH_TUNABLEOP_ENABLED" in row["advice"]) == is_told


def test_products_in_64_bits_are_not_told_to_use_16(tmp_path: Path) -> None:
    name = "void gemv2T_kernel_val<int, int, double, double, double, double, (int)128, (int)16>(T)"
    ((_, _, _, advice),) = found_in(tmp_path, [LONG, (name, 7, 1100, 500, None)], "dominant_kernel", V100)
    assert advice.startswith("Compute in 32 bits or fewer")


FUSED_ADAM = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >"
FOREACH = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor<float, 2> >"
H100, T4 = "NVIDIA H100 80GB HBM3", "Tesla T4"
BITS, TILES, LIBRARY = "Compute in 16 or 8 bits", "It is a custom kernel", "It is from no library known here"


ADVISED = [
    (traced(content([(name, 7, 1100, 500, operator)], device)), said)
    for name, device, operator, said in (
        # precision, as names of libraries have it
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", H100, None, "Compute with sizes"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN", H100, None, "Compute with sizes"),
        ("nvjet_sss_128x256_64x4_1x2_h_bz_coopA_NTN", H100, None, BITS),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", T4, None, "Compute with sizes"),
        ("ampere_s1688gemm_128x128_ldg4_stages_32x3_tn", H100, None, BITS),
        ("some_gemm", H100, None, BITS),
        ("some_gemm", H100, "aten::mm", "Compute with sizes"),  # its operator's numbers are bfloat16
        # libraries
        ("fused_moe_kernel", H100, None, "more tokens per expert"),
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
        ("paged_attention_v2_kernel", H100, None, "It is fused already, and reads the KV cache"),
        ("kernel_unified_attention_2d", H100, None, "It is fused already, and reads the KV cache"),
        ("written_out_attention", H100, None, "Take a fused kernel"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm70", V100, None, "this device has neither bfloat16 nor FlashAttention"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", H100, None, "FlashAttention takes its place"),
        ("triton_poi_fused_add_mul_silu_3", H100, None, "The compiler has fused it already"),
        ("loop_add_fusion_3", H100, None, "The compiler (XLA) has fused it already"),
        (ADD, H100, None, "Fuse it with its neighbors"),
        (FUSED_ADAM, H100, None, "It updates many weights in one pass already"),
        (FOREACH, H100, None, "Update all weights in one kernel: an optimizer with fused=True"),
        # softmax of attention, of a router, of a loss
        (SOFTMAX, H100, None, "Between two matmuls it is attention written out"),
        ("void vllm::moe::topkGatingSoftmax<4, 64, 4, 16, int>", H100, None, "Fuse it with its neighbors"),
        ("triton_red_fused__log_softmax_nll_loss_2", H100, None, "The compiler has fused it already"),
    )
]  # fmt: skip


@pytest.mark.parametrize(("trace", "said"), ADVISED)
def test_advice_on_a_kernel_is_none_that_it_follows_already(trace: int, said: str, found: Found) -> None:
    (row,) = found(trace, rule="dominant_kernel")
    assert said in row["advice"]


def on_streams(cnt: int) -> int:
    kernels: list[Kernel] = [(ADD, 7 + n % cnt, 1100 + 100 * (n // cnt), 100, None) for n in range(16)]
    return in_blocks(kernels, [10, 1, 1], [256, 1, 1])


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        (on_streams(1), "At most 10 blocks run"),
        (on_streams(2), "At most 20 blocks run"),
        (on_streams(8), "Fuse it with its neighbors"),
    ],
)
def test_blocks_that_run_at_once_on_several_streams_count_together(trace: int, told: str, found: Found) -> None:
    (row,) = found(trace, rule="dominant_kernel")
    assert row["advice"].startswith(told)


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


def told_to_wait(at: int | None) -> int:
    events = [*launched(0, 10, 8, 1), *launched(15, 20, 8, 2), *launched(20, 30_000, 8, 3)]
    return traced(events if at is None else [*events, called("cudaStreamWaitEvent", 20 + at, 1)])


@pytest.mark.parametrize(
    ("trace", "is_named"), [(told_to_wait(None), False), (told_to_wait(-8), False), (told_to_wait(-2), True)]
)
def test_a_stream_that_was_told_to_wait_is_named(trace: int, is_named: bool, found: Found) -> None:
    """Before the launch of what ended the gap, or already before the launch before it."""
    (row,) = found(trace, rule="long_dependency")
    assert ("cudaStreamWaitEvent" in row["evidence"]) is is_named


def waited_for(begin: int, length: int, other_device: bool) -> int:
    events = [*launched(0, 10, 8, 1), *launched(15, 30_000, 8, 2), called("cudaStreamSynchronize", begin, length)]
    if other_device:
        events += launched(17, 20, 8, 3)
        events[-1]["args"]["device"] = 1
    return traced(events)


@pytest.mark.parametrize(
    ("trace", "is_named", "rule"),
    [
        (waited_for(25, 30_000, False), True, "unrecorded_work"),
        (waited_for(25, 9_000, False), False, "long_dependency"),
        (waited_for(25, 30_000, True), True, "long_dependency"),
    ],
)
def test_what_the_cpu_waits_for_while_the_gpu_seems_idle_is_not_in_the_file(
    trace: int, is_named: bool, rule: str, found: Found
) -> None:
    """The work was launched in time; with two devices, what it waits for may be on the other."""
    (row,) = [*found(trace, rule="long_dependency"), *found(trace, rule="unrecorded_work")]
    assert row["rule"] == rule
    assert (row["saving_ns"] is None) == (rule == "unrecorded_work")
    assert ("cudaStreamSynchronize" in row["evidence"]) == is_named


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


def copied(size: int, direction: str) -> int:
    link = {"correlation": 9}
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": f"Memcpy {direction}", "pid": 0, "tid": 7}
    copy |= {"ts": 9_020, "dur": 5, "args": link | {"device": 0, "stream": 7, "bytes": size}}
    events = [*launched(0, 10, 9_000, 1), called("cudaMemcpyAsync", 20, 9_026) | {"args": link}, copy]
    return traced([*events, *launched(9_300, 9_310, 8, 2)])


@pytest.mark.parametrize(
    ("trace", "advised"),
    [
        (copied(4_096, "HtoD (Pageable -> Device)"), "Small copies (4,096 bytes on average)"),
        (copied(1 << 20, "HtoD (Pageable -> Device)"), "Allocate the host tensor in pinned memory"),
        (copied(4_096, "DtoH (Device -> Pageable)"), "The CPU reads a result back"),
    ],
)
def test_small_copies_to_the_device_are_not_advised_on_as_batches(trace: int, advised: str, found: Found) -> None:
    """A list of indices that is made a tensor in each call is better moved once than pinned."""
    (row,) = found(trace, rule="pageable_async_copy")
    assert row["advice"].startswith(advised)


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


@pytest.mark.slow
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


CHAINS = [
    (traced(content([LONG, *((name, 7, 1100 + 100 * n, 100, None) for n, name in enumerate(names))])), cost)
    for names, cost in (
        ((ADD,) * 6, {}),
        ((ADD,) * 3 + (MUL,) * 3, {}),
        ((ADD, ADD, MUL, MUL, ADD), {"step": 200}),
        (("loop_add_fusion_1", "loop_multiply_fusion", "loop_add_fusion"), {}),
        ((ADD, MUL, ADD), {"step": 200}),
        ((ADD, "void scalePackedTensor_kernel<float, float>(long, float*, float)", MUL), {}),
        ((ADD, "SubTensorOpWithScalar1d", MUL), {}),
    )
]


@pytest.mark.parametrize(("trace", "cost"), CHAINS)
def test_one_operation_on_several_arrays_is_no_chain(trace: int, cost: dict[str, float], found: Found) -> None:
    """Each has a pass of its own: one kernel for all of them moves as many bytes. What XLA made is fused already."""
    assert costs(found(trace, rule="unfused_elementwise")) == cost


@pytest.mark.slow
def test_a_kernel_is_blamed_once(tmp_path: Path) -> None:
    """Three elementwise kernels in a row inside math attention are attention's."""
    kernels = [((ADD, MUL)[n % 2], 7, 1100 + 100 * n, 100, MATH) for n in range(3)]
    (tmp_path / "a").mkdir()
    assert findings(tmp_path / "a", [LONG, *kernels], "math_attention") == {f"step/{MATH}": 300}
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == {}


Span = tuple[str, str, int, int]  # category, name, begin and length in us


def with_gap(inside: list[Span], copied: str | None = None) -> list[Row]:
    """A gap from 110 to 30,010 us in which the CPU is in these, ended by a kernel or a copy."""
    common = {"ph": "X", "pid": 1, "tid": 1}
    events: list[Row] = []
    for number, time in enumerate((0, 30_000), start=1):
        link = {"correlation": number}
        events.append(common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": time, "dur": 5, "args": link})
        kernel = {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": time + 10, "dur": 100}
        ended = {"cat": "gpu_memcpy", "name": copied} if copied and number == 2 else {}
        events.append(kernel | ended | {"args": link | {"device": 0, "stream": 7}})
    return events + [common | {"cat": category, "name": name, "ts": begin, "dur": length}
                     for category, name, begin, length in inside]  # fmt: skip


def said_of_gap(rows: list[Row]) -> tuple[str, str]:
    """Where the CPU is said to be in the gap, and the advice."""
    (row,) = rows
    return row["evidence"].partition("in it the CPU is in ")[2], row["advice"]


@pytest.mark.parametrize(
    ("trace", "said", "advised"),
    [
        (traced(with_gap([(category, name, 500, 29_000)] if category else [])), name, advised)
        for category, name, advised in (
            ("", "no range or CUDA call", "Name what the CPU does there"),
            ("cuda_runtime", "cudaHostAlloc", "Host memory is pinned there"),
            ("cpu_op", "aten::bernoulli_", "Compare its calls"),
            ("user_annotation", "save", "Look at what is done in save besides launching"),
            ("python_function", "train.py(7): log", "Look at what is done there"),
        )
    ],
)
def test_advice_on_a_long_gap_is_about_what_the_cpu_was_in(trace: int, said: str, advised: str, found: Found) -> None:
    where, advice = said_of_gap(found(trace, rule="long_idle_gap"))
    assert where == said
    assert advice.startswith(advised)


@pytest.mark.parametrize(
    ("trace", "operator", "advised"),
    [
        (traced(with_gap([("cpu_op", operator, 500, 29_000)], copied=copy)), operator, advised)
        for operator, copy, advised in (
            ("aten::normal_", "Memcpy HtoD (Pageable -> Device)", "The CPU computes there what is then copied"),
            ("aten::stack", "Memcpy HtoD (Pinned -> Device)", "The CPU computes there what is then copied"),
            ("aten::normal_", "Memcpy DtoD (Device -> Device)", "Compare its calls"),
            ("aten::_to_copy", "Memcpy HtoD (Pageable -> Device)", "Compare its calls"),
            ("aten::_pin_memory", "Memcpy HtoD (Pinned -> Device)", "Host memory is pinned there"),
        )
    ],
)
def test_what_the_cpu_computes_before_it_is_copied_should_be_computed_elsewhere(
    trace: int, operator: str, advised: str, found: Found
) -> None:
    said, advice = said_of_gap(found(trace, rule="long_idle_gap"))
    assert said == operator and advice.startswith(advised)


SLOW_TO_LAUNCH = traced(with_gap([("cpu_op", "aten::addmm", 500, 29_510)]))


def test_an_operator_that_is_slow_to_launch_is_named(found: Found) -> None:
    """The gap is inside the operator whose kernel ends it: it compiles, loads or chooses an algorithm."""
    said, advice = said_of_gap(found(SLOW_TO_LAUNCH, rule="long_idle_gap"))
    assert said == "aten::addmm"
    assert advice.startswith("Compare its calls")


def compiled(loads: int) -> int:
    whole = {"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation", "name": "backend_compile (dynamo_timed)"}
    events = [*launched(0, 10, 100, 1), whole | {"ts": 1, "dur": 29_900}, *launched(30_000, 30_010, 100, 2)]
    return traced(events + [called("cuModuleLoadData", 20 + 20 * number, 10) for number in range(loads)])


@pytest.mark.parametrize("trace", [compiled(0), compiled(1), compiled(3)])
def test_what_is_loaded_while_something_compiles_does_not_end_it(trace: int, found: Found) -> None:
    (gap,) = found(trace, "_judged_gap")
    assert (gap["rule"], gap["idle_ns"]) == ("compiling_or_loading", 29_900_000)


def loaded(length: int) -> int:
    slow = launched(30_000 - length, 30_010, 100, 2, call_length=length, name="other")
    return traced([*launched(0, 10, 100, 1), *slow])


@pytest.mark.parametrize(
    ("trace", "is_most"), [(loaded(5_000), False), (loaded(12_000), False), (loaded(20_000), True)]
)
def test_a_gap_is_blamed_on_loading_that_is_most_of_it(trace: int, is_most: bool, found: Found) -> None:
    """A kernel that loads for 5 of 30 ms ends a gap in which the CPU did something else; one for 20 what made it."""
    (gap,) = found(trace, "_judged_gap")
    assert gap["rule"] == ("compiling_or_loading" if is_most else "long_idle_gap")
    assert len(found(trace, rule="compiling_or_loading")) == is_most


def test_what_a_slow_launch_returned_from_in_the_gap_begins_late_for_the_loading(tmp_path: Path) -> None:
    """Lazy loading goes on behind the call: nothing else is there that the kernel could have waited for."""
    events = [*launched(0, 10, 500, 1), *launched(300, 2_500, 8, 2, call_length=800, name="other")]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert database.rows("select cause, idle_ns from idle_gap") == [("host", 1_990_000)]
        assert database.rows("select rule from _judged_gap") == [("compiling_or_loading",)]


def with_slow_call(call: str, category: str, name: str) -> int:
    slow, work = launched(200, 9_130, 8, 3, call_length=8_900, name=name)
    around = {"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation", "name": "replay", "ts": 150, "dur": 9_000}
    return traced([*launched(0, 10, 100, 1), slow | {"name": call}, work | {"cat": category}, around])


@pytest.mark.parametrize(
    ("trace", "call", "advised"),
    [
        (
            with_slow_call("cudaGraphLaunch", "kernel", "other"),
            "cudaGraphLaunch",
            "The first launch of a graph",
        ),
        (
            with_slow_call("cudaMemcpyAsync", "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"),
            "cudaMemcpyAsync",
            "The call itself takes this long",
        ),
    ],
)
def test_a_call_that_is_most_of_the_gap_that_its_own_work_ends_is_named(
    trace: int, call: str, advised: str, found: Found
) -> None:
    """And not the Python around it, of which nothing else is there to be looked at."""
    (row,) = found(trace, rule="long_idle_gap")
    assert row["evidence"].endswith(f"in it the CPU is in {call} itself")
    assert row["advice"].startswith(advised)


def with_slow_copy(later: int) -> int:
    name = "Memcpy HtoD (Pageable -> Device)"
    slow = launched(200, 9_130, 8, 2, call_length=8_900, name=name)
    next_one = launched(9_200, 39_150, 8, 4, call_length=later, name=name)  # the GPU works meanwhile
    events = [*launched(0, 10, 100, 1), *launched(9_120, 9_140, 30_000, 3)]
    for call, copy in (slow, next_one):
        events += [call | {"name": "cudaMemcpyAsync"}, copy | {"cat": "gpu_memcpy"}]
    return traced(events)


@pytest.mark.parametrize(
    ("trace", "advised"),
    [
        (
            with_slow_copy(1_000),
            "The first call initializes CUDA, which is paid once: warm up before the recording begins. "
            "Later ones take 1.0 ms at most, from pinned memory less.",
        ),
        (with_slow_copy(8_000), "The call itself takes this long before anything moves"),
    ],
)
def test_a_copy_that_is_slow_once_is_told_from_copies_that_all_are(trace: int, advised: str, found: Found) -> None:
    """What is paid once, pinned memory does not save."""
    advice = [row["advice"] for row in found(trace, rule="long_idle_gap")]
    assert any(text.startswith(advised) for text in advice), advice


def made_ready(call: str) -> int:
    return traced([*launched(0, 10, 100, 1), called(call, 500, 9_000), *launched(30_000, 30_010, 100, 2)])


@pytest.mark.parametrize(
    ("trace", "call"), [(made_ready(call), call) for call in ("cuLibraryLoadData", "cudaGraphInstantiate")]
)
def test_without_steps_the_whole_gap_around_what_is_made_ready_is_said(trace: int, call: str, found: Found) -> None:
    """The first launch behind a load is slow as well: the load alone would leave most of the gap unsaid."""
    (row,) = [row for row in found(trace) if (row["saving_ns"] or 0) > 0]
    assert (row["rule"], row["place"]) == ("compiling_or_loading", call)
    assert row["saving_ns"] == pytest.approx(29_900_000, rel=0.01)
    assert row["evidence"].endswith("once; the GPU is idle for 29.9 ms around it")


def launched_late(before: int, is_first: bool) -> int:
    events = [*launched(0, 10, 100, 1), *launched(5, 110, 8, 2, name="idle" if is_first else "other")]
    return traced([*events, *launched(118 - before, 9_130, 8, 3, call_length=9_000, name="other")])


@pytest.mark.parametrize(
    ("trace", "is_first"),
    [(launched_late(before, is_first), is_first) for before in (0, 1, 4) for is_first in (True, False)],
)
def test_a_launch_that_takes_the_whole_gap_was_late_although_it_began_in_time(
    trace: int, is_first: bool, found: Found
) -> None:
    """At its first launch a kernel is loaded; a slow launch behind that is the CPU's all the same."""
    assert [(row["cause"], row["idle_ns"]) for row in found(trace, "idle_gap")] == [("host", 9_012_000)]
    rows = [row for row in found(trace, "_predicted_finding") if (row["limit_ns"] or 0) > 0]
    assert [(row["rule"], row["place"], row["limit_ns"]) for row in rows] == [
        ("compiling_or_loading", "cudaLaunchKernel", 9_012_000) if is_first else ("long_idle_gap", None, 9_012_000)
    ]


def freeing(call: str, cnt: int) -> int:
    calls: list[Span] = [("cuda_runtime", call, 600 + n * (27_000 // cnt), 26_000 // cnt) for n in range(cnt)]
    return traced(with_gap([("cpu_op", "NativeBatchNormBackward0", 500, 29_000), *calls]))


@pytest.mark.parametrize(
    ("trace", "call", "advised"),
    [
        (freeing("hipFree", 9), "hipFree", "If it comes once, a library"),
        (freeing("cuModuleUnload", 1), "cuModuleUnload", "Avoid this call within steps"),
    ],
)
def test_the_call_that_takes_most_of_a_gap_is_named_and_not_the_operator_around_it(
    trace: int, call: str, advised: str, found: Found
) -> None:
    said, advice = said_of_gap(found(trace, rule="long_idle_gap"))
    assert said == call
    assert advice.startswith(advised)


def by_another_number(listed: list[str]) -> int:
    events = launched(0, 10, 100, 1)
    for event in events:
        event["args"] = {**event["args"], "device": 9}
    devices = [{"id": number, "name": name} for number, name in enumerate(listed)]
    return traced({"deviceProperties": devices, "traceEvents": events})


@pytest.mark.parametrize(
    ("trace", "named"),
    [
        (by_another_number(["MI300X"]), "MI300X"),
        (by_another_number(["MI300X", "MI300X"]), "MI300X"),
        (by_another_number(["V100", "T4"]), None),
        (by_another_number([""]), None),
    ],
)
def test_a_device_by_another_number_is_as_those_that_the_file_lists(
    trace: int, named: str | None, found: Found
) -> None:
    """ROCm counts the CPU's nodes when it records work, and not when it lists devices."""
    assert [(row["device_id"], row["device_name"]) for row in found(trace, "steady_state")] == [(9, named)]


def ended_early(us: int) -> int:
    events = [*launched(0, 10, 990, 1), *launched(31_000, 31_010, 990, 2)]
    return traced([*events, called("cudaDeviceSynchronize", 20, 980 - us)])


@pytest.mark.parametrize(
    ("trace", "rule"),
    [(ended_early(7), "synchronisation"), (ended_early(-7), "synchronisation"), (ended_early(50), "long_idle_gap")],
)
def test_clocks_of_cpu_and_gpu_may_differ_by_microseconds(trace: int, rule: str, found: Found) -> None:
    """A synchronization seems to end before the kernel that it waited for."""
    assert [row["rule"] for row in found(trace, "_judged_gap")] == [rule]


def of_short_operators(cnt: int, length: int) -> int:
    each = 29_800 // cnt
    spans = [("cpu_op", "aten::cat", 150 + n * each, length) for n in range(cnt)]
    spans += [("cpu_op", "aten::view", begin + length // 4, length // 2) for _, _, begin, _ in spans]  # inside
    spans += [("cuda_runtime", "cudaEventQuery", 150 + n * each + length + 20, 5) for n in range(0, cnt, 2)]
    return traced(with_gap(spans))


@pytest.mark.parametrize(
    ("trace", "said", "advised"),
    [
        (
            of_short_operators(20, 1_000),
            "31 ranges and calls, most of it aten::cat",
            "Take fewer small steps",
        ),
        (of_short_operators(2, 10_000), "4 ranges and calls, most of it aten::cat", "Look at what is done there"),
        (
            of_short_operators(20, 500),
            "no range or CUDA call for 66%, else most in aten::cat",
            "Name what the CPU does there",
        ),
        (of_short_operators(20, 100), "no range or CUDA call", "Name what the CPU does there"),
    ],
)
def test_a_gap_full_of_short_operators_is_no_gap_of_nothing(trace: int, said: str, advised: str, found: Found) -> None:
    where, advice = said_of_gap(found(trace, rule="long_idle_gap"))
    assert where == said and advice.startswith(advised)


@dear(2, long=30)
@given(parts=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 2_400)), min_size=1, max_size=24))
@example(parts=[(5, 2_000)] * 5)  # a third of it
@example(parts=[(1, 1_200)] * 20)  # most of it, none of them half of it
@pytest.mark.slow
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
        found, _ = said_of_gap(rows_by_rule(Path(folder), with_gap(spans))["long_idle_gap"])
    covered = sum(of_name.values()) + 5
    most = [name for name, length in of_name.items() if length == max(of_name.values())]
    if 10 * covered <= 29_900:
        assert found == "no range or CUDA call"
    elif 2 * covered <= 29_900:
        part = f"no range or CUDA call for {1 - covered / 29_900:.0%}"
        assert found in [f"{part}, else most in {name}" for name in most]
    elif max((length for *_, length in outer)) * 2 <= 29_900:
        assert found in [f"{len(outer) + 1} ranges and calls, most of it {name}" for name in most]


def behind_a_wait(waited: int, idle: int) -> int:
    events: list[Row] = []
    calls = (("cudaMemcpy", 0, waited, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)"),
             ("cudaLaunchKernel", waited + idle, 5, "kernel", GEMM))  # fmt: skip
    for number, (api, time, length, category, name) in enumerate(calls, start=1):
        link = {"correlation": number}
        call = {"ph": "X", "pid": 1, "tid": 1, "cat": "cuda_runtime", "name": api, "ts": time, "dur": length}
        events.append(call | {"args": link})
        work = {"ph": "X", "pid": 0, "tid": 7, "cat": category, "name": name, "ts": time + 8}
        events.append(work | {"dur": max(length - 10, 100), "args": link | {"device": 0, "stream": 7}})
    return traced(events)


@pytest.mark.parametrize(
    ("trace", "stays"), [(behind_a_wait(1_000, 30_000), True), (behind_a_wait(30_000, 1_000), False)]
)
def test_a_gap_behind_a_short_wait_is_said_to_be_the_work_of_the_cpu(trace: int, stays: bool, found: Found) -> None:
    (row,) = found(trace, rule="blocking_copy")
    assert row["evidence"].endswith("most of it is the CPU's work") is stays


def rows_by_rule(folder: Path, events: list[Row]) -> dict[str, list[Row]]:
    """The findings of each rule in a trace."""
    (folder / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    rules: dict[str, list[Row]] = {}
    with analyze([folder / "trace.json"], folder / "x.duckdb") as database:
        for row in database.dicts("from finding"):
            rules.setdefault(row["rule"], []).append(row)
    return rules


AROUND = [*launched(0, 10, 8, 1), *launched(60_000, 60_010, 8, 2)]
BEGUN, ENDED = called("hipStreamBeginCapture", 100, 5), called("hipStreamEndCapture", 55_000, 50)


@pytest.mark.parametrize(
    ("trace", "is_made"), [(traced([*AROUND, BEGUN, ENDED]), True), (traced([*AROUND, BEGUN]), False)]
)
def test_a_graph_is_made_from_the_begin_of_its_capture_to_the_end(trace: int, is_made: bool, found: Found) -> None:
    """What is launched in between runs when the graph does."""
    assert bool(found(trace, rule="compiling_or_loading")) is is_made


MADE, MADE_LATER = called("hipGraphInstantiate", 55_200, 800), called("hipGraphInstantiate", 59_000, 900)


@pytest.mark.parametrize(
    ("trace", "places"),
    [
        (traced([*AROUND, BEGUN, ENDED, MADE]), ["hipStreamBeginCapture"]),
        (traced([*AROUND, called("hipStreamBeginCapture", 54_000, 5), ENDED, MADE_LATER]), None),
    ],
)
def test_what_takes_long_of_making_a_graph_is_named(trace: int, places: list[str] | None, found: Found) -> None:
    """To instantiate it takes a sixtieth of the time that the capture does, and is a part of making it."""
    rows = found(trace, rule="compiling_or_loading")
    assert places is None or [row["place"] for row in rows] == places
    assert all(row["place"] != "hipGraphInstantiate" for row in rows) or places is None


SHORT_GAP = [*launched(0, 10, 8, 1), *launched(20_018, 20_028, 8, 2)]
IN_PART = traced(SHORT_GAP + [called("cudaFree", 100 + 500 * number, 400) for number in range(20)])
IN_NOTHING = traced(SHORT_GAP)


def test_calls_in_a_part_of_a_gap_are_named_with_the_part(found: Found) -> None:
    """Two fifths of it in calls, one after another: neither nothing nor most of it is in the trace."""
    (row,) = found(IN_PART, rule="long_idle_gap")
    assert row["evidence"].endswith("no range or CUDA call for 60%, else most in cudaFree")
    assert "most of it is not in the trace" in row["advice"]
    (row,) = found(IN_NOTHING, rule="long_idle_gap")
    assert row["evidence"].endswith("in no range or CUDA call") and "nothing of it is in the trace" in row["advice"]


def on_other_threads(calls: list[tuple[str, int]], around: str) -> int:
    events = [*launched(0, 10, 8, 1), *launched(30_018, 30_028, 8, 2)]
    events.append({"ph": "X", "cat": around, "name": "tokenize", "pid": 1, "tid": 1, "ts": 50, "dur": 29_900})
    for number, (call, length) in enumerate(calls):
        events.append(called(call, 500, length) | {"tid": 2 + number})
    return traced(events)


@pytest.mark.parametrize(
    ("trace", "named"),
    [
        (on_other_threads([("hipFree", 29_000)], "python_function"), "hipFree on another thread"),
        (on_other_threads([("hipStreamSynchronize", 29_000)], "python_function"), "tokenize"),
        # at once: a third of the gap
        (on_other_threads([("hipFree", 9_000), ("hipFree", 9_000)], "python_function"), "tokenize"),
        # a thread that pins what is loaded ahead
        (on_other_threads([("cudaHostAlloc", 29_000)], "user_annotation"), "tokenize"),
    ],
)
def test_memory_that_another_thread_frees_is_named_where_python_waits(trace: int, named: str, found: Found) -> None:
    """Python waits for autograd's thread: what that one calls is why the next launch is late."""
    (row,) = found(trace, rule="long_idle_gap")
    assert f"in it the CPU is in {named}" in row["evidence"]


SITTING = traced([*launched(0, 10, 8, 1), *launched(15, 20_020, 8, 2), *launched(30, 20_040, 8, 3, call_length=20_000)])


def test_what_the_cpu_sits_in_while_nobody_is_late_is_named(found: Found) -> None:
    """The next launch hangs in the driver for as long as the device waits."""
    (row,) = found(SITTING, rule="long_dependency")
    assert row["place"] is None and row["evidence"].endswith("in it the CPU is in cudaLaunchKernel")


def communicated(place: str) -> int:
    events = [{"ph": "X", "cat": "user_annotation", "name": f"nccl:{place}", "pid": 1, "tid": 1, "ts": 0, "dur": 40}]
    events += launched(2, 12, 9_000, 1, name="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)")
    return traced([*events, *launched(50, 9_020, 900, 2)])


@pytest.mark.parametrize(
    ("trace", "is_exchange"), [(communicated("all_to_all"), True), (communicated("_all_gather_base"), False)]
)
def test_advice_for_communication_goes_by_what_was_called(trace: int, is_exchange: bool, found: Found) -> None:
    """NCCL's SendRecv is all-to-all in most programs, but gathering as well."""
    (row,) = found(trace, rule="exposed_communication")
    assert row["advice"].startswith("All-to-all") is is_exchange


def product(sizes: list[list[int]]) -> int:
    arguments = {"Input Dims": sizes, "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    called = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 40, "args": arguments}
    return traced([called, *launched(2, 12, 9_000, 1)])


@pytest.mark.parametrize(
    ("trace", "is_even"),
    [(product([[1024, 512], [512, 256]]), True), (product([[1000, 512], [512, 256]]), False)],
)
def test_sizes_that_are_multiples_already_are_not_advised(trace: int, is_even: bool, found: Found) -> None:
    (row,) = found(trace, rule="dominant_kernel")
    assert ("multiples of 64" not in row["advice"]) is is_even
