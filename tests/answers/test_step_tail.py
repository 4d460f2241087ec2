"""The time in which a step goes on after its last GPU work: of one step it may be most of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import writers
from lorabench.analyze.pipeline import analyze
from lorabench.reports.answer.answer import answer
from lorabench.reports.answer.answer_text import lines
from lorabench.reports.answer.verdict_text import verdict
from simulated_gpu import Gpu

WRITE: dict[str, Callable[..., None]] = {"sqlite": writers.write_nsys, "json": writers.write_kineto}


def said(steps: int, tail: int, suffix: str, tmp_path: Path) -> list[str]:
    """The verdict and the answer of steps with 2 ms of kernels each, after which the CPU does something else."""
    gpu = Gpu(is_pinned=True)
    for step in range(steps):
        with gpu.range(f"step {step}"):
            for _ in range(20):
                gpu.launch("gemm", 100_000)
            gpu.synchronise()
            gpu.work(tail)
    trace = tmp_path / f"run.{suffix}"
    WRITE[suffix](trace, [gpu.finished().timeline])
    with analyze([trace], tmp_path / "run.duckdb") as database:
        found = answer(database)
        return [verdict(found), " ".join(" ".join(lines(found)).split())]


@pytest.mark.parametrize("suffix", WRITE)
@pytest.mark.first(1)
@pytest.mark.slow
def test_a_single_step_whose_gpu_is_idle_at_its_end_is_not_bound_by_it(suffix: str, tmp_path: Path) -> None:
    first, rest = said(1, 20_000_000, suffix, tmp_path)
    assert first == "the CPU is late: after its last work the GPU is idle for 91% of the step"
    assert "goes on for 20.0 ms (91%) without GPU work" in rest


@pytest.mark.parametrize(("steps", "tail", "is_said"), [(1, 20_000, False), (1, 500_000, True), (8, 500_000, False)])
@pytest.mark.first(1)
@pytest.mark.slow
def test_little_time_after_the_last_work_of_many_steps_is_no_matter(
    steps: int, tail: int, is_said: bool, tmp_path: Path
) -> None:
    first, rest = said(steps, tail, "json", tmp_path)
    assert not first.startswith("the CPU is late: after")
    assert ("without GPU work, which is not in this" in rest) == is_said


def test_a_graph_that_is_captured_then_is_said(tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    with gpu.range("step 0"):
        gpu.launch("gemm", 100_000)
        gpu.synchronise()
        gpu.work(1_000_000)
        for call, length in (("cudaStreamBeginCapture", 5_000_000), ("cudaStreamEndCapture", 1_000_000)):
            with gpu._call(call):
                pass
            gpu.work(length)
    writers.write_kineto(tmp_path / "run.json", [gpu.finished().timeline])
    with analyze([tmp_path / "run.json"], tmp_path / "run.duckdb") as database:
        found = answer(database)
    assert found["tail"]["tail_ns"] == pytest.approx(7_000_000, rel=0.02)
    assert found["tail"]["making_ns"] == pytest.approx(5_000_000, rel=0.02)
    assert "5.0 ms of it compiling, loading or capturing a graph" in " ".join(" ".join(lines(found)).split())
