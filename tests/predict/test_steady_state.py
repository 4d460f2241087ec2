"""The answer is about warm steps: what is paid once, before them or around them, changes none of its shares."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import corpus_params
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict.predictions import what_if
from lorabench.analyze.store.database import Database
from lorabench.reports.answer.answer import answer
from lorabench.reports.answer.answer_text import lines
from lorabench.reports.answer.verdict_text import verdict
from simulated_gpu import Gpu, Training

MS = 1_000_000
PARTS = (
    "compute_ns", "exposed_communication_ns", "exposed_memory_ns", "host_idle_ns", "dependency_idle_ns",
    "kernel_wait_ns",
)  # fmt: skip


@dataclass(frozen=True)
class Around:
    """What a run does besides its warm steps, in nanoseconds."""

    load: int = 0  # a model is copied to the device, before the first step
    cold: tuple[int, ...] = ()  # more than a warm step takes: what the first steps compile
    save: int = 0  # behind the last step

    def run(self, training: Training, gpu: Gpu) -> Gpu:
        """All of it."""
        if self.load:
            for _ in range(20):
                gpu.work(self.load // 20)
                gpu.copy(self.load // 20)
        for number, more in enumerate(self.cold):
            with gpu.range(f"step {1_000 + number}"):
                gpu.work(more)
                gpu.launch("matmul_gemm_kernel", 40_000)
        training.run(gpu)
        if self.save:
            gpu.work(self.save)
            gpu.copy(50_000)
        return gpu.finished()


def analyzed(run: Gpu, folder: Path) -> Database:
    trace = folder / "run.sqlite"
    trace.unlink(missing_ok=True)
    writers.write_nsys(trace, [run.timeline])
    return analyze([trace], folder / "run.duckdb")


def answered(run: Gpu, folder: Path) -> dict[str, Any]:
    with analyzed(run, folder) as database:
        for row in database.query("from steady_state").to_dicts():
            assert sum(row[part] for part in PARTS) == row["window_ns"]
        return answer(database)


def shares(found: dict[str, Any]) -> Iterator[tuple[str, float]]:
    yield from ((part, share) for part, share in found["parts"].items() if share > 0.01)
    for row in found["findings"]:
        if row["saving_ns"] and row["saving_ns"] > 0.02 * found["window_ns"]:
            yield row["rule"], row["saving_ns"] / found["window_ns"]


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    training=st.sampled_from(
        [Training(kernel=6_000), Training(kernel=400_000), Training(kernel=40_000, syncs=True, copy=2 * MS),
         Training(kernel=400_000, load=60 * MS, reads="between")]
    ),
    load=st.sampled_from([0, 300 * MS]),
    cold=st.lists(st.integers(300, 900).map(lambda ms: ms * MS), max_size=2).map(tuple),
    save=st.sampled_from([0, 500 * MS]),
)  # fmt: skip
@pytest.mark.slow
def test_what_is_paid_once_changes_no_share(
    training: Training, load: int, cold: tuple[int, ...], save: int, tmp_path: Path
) -> None:
    """Loading, compiling and saving beside the same warm steps: the same parts, the same savings, in the same order."""
    training = replace(training, steps=8)
    without = answered(training.run(Gpu()), tmp_path)
    alone = dict(shares(without))
    found = answered(Around(load, cold, save).run(training, Gpu()), tmp_path)
    assert dict(shares(found)) == pytest.approx(alone, abs=0.02)
    counts = {"cold_cnt": len(cold)}
    assert found["steps"] == counts | {
        name: pytest.approx(value, rel=0.05) for name, value in without["steps"].items() if name not in counts
    }
    if load or cold or save:
        assert found["steady"]["is_steady"]


@pytest.mark.slow
def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    found = answered(Around(300 * MS, (447 * MS,), 500 * MS).run(Training(steps=8), Gpu()), tmp_path)
    assert ": 8 warm steps of " in next(lines(found))
    (said,) = [line for line in lines(found) if "left out" in line]
    assert said.startswith("  8 warm steps, ")
    assert "left out: the first (447." in said and said.endswith(" around")
    assert not [line for line in lines(answered(Training(steps=8).run(Gpu()), tmp_path)) if "left out" in line]


def test_a_first_step_that_the_cpu_alone_takes_long_for_is_not_cold(tmp_path: Path) -> None:
    """The GPU has as much to do for it as for the others, and begins at once."""
    made = Gpu(is_pinned=True)
    with made.range("step 0"):
        made.launch("matmul_gemm_kernel", 20 * MS)
        made.work(3 * MS)
    for step in range(1, 6):
        with made.range(f"step {step}"):
            made.launch("matmul_gemm_kernel", 20 * MS)
            made.work(MS)
    found = answered(made.finished(), tmp_path)
    assert (found["steps"]["step_cnt"], found["steps"]["cold_cnt"]) == (6, 0)
    assert found["steps"]["p50_ns"] == pytest.approx(20 * MS, rel=1e-3), "what the GPU takes: the CPU is ahead"
    assert found["window_ns"] == pytest.approx(120 * MS, rel=0.01)


def test_the_work_of_cold_steps_is_not_in_the_window(tmp_path: Path) -> None:
    """The CPU launches warm steps while the GPU is at work for the cold one."""
    made = Gpu(is_pinned=True)
    for step in range(6):
        with made.range(f"step {step}"):
            made.launch("matmul_gemm_kernel", 20 * MS if step else 90 * MS)
            made.work(MS)
    found = answered(made.finished(), tmp_path)
    assert (found["steps"]["step_cnt"], found["steps"]["cold_cnt"]) == (5, 1)
    assert found["window_ns"] == pytest.approx(100 * MS, rel=0.01)


@pytest.mark.slow
def test_a_busy_gpu_that_nothing_waits_for_is_not_called_the_limit(tmp_path: Path) -> None:
    """Kernels that take a little less than launching them do, and a little more."""
    said = {}
    for kernel in (9_000, 60_000):
        found = answered(Training(steps=8, kernel=kernel, copy=0).run(Gpu()), tmp_path)
        said[kernel] = verdict(found)
        assert max(found["parts"], key=lambda part: found["parts"][part]) == "compute", found["parts"]
    assert said[9_000].startswith("the CPU sets the pace: compute is ")
    assert said[60_000].startswith("GPU-bound: ")


def test_steps_that_hold_little_of_the_work_are_not_the_answer(tmp_path: Path) -> None:
    """Two numbered steps beside ten times their work outside of steps: the answer is about all of it."""
    gpu = Gpu()
    for _ in range(2_000):
        gpu.launch("matmul_gemm_kernel", 400_000)
    found = answered(Training(steps=2, kernel=6_000).run(gpu), tmp_path)
    assert not found["steady"]["is_steady"]
    assert found["window_ns"] == found["steady"]["recorded_ns"]


@pytest.mark.parametrize("cold", [(), (700 * MS,)])
@pytest.mark.first(1)
@pytest.mark.slow
def test_a_cold_step_is_left_out_although_more_work_follows_the_steps(cold: tuple[int, ...], tmp_path: Path) -> None:
    """A few steps to warm up, and then what is measured, without steps."""
    run = Around(cold=cold).run(Training(steps=4, kernel=6_000), Gpu())
    for _ in range(2_000):
        run.launch("matmul_gemm_kernel", 400_000)
    found = answered(run.finished(), tmp_path)
    steady = found["steady"]
    assert steady["is_steady"] == steady["has_rest"] == bool(cold)
    assert found["parts"]["compute"] > 0.9 or not cold
    assert any(line.startswith("  4 warm steps and what follows, ") for line in lines(found)) == bool(cold)


@pytest.mark.slow
def test_predictions_are_about_warm_steps(tmp_path: Path) -> None:
    training = Training(steps=8, kernel=6_000)

    def predicted(run: Gpu) -> dict[str, tuple[int, float]]:
        with analyzed(run, tmp_path) as database:
            rows = [*database.view("what_if").to_dicts(), *what_if(database, ["batch=4"]).to_dicts()]
            return {row["change"]: (row["step_ns"], row["saving_frac"]) for row in rows}

    alone, found = predicted(training.run(Gpu())), predicted(Around(cold=(700 * MS,)).run(training, Gpu()))
    for change in ("graph=step/forward", "fuse=step/optimizer", "batch=4", "pin=*"):
        assert found[change] == pytest.approx(alone[change], rel=0.01, abs=0.01)


@pytest.mark.parametrize("kernel", [6_000, 400_000])
@pytest.mark.slow
def test_what_is_saved_behind_cold_steps_is_possible(kernel: int, tmp_path: Path) -> None:
    """A CPU that gets ahead begins warm steps sooner: they are no longer for that, and no shorter than their work."""
    training = Training(steps=12, kernel=kernel, copy=0)
    run = Around(cold=(400 * MS,)).run(training, Gpu(is_pinned=True))
    work = sum(op.end - op.start for op in run.timeline.ops) / 12
    with analyzed(run, tmp_path) as database:
        steps = {
            change: what_if(database, [change]).to_dicts()[0]["step_ns"]
            for change in ("cpu=*:1", "cpu=*:0.9", "cpu=*:0.5", "cpu=*:0", "batch=4", "batch=12")
        }
    assert steps["cpu=*:1"] >= steps["cpu=*:0.9"] >= steps["cpu=*:0.5"] >= steps["cpu=*:0"]
    floor = 2_000 * len(run.timeline.ops) / 12  # what a kernel takes however little it computes
    assert min(steps["batch=4"], steps["batch=12"]) >= 0.95 * (work - floor)


@pytest.mark.parametrize("path", corpus_params("nsys/*.sqlite") + corpus_params("kineto/*.json.gz"))
@pytest.mark.first(2)
def test_a_faster_cpu_makes_no_step_longer(path: Path, database_of: Callable[[Path], Database]) -> None:
    database = database_of(path)
    if not database.rows("select 1 from what_if limit 1"):
        return
    saved = [what_if(database, [f"cpu=*:{factor}"])["saving_frac"].to_list() for factor in (0.9, 0.5, 0)]
    for source in zip(*saved, strict=True):
        known = [saving for saving in source if saving is not None]
        assert all(a <= b + 0.001 for a, b in pairwise([0, *known]))
