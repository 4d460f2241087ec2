"""What is predicted of a run against the run with the change made: a GPU whose rules are written down runs both."""

from collections.abc import Callable
from pathlib import Path

import pytest
import writers
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict.predictions import what_if
from simulated_gpu import Gpu, Pair, Training, pairs

WRITE: dict[str, Callable[..., None]] = {"sqlite": writers.write_nsys, "json": writers.write_kineto}


PAIRS = [(pair, "sqlite") for pair in pairs()] + [(pair, "json") for pair in pairs() if "launch-bound" in pair.name]


@pytest.mark.parametrize(("pair", "suffix"), PAIRS, ids=[f"{p.name.replace(' ', '-')}-{suffix}" for p, suffix in PAIRS])
def test_a_change_saves_what_is_predicted(pair: Pair, suffix: str, tmp_path: Path) -> None:
    before, after = pair.runs()
    trace = tmp_path / f"before.{suffix}"
    WRITE[suffix](trace, [before.timeline])
    with analyze([trace], tmp_path / "before.duckdb") as database:
        (row,) = what_if(database, [pair.change]).to_dicts()
    steps = pair.before.steps
    predicted = row["step_ns"] * steps
    assert predicted == pytest.approx(after.timeline.end - 1_000_000, rel=0.02)
    assert (row["step_ns"] + row["saving_ns"]) * steps == pytest.approx(before.timeline.end - 1_000_000, rel=0.001)
    assert row["replay_error_frac"] == 0


def test_a_cpu_that_takes_no_time_leaves_what_the_gpu_takes(tmp_path: Path) -> None:
    """Calls that load a kernel are the CPU's time, too, and what they launch begins as much sooner."""
    run = Training(steps=1, kernel=6_000).run(Gpu(is_pinned=True, load=50_000_000))
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        (row,) = what_if(database, ["cpu=*:0"]).to_dicts()
    busy = sum(op.end - op.start for op in run.timeline.ops)
    assert busy <= row["step_ns"] <= busy + 200_000
    assert row["saving_ns"] > 150_000_000


@pytest.mark.parametrize("load", [0, 300_000_000])
def test_no_standard_change_costs_time(load: int, tmp_path: Path) -> None:
    """Waits that are dropped before the steps let the CPU get ahead, but the steps begin with the same work queued."""
    gpu = Gpu()
    for _ in range(20 if load else 0):
        gpu.work(load // 20)
        gpu.copy(load // 20)
    run = Training(steps=8, kernel=400_000, syncs=True).run(gpu)
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        savings = {row["change"]: row["saving_ns"] for row in what_if(database).to_dicts()}
    assert savings["drop-sync=*"] == pytest.approx(12 * 21_000, rel=0.1), "of each layer what launching takes"
    assert min(saving for saving in savings.values() if saving is not None) >= 0
