"""operator_summary against torch's own tables, its FLOP counter, and the links in a GPU trace."""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, corpus_params
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database

CAPTURE = ROOT / "fixtures" / "h200-batch" / "trace.json.gz"


def test_gpu_time_of_operators_is_that_of_the_kernels_that_name_them(tmp_path: Path) -> None:
    """Kineto writes into a kernel which operator launched it; lorabench finds that by time and thread alone."""
    events = json.loads(gzip.decompress(CAPTURE.read_bytes()), parse_float=Decimal)["traceEvents"]
    operators = {
        e["args"]["External id"]: e["name"] for e in events if e.get("cat") == "cpu_op" and "External id" in e["args"]
    }
    expected: dict[str, int] = defaultdict(int)
    for e in events:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and e["args"].get("External id") in operators:
            expected[operators[e["args"]["External id"]]] += int(e["dur"] * 1000)
    with analyze([CAPTURE], tmp_path / "x.duckdb") as database:
        own = "select operator, sum(self_gpu_ns) from operator_summary group by 1 having sum(self_gpu_ns) > 0"
        assert {name: int(time) for name, time in database.rows(own)} == dict(expected)
        calls = dict(database.rows("select operator, sum(call_cnt) from operator_summary group by 1"))
        assert database.rows("select count(*) from operator_summary where gpu_ns < self_gpu_ns") == [(0,)]
    counted: dict[str, int] = defaultdict(int)
    for e in events:
        counted[e["name"]] += e.get("cat") == "cpu_op"
    assert calls == {name: count for name, count in counted.items() if count}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A trace with shapes of a small model on the CPU, torch's table of it, and the FLOP that torch counts."""
    torch = pytest.importorskip("torch")
    from torch.nn import functional
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(0)
    linear, convolution = torch.nn.Linear(24, 40), torch.nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=1, groups=2)
    plain = torch.nn.Conv2d(4, 6, 3, bias=False)
    image, x = torch.randn(2, 4, 9, 11, requires_grad=True), torch.randn(3, 5, 24)
    tokens, table = torch.tensor([[3, 1, 2]]), torch.randn(9, 16)
    q, k = torch.randn(2, 4, 7, 8, requires_grad=True), torch.randn(2, 4, 6, 8)

    def work() -> None:
        functional.gelu(linear(x)).backward(torch.ones(3, 5, 40))
        torch.bmm(x, x.transpose(1, 2))
        torch.baddbmm(torch.zeros(3, 5, 5), x, x.transpose(1, 2))
        torch.mm(x[0], x[1].T)
        convolution(image)
        plain(image).backward(torch.ones(2, 6, 7, 9))  # torch counts those of groups too often
        functional.scaled_dot_product_attention(q, k, k)
        functional.scaled_dot_product_attention(k, q[..., :8], q, is_causal=True)
        functional.layer_norm(functional.softmax(x, 1), (24,))
        functional.embedding(tokens, table)

    with FlopCounterMode(display=False) as counter:
        work()
    with torch.profiler.profile(record_shapes=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        work()
    path = tmp_path_factory.mktemp("shapes") / "trace.json"
    profiler.export_chrome_trace(str(path))
    return path, profiler.key_averages(group_by_input_shape=True), counter.get_flop_counts()["Global"]


def test_calls_and_cpu_times_are_those_of_key_averages(recorded: Any, tmp_path: Path) -> None:
    path, table, _ = recorded
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = {
            (name, shapes): (int(calls), int(cpu), int(own))
            for name, shapes, calls, cpu, own in database.rows(
                """select operator, input_shapes, sum(call_cnt), sum(cpu_ns), sum(self_cpu_ns)
                from operator_summary group by 1, 2"""
            )
        }
    expected = {
        (row.key, json.dumps(row.input_shapes, separators=(",", ":"))): row
        for row in table
        if not row.key.startswith(("[memory]", "ProfilerStep"))
    }
    found = {(name, json.dumps(json.loads(shapes or "[]"), separators=(",", ":"))): row
             for (name, shapes), row in found.items()}  # fmt: skip
    assert found.keys() == expected.keys() and len(found) > 20
    for key, row in expected.items():
        calls, cpu, own = found[key]
        assert calls == row.count, key
        assert (
            abs(cpu - row.cpu_time_total * 1000) <= calls and abs(own - row.self_cpu_time_total * 1000) <= 2 * calls + 2
        )


def test_flop_are_those_that_torch_counts(recorded: Any, tmp_path: Path) -> None:
    path, _, counted = recorded
    expected = defaultdict(float)
    for operator, flop in counted.items():
        expected[str(operator).removeprefix("aten.").removesuffix(".default")] += flop
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = dict(database.rows("select operator, sum(flop) from operator_summary where flop > 0 group by 1"))
        moved = dict(database.rows("select operator, sum(bytes) from operator_summary group by 1"))
    assert moved["aten::_softmax"] == 2 * 4 * 3 * 5 * 24
    for name in ("mm", "addmm", "bmm", "baddbmm"):
        assert found[f"aten::{name}"] == expected[name] > 0, name
    assert found["aten::mkldnn_convolution"] == expected["convolution"] > 0
    assert found["aten::convolution_backward"] == expected["convolution_backward"] > 0
    attention = next(v for k, v in found.items() if "attention" in k)
    whole = 2 * 2 * (2 * 4 * 7 * 8) * 6  # two products of queries (2, 4, 7, 8) with 6 keys
    causal = 2 * 2 * (2 * 4 * 8) * (1 + 2 + 3 + 4 + 5 + 6)  # of 6 queries with the keys that come no later, of 7
    assert attention == whole + causal
    assert found["aten::gelu"] == 3 * 5 * 40
    assert (found["aten::_softmax"], found["aten::native_layer_norm"]) == (5 * 3 * 5 * 24, 7 * 3 * 5 * 24)


def test_the_roofline_is_the_devices(tmp_path: Path) -> None:
    def event(category: str, name: str, start: int, duration: int, **args: Any) -> dict[str, Any]:
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": start,
            "dur": duration,
            "args": args,
        }

    shapes = {"Input Dims": [[1000, 2000], [2000, 3000]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    large = {"Input Dims": [[10000, 1000], [10000, 1000], []], "Input type": ["float", "float", "Scalar"]}
    small = {"Input Dims": [[1000, 1000], [1000, 1000], []], "Input type": ["float", "float", "Scalar"]}
    given = {"Input Dims": [[10000, 1000], [], [10000, 1000]], "Input type": ["float", "double", "float"]}
    eight = {"Input Dims": [[1000, 2000], [2000, 3000]], "Input type": ["c10::Float8_e4m3fn", "c10::Float8_e4m3fn"]}
    events = [
        event("cpu_op", "aten::mm", 0, 100, **shapes),
        event("cuda_runtime", "cudaLaunchKernel", 10, 5, correlation=1),
        event("kernel", "gemm", 20, 50, correlation=1, device=0, stream=7),
        event("cpu_op", "aten::mm", 100, 50, **shapes),  # a recomputation that ended before its launch
    ]
    for n, (name, shape) in enumerate(
        (("add", large), ("mul", given), ("_scaled_mm", eight), ("addcmul", small)), start=2
    ):
        events += [
            event("cpu_op", f"aten::{name}", 100 * n, 90, **shape),
            event("cuda_runtime", "cudaLaunchKernel", 100 * n + 10, 5, correlation=n),
            event("kernel", name, 100 * n + 20, 60 - n, correlation=n, device=0, stream=7),
        ]
    path = tmp_path / "t.json"
    devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    path.write_text(json.dumps({"deviceProperties": devices, "traceEvents": events}), "utf-8")
    with analyze([path], tmp_path / "x.duckdb") as database:
        add, mul, eights, in_cache, mm = database.rows(
            "select call_cnt, gpu_call_cnt, flop, flop_s, bytes, bytes_s, bound, roofline_frac from operator_summary"
        )
    flop, moved = 2 * 1000 * 2000 * 3000, 2 * (1000 * 2000 + 2000 * 3000 + 1000 * 3000)
    rates = [pytest.approx(flop / 50e-6), moved, pytest.approx(moved / 50e-6)]
    assert mm == (2, 1, flop, *rates, "compute", pytest.approx(flop / 989e12 / 50e-6))
    moved, beyond = 4 * (3 * 10_000_000 + 1), 4 * (3 * 10_000_000 + 1) - 50 * 2**20
    rates = [pytest.approx(1e7 / 58e-6), moved, pytest.approx(moved / 58e-6)]
    assert add[2:] == (1e7, *rates, "memory", pytest.approx(beyond / 3.35e12 / 58e-6)), "50 MiB may stay in the cache"
    assert mul[4] == 4 * (2 * 10_000_000 + 1), "an output that was handed over is no input"
    assert eights[-1] == pytest.approx(flop / (2 * 989e12) / 56e-6)
    assert in_cache[-2:] == ("memory", pytest.approx(1e6 / 67e12 / 55e-6)), "all of it may stay in the cache"


@pytest.mark.parametrize("path", corpus_params("kineto/*.json.gz"))
def test_nothing_real_is_faster_than_its_bound(path: Path, database_of: Callable[[Path], Database]) -> None:
    above = "select operator, input_shapes, roofline_frac from operator_summary where roofline_frac > 1"
    assert database_of(path).rows(above) == []
