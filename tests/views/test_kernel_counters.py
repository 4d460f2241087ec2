"""What CUPTI's range profiler counted of each kernel, in traces of torch.profiler."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import dear, opened
from hypothesis import given
from hypothesis import strategies as st

OPERATORS = {"aten::linear": (0, 100), "aten::mm": (10, 40), "aten::add": (50, 90)}
INNERMOST = "aten::linear/aten::mm"
SUM, MEAN = "smsp__inst_executed.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed"


def event(cat: str, name: str, start: float, length: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length, "args": args}


def trace(launches: list[int], counted: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Launches at moments, and kernels in their order with what was counted of each."""
    return [
        *(event("cpu_op", name, start, end - start) for name, (start, end) in OPERATORS.items()),
        *(event("cuda_runtime", "cudaLaunchKernel", at, 0.5, correlation=n + 1) for n, at in enumerate(launches)),
        *(
            {**event("cuda_profiler_range", name, 20.0 * n, 20, **counters), "pid": 0, "tid": 0}
            for n, (name, counters) in enumerate(counted)
        ),
    ]


def write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    return path


def summed(path: Path) -> list[tuple[Any, ...]]:
    with opened(path) as database:
        return database.rows(
            "select counter, path, kernel_name, kernel_cnt, value_sum, value_mean, value_min, value_max "
            "from kernel_counter_summary order by all"
        )


def test_the_operator_that_launched_a_kernel_has_what_was_counted_of_it(tmp_path: Path) -> None:
    counted = [("gemm", {SUM: 7, MEAN: 50.5}), ("gemm", {SUM: 5, MEAN: 40.5}), ("__missing__", {SUM: 2, MEAN: 1})]
    assert summed(write(tmp_path / "run.json", trace([12, 20, 60], counted))) == [
        (MEAN, "aten::linear/aten::add", None, 1, None, 1, 1, 1),
        (MEAN, INNERMOST, "gemm", 2, None, 45.5, 40.5, 50.5),
        (SUM, "aten::linear/aten::add", None, 1, 2, 2, 2, 2),
        (SUM, INNERMOST, "gemm", 2, 12, 6, 5, 7),
    ]


@dear(3, long=50)
@given(st.lists(st.tuples(st.integers(0, 120), st.sampled_from("abc"), st.floats(0, 1e18)), min_size=1, max_size=30))
def test_counters_add_up_as_plain_loops_add_them(
    tmp_path_factory: pytest.TempPathFactory, kernels: list[tuple[int, str, float]]
) -> None:
    kernels.sort(key=lambda kernel: kernel[0])
    events = trace([at for at, _, _ in kernels], [(name, {SUM: value}) for _, name, value in kernels])
    expected: dict[tuple[str | None, str], list[float]] = defaultdict(list)
    for at, name, value in kernels:
        around = [one for one, (start, end) in OPERATORS.items() if start <= at <= end]
        path = "/".join(around) if around else None
        expected[path, name].append(value)
    found = summed(write(tmp_path_factory.mktemp("x") / "run.json", events))
    assert {(path, name): values for _, path, name, *values in found} == {
        key: [len(v), pytest.approx(sum(v)), pytest.approx(sum(v) / len(v)), min(v), max(v)]
        for key, v in expected.items()
    }


def test_kernels_that_no_launch_can_be_told_of_belong_to_no_range(tmp_path: Path) -> None:
    path = write(tmp_path / "run.json", trace([12, 20], [("gemm", {SUM: 7})]))
    assert summed(path) == [(SUM, None, "gemm", 1, 7, 7, 7, 7)]
    with opened(path) as database:
        noted = database.rows("select value from trace_info where item = 'launches of profiled kernels'")
    assert noted == [("1 kernels, 2 launches",)]


@pytest.mark.parametrize("spoiled", ["many", None, {"a": 1}, "NaN", [1], True])
def test_what_is_no_number_costs_its_counter_nothing_else(spoiled: object, tmp_path: Path) -> None:
    events = trace([12, 20], [("gemm", {SUM: spoiled}), ("gemm", {SUM: 7})])
    ((*_, kernel_cnt, value_sum, _, _, _),) = summed(write(tmp_path / "run.json", events))
    assert (kernel_cnt, value_sum) == (1, 7)


@pytest.mark.parametrize("args", [None, [1, 2], "text", 5, {}])
def test_a_kernel_without_counters_keeps_its_place(args: object, tmp_path: Path) -> None:
    events = trace([12, 60], [("gemm", {}), ("gemm", {SUM: 7})])
    events[-2]["args"] = args
    ((_, path, _, kernel_cnt, *_),) = summed(write(tmp_path / "run.json", events))
    assert (path, kernel_cnt) == ("aten::linear/aten::add", 1)


def test_several_inputs_keep_their_names(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{name}.json", trace([12], [(name, {f"{name}__counted.sum": 1})])) for name in ("b", "a")
    ]
    with opened(*paths) as database:
        found = database.rows("select source_id, counter, kernel_name, path from kernel_counter_summary order by all")
    assert found == [(1, "b__counted.sum", "b", INNERMOST), (2, "a__counted.sum", "a", INNERMOST)]
