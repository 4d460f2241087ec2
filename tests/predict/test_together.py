"""Changes made together: in whatever order, they save what the better one saves, or more."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import writers
from conftest import ROOT, corpus_params, quick
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict import predictions, suggestions
from lorabench.analyze.predict.advice import OF_WAITS
from lorabench.analyze.predict.changes import Change, apply, parse
from lorabench.analyze.predict.scene import Scene
from lorabench.analyze.predict.trace import fetch
from lorabench.analyze.store.database import Database
from lorabench.errors import UsageError
from simulated_gpu import Gpu, pairs

_SMALL = [
    "lora-run.sqlite", "torch-cpu.json.gz", "alexnet-*", "bert-small*", "torch-compile-*", "vllm-*", "qwen-*h100*",
    "ddp-backward*", "legacy-*", "llm-attention-*",
]  # fmt: skip
_ALSO = ("graph=*", "fuse=*", "batch=2", "batch=3", "cpu=*:0.5", "scale=.*:0.5", "scale=.*:0", "skip=*")
FILES = [
    *(ROOT / "fixtures" / name for name in _SMALL[:2]),
    *(case for name in _SMALL[2:] for case in corpus_params(f"*/{name}")),
]


def scene_of(database: Database) -> Scene:
    ((source_id,),) = database.rows("select min(source_id) from source where kind_has_work(kind)")
    found = fetch(database, source_id)
    assert found is not None
    return Scene(database, found)


def saved_by(scene: Scene, changes: list[Change]) -> int | None:
    return predictions.saved_by(scene, changes)[0]


def possible(scene: Scene) -> dict[Change, int]:
    """The changes that can be asked of a trace, and what each saves."""
    found = {}
    for change in dict.fromkeys([*suggestions.standard(scene), *map(parse, _ALSO)]):
        try:
            saving = saved_by(scene, [change])
        except UsageError:
            continue
        if saving is not None:
            found[change] = saving
    return found


def check(scene: Scene) -> None:
    alone = possible(scene)
    assert min(alone.values()) >= 0 and len(alone) >= 7
    slack = 1e-5 * scene.window_ns
    for one, other in itertools.combinations(alone, 2):
        there, back = saved_by(scene, [one, other]), saved_by(scene, [other, one])
        assert there == back, f"{one} {other}"
        assert there is not None
        assert max(alone[one], alone[other]) - slack <= there <= scene.window_ns, f"{one} {other}"


@pytest.mark.parametrize("path", quick(5, FILES), ids=str)
@pytest.mark.first(3)
def test_two_changes_of_a_trace_save_as_much_as_the_better_one(
    path: Path, database_of: Callable[[Path], Database]
) -> None:
    check(scene_of(database_of(path)))


@pytest.mark.parametrize("pair", quick(3, list(pairs())[::3]), ids=lambda pair: pair.name.replace(" ", "-"))
@pytest.mark.slow
def test_two_changes_of_a_program_save_as_much_as_the_better_one(pair: object, tmp_path: Path) -> None:
    before, _ = pair.runs()  # type: ignore[attr-defined]
    writers.write_nsys(tmp_path / "run.sqlite", [before.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        check(scene_of(database))


def test_steps_that_touch_are_a_graph_each(tmp_path: Path) -> None:
    """What launches one graph for all of them would save is not to be had."""
    gpu = Gpu(is_pinned=True)
    for step in range(4):
        with gpu.range(f"step {step}"):
            for _ in range(50):
                gpu.launch("gemm", 1_000)
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        scene = scene_of(database)
        number, _ = scene.instances("step")
        assert set(number.tolist()) >= {0, 1, 2, 3}
        assert saved_by(scene, [parse("graph=step")]) == saved_by(scene, [parse("graph=*")])


@pytest.mark.parametrize(("launches", "helps"), [(1, False), (60, True)])
@pytest.mark.first(1)
def test_a_graph_of_less_than_what_launching_it_takes_is_none(launches: int, helps: bool, tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    for step in range(4):
        with gpu.range(f"step {step}"), gpu.range("inner"):
            for _ in range(launches):
                gpu.launch("gemm", 1_000)
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        scene = scene_of(database)
        changed = apply(scene, scene.trace.graph.measured, [parse("graph=inner")])
        assert changed is not None
        assert (changed.host.tolist() != scene.trace.graph.measured.host.tolist()) == helps
        saving, left_out = predictions.saved_by(scene, [parse("graph=inner")])
        assert saving is not None and (saving > 0) == helps
        assert left_out == ([] if helps else [parse("graph=inner")])
        (row,) = predictions.predict(scene, [[parse("graph=inner")]])
        assert ("left out: with it steps are no shorter" in row["note"]) != helps


@pytest.mark.slow
def test_what_two_waits_hide_from_each_other_is_the_work_that_both_wait_for(tmp_path: Path) -> None:
    """Either wait alone leaves the other one; without the work behind them the GPU would not be idle."""
    gpu, idle = Gpu(is_pinned=True), 0
    for number in range(12):
        with gpu.range(f"step {number}"):
            for _ in range(10):
                gpu.launch("gemm", 1_000_000)
            with gpu.range("log"):
                gpu.read_back()
        if number % 3 == 2:
            with gpu.range("save"):
                gpu.waits = False  # but for the copy itself, from the device to pageable memory
                gpu.read_back(1_000_000)
                gpu.waits = True
                gpu.work(30_000_000)
            idle += 30_000_000 if number < 11 else 0
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        saved = dict(database.rows("select rule, sum(saving_ns) from finding where saving_ns > 0 group by rule"))
        ((most,),) = database.rows("select sum(idle_ns) from idle_summary where cause = 'host'")
    late = sum(ns for rule, ns in saved.items() if rule in (*OF_WAITS, "host_work", "lost_lead"))
    assert 0.9 * idle <= late <= 1.01 * most
    assert saved["host_work"] > 0.5 * idle


def test_of_two_changes_of_which_either_closes_the_gaps_the_other_says_what_it_saves_alone(tmp_path: Path) -> None:
    """Input that is late only where each step waits for its loss: reading ahead is enough, and so is not waiting."""

    def run(waits: bool) -> Gpu:
        gpu = Gpu(is_pinned=True, waits=waits)
        for step in range(12):
            with gpu.range(f"step {step}"):
                with gpu.range("data"):
                    gpu.work(1_000_000)
                for _ in range(10):
                    gpu.launch("gemm", 300_000)
                gpu.synchronise(7)
        return gpu.finished()

    writers.write_nsys(tmp_path / "x.sqlite", [run(True).timeline])
    true_ns = run(True).timeline.end - run(False).timeline.end
    with analyze([tmp_path / "x.sqlite"], tmp_path / "x.duckdb") as database:
        found = database.rows("select rule, saving_ns, evidence from finding where evidence like '%alone it saves%'")
        ((saved_ns,),) = database.rows("select saving_ns from finding where rule = 'late_input'")
    assert [rule for rule, _, _ in found] == ["lost_lead"]
    ((_, credited_ns, evidence),) = found
    alone = re.search(r"alone it saves (\S+) ms", evidence)
    assert alone is not None and float(alone[1]) * 1e6 == pytest.approx(true_ns, rel=0.1)
    assert credited_ns < saved_ns / 2
