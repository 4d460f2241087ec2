"""A part of a long trace in the place of the whole: what findings save by it, on simulated GPUs whose steps vary."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import writers
from conftest import quick
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict import part, predictions
from lorabench.analyze.store.database import Database
from simulated_gpu import Gpu, Training

STEPS = 60
RUNS = {
    "launches": Training(kernel=6_000),
    "computes": Training(kernel=400_000, copy=2_000_000),
    "reads late": Training(kernel=40_000, load=20_000_000),
    "waits": Training(kernel=40_000, syncs=True),
    "copies": Training(kernel=6_000, copy=2_000_000),
    "computes and waits": Training(kernel=200_000, syncs=True),
}


def late_at(steps: set[int], otherwise: int = 0) -> Gpu:
    """Input is late in some steps; in the others the CPU does something else for a while."""
    gpu = Gpu()
    for step in range(STEPS):
        with gpu.range(f"step {step}"):
            with gpu.range("data"):
                gpu.work(60_000_000 if step in steps else 0)
            gpu.work(0 if step in steps else otherwise)
            for _ in range(40):
                gpu.work(4_000)
                gpu.launch("matmul_gemm_kernel", 30_000)
    return gpu.finished()


def database_of(run: Gpu, folder: Path) -> Database:
    """A run that was read."""
    writers.write_nsys(folder / "run.sqlite", [run.timeline])
    return analyze([folder / "run.sqlite"], folder / "run.duckdb")


def saved(database: Database) -> dict[str, int]:
    """What each rule saves."""
    table = predictions.Predictions(database).tables()["followed_rule"]()
    return dict(zip(table["rule"].to_pylist(), table["saving_ns"].to_pylist(), strict=True))


@pytest.mark.parametrize("seed", quick(1, range(2)))
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.first(1)
def test_a_part_saves_what_the_whole_does(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    run = replace(RUNS[name], steps=STEPS).run(Gpu(factor=lambda _: draw.uniform(0.7, 1.3)))
    with database_of(run, tmp_path) as database:
        whole = saved(database)
        monkeypatch.setattr(part, "MOST_OPERATIONS", len(run.timeline.ops) // 4)
        found = part.part_of(database, 1)
        assert found is not None and found.share < 0.3
        by_part = saved(database)
    window = run.timeline.end
    assert whole and all(abs(by_part.get(rule, 0) - saving) <= max(0.08 * saving, 0.005 * window)
                         for rule, saving in whole.items()), (whole, by_part)  # fmt: skip


@pytest.mark.parametrize("steps", [{50}, set(range(40, 60)), {25, 26, 27}])
@pytest.mark.first(1)
@pytest.mark.slow
def test_steps_of_usual_length_stand_for_the_whole(
    steps: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_of(late_at(steps), tmp_path) as database:
        whole = saved(database)
        monkeypatch.setattr(part, "MOST_OPERATIONS", STEPS * 40 // 4)
        assert part.part_of(database, 1) is not None
        assert saved(database)["late_input"] == pytest.approx(whole["late_input"], rel=0.01)


@pytest.mark.slow
def test_a_part_does_not_stand_for_what_happens_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps take as long, for one reason in the first half and for another one in the second."""
    with database_of(late_at(set(range(30)), otherwise=60_000_000), tmp_path) as database:
        whole = saved(database)
        monkeypatch.setattr(part, "MOST_OPERATIONS", STEPS * 40 // 4)
        assert part.part_of(database, 1) is not None
        assert saved(database) == whole and len(whole) > 1


def test_few_steps_and_few_operations_are_replayed_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with database_of(replace(RUNS["launches"], steps=20).run(Gpu()), tmp_path) as database:
        assert part.part_of(database, 1) is None
        monkeypatch.setattr(part, "MOST_OPERATIONS", 100)
        assert part.part_of(database, 1) is None  # 12 steps and two before them are most of 20
