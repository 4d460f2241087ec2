"""Rules about kernels: each on a trace with the fault, on one without, and on one where the fault costs nothing.

All work is launched in the first microseconds, so the GPU is the limit; what stream 8 does beside the long kernel of
stream 7 is not on the critical path.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
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


def findings(folder: Path, kernels: list[Kernel], rule: str) -> dict[str | None, float]:
    """Places and microseconds that a rule finds in a trace of one step."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 0, "dur": 3000}
    ]
    shapes = {"Input Dims": [[1000, 2000], [2000, 3000]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    for n, (name, stream, start, duration, operator) in enumerate(kernels, start=1):
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5 * n, "dur": 2}
        kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration}
        events += [call | {"args": {"correlation": n}}]
        events += [kernel | {"args": {"correlation": n, "device": 0, "stream": stream}}]
        if operator:
            events.append(call | {"cat": "cpu_op", "name": operator, "ts": 5 * n - 1, "dur": 4, "args": shapes})
    wait = {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1, "ts": 90}
    events.append(wait | {"dur": max(start + duration for _, _, start, duration, _ in kernels) - 90})
    path = folder / "trace.json"
    content = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}], "traceEvents": events}
    path.write_text(json.dumps(content), "utf-8")
    with analyze([path], folder / "x.duckdb") as database:
        found = database.rows(
            f"select place, saving_ns / 1e3 from finding where rule = '{rule}' and place <> 'long_gemm'"
        )
    return dict(found)


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


def test_elementwise_kernels_with_a_copy_between_them_are_no_row(tmp_path: Path) -> None:
    kernels = [(ADD, 7, 1100 + 100 * n, 100, None) for n in range(2)] + [("Memcpy", 7, 1300, 10, None)]
    kernels += [(ADD, 7, 1310 + 100 * n, 100, None) for n in range(2)]
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == {}


def test_what_a_compiler_fused_is_not_called_unfused(tmp_path: Path) -> None:
    kernels = [(f"triton_poi_fused_add_{n}", 7, 1100 + 100 * n, 100, None) for n in range(4)]
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == {}


def test_a_kernel_is_blamed_once(tmp_path: Path) -> None:
    """Three elementwise kernels in a row inside math attention are attention's."""
    kernels = [(ADD, 7, 1100 + 100 * n, 100, MATH) for n in range(3)]
    (tmp_path / "a").mkdir()
    assert findings(tmp_path / "a", [LONG, *kernels], "math_attention") == {f"step/{MATH}": 300}
    assert findings(tmp_path, [LONG, *kernels], "unfused_elementwise") == {}


Span = tuple[str, str, int, int]  # category, name, begin and length in us


def with_gap(path: Path, inside: list[Span]) -> tuple[str, str]:
    """Evidence and advice of a gap from 110 to 30,010 us in which the CPU is in these."""
    common = {"ph": "X", "pid": 1, "tid": 1}
    events: list[dict[str, Any]] = []
    for number, time in enumerate((0, 30_000), start=1):
        link = {"correlation": number}
        events.append(common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": time, "dur": 5, "args": link})
        kernel = {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": time + 10, "dur": 100}
        events.append(kernel | {"args": link | {"device": 0, "stream": 7}})
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
        (("cuda_runtime", "cudaHostAlloc"), "Avoid this call within steps"),
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
    ("cnt", "length", "said", "advised"),
    [
        (20, 1_000, "31 ranges and calls, most of it aten::cat", "Do less in many small steps"),
        (2, 10_000, "4 ranges and calls, most of it aten::cat", "Look at what is done there"),
        (20, 500, "no range or CUDA call", "Name what the CPU does there"),
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


@settings(max_examples=8, deadline=None)
@given(parts=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 2_400)), min_size=1, max_size=24))
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
    if 2 * covered <= 29_900:
        assert found == "no range or CUDA call"
    elif max((length for *_, length in outer)) * 2 <= 29_900:
        most = [name for name, length in of_name.items() if length == max(of_name.values())]
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
