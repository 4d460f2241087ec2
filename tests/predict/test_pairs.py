"""What is predicted of a run against the run with the change made: a GPU whose rules are written down runs both."""

import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import writers
from conftest import quick
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict.predictions import what_if
from lorabench.analyze.predict.trace import fetch
from simulated_gpu import COMPUTE, COPIES, Gpu, Pair, Training, pairs

WRITE: dict[str, Callable[..., None]] = {"sqlite": writers.write_nsys, "json": writers.write_kineto}


IN_SQLITE = [(pair, "sqlite") for pair in pairs()]
IN_JSON = [(pair, "json") for pair in pairs() if "launch-bound" in pair.name]
IDS = [f"{pair.name.replace(' ', '-')}-{suffix}" for pair, suffix in IN_SQLITE + IN_JSON]


@pytest.mark.parametrize(("pair", "suffix"), quick(len(IN_SQLITE) + 2, IN_SQLITE + IN_JSON), ids=IDS)
@pytest.mark.first(2)
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


def loading(load: int) -> Gpu:
    """Kernels that run once, each loaded while one runs that is launched late."""
    gpu = Gpu(is_pinned=True, load=load)
    for number in range(20):
        gpu.work(1_000_000)
        gpu.launch("again", 300_000)
        gpu.launch(f"once_{number}", 300_000)
    return gpu.finished()


def test_kernels_that_are_loaded_while_others_run_come_as_much_sooner_without(tmp_path: Path) -> None:
    """Of each load what the GPU waits for it. The rest of it, beside a kernel that runs, is not blamed on it."""
    run, loaded = loading(2_000_000), loading(0)
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        ((saving,),) = database.rows("select saving_ns from finding where rule = 'compiling_or_loading'")
    assert saving == pytest.approx(20 * (2_000_000 - 300_000), rel=0.01)
    assert saving < run.timeline.end - loaded.timeline.end


def graphed(load: int, *, is_captured: bool) -> Gpu:
    """20 kernels, each loaded at its first launch."""
    gpu = Gpu(is_pinned=True, load=0 if is_captured else load)
    gpu.work(20 * load if is_captured else 0)
    with gpu.graph() if is_captured else nullcontext():
        for number in range(20):
            gpu.work(0 if is_captured else 200_000)
            gpu.launch(f"once_{number}", 300_000)
    return gpu.finished()


@pytest.mark.parametrize("load", [0, 2_000_000])
@pytest.mark.first(1)
def test_a_graph_loads_its_kernels_as_launches_do(load: int, tmp_path: Path) -> None:
    """A kernel runs while the next one is loaded: in a graph all are loaded before the first runs."""
    before, after = graphed(load, is_captured=False), graphed(load, is_captured=True)
    writers.write_nsys(tmp_path / "run.sqlite", [before.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        (row,) = what_if(database, ["graph=*"]).to_dicts()
    beside = 19 * 300_000 if load else 0
    assert row["step_ns"] == pytest.approx(after.timeline.end - 1_000_000 - beside, rel=0.02)


def managed(factor: float, pages: int) -> Gpu:
    """Kernels of two streams for whose pages nothing waits, with a result read behind each pair."""
    gpu = Gpu(is_pinned=True, pages=pages, factor=lambda name: factor)
    for number in range(3):
        gpu.work(3_000_000 if number else 0)
        gpu.launch("long_kernel", 80_000_000)
        gpu.launch("other_kernel", 50_000_000, COPIES)
        gpu.synchronise()
    return gpu.finished()


@pytest.mark.parametrize("pages", [1, 50])
@pytest.mark.parametrize("factor", [0.5, 0.01])
@pytest.mark.first(1)
def test_pages_that_move_follow_their_kernel(factor: float, pages: int, tmp_path: Path) -> None:
    before, after = managed(1, pages), managed(factor, pages)
    writers.write_nsys(tmp_path / "run.sqlite", [before.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        found = fetch(database, 1)
        assert found is not None
        begun = found.graph.begin_of_operations(found.graph.measured, found.graph.replay(found.graph.measured))
        (row,) = what_if(database, [f"scale=kernel:{factor}"]).to_dicts()
    assert (begun + found.origin == found.work.start).all()
    assert len(found.graph.riders) == 6 * pages, "all but the one behind the last kernel"
    assert row["step_ns"] == pytest.approx(after.timeline.end - 1_000_000, rel=0.02)


@pytest.mark.parametrize("load", [0, 300_000_000])
@pytest.mark.first(1)
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


def tiny_kernels(host: int) -> Gpu:
    """Steps of kernels that are on their way for longer than they run, each fifth launched late."""
    gpu = Gpu()
    for step in range(6):
        with gpu.range(f"step {step}"):
            for number in range(100):
                gpu.work(host * (8 if number % 5 == 0 else 1))
                gpu.launch("elementwise_kernel", 3_000)
    return gpu.finished()


@pytest.mark.slow
def test_work_that_is_on_its_way_when_the_one_before_ends_was_launched_late(tmp_path: Path) -> None:
    """A launch each 7.5 us, a kernel of 3 us: no kernel is queued behind another, though each was launched before."""
    run, fast = tiny_kernels(2_500), tiny_kernels(0)
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        causes = dict(database.rows("select cause, sum(idle_ns) from idle_gap group by cause"))
        (row,) = what_if(database, ["cpu=*:0"]).to_dicts()
    assert causes["host"] > 0.99 * sum(causes.values())
    # a call is taken to be a little shorter, too
    assert 0.85 < row["step_ns"] * 6 / (fast.timeline.end - 1_000_000) < 1.01


@pytest.mark.parametrize("stream", [9, None])
@pytest.mark.first(1)
@pytest.mark.slow
def test_a_synchronisation_waits_for_the_stream_that_it_names(stream: int | None, tmp_path: Path) -> None:
    """Of a stream that holds nothing it returns at once; that the CPU is no further is its own time."""
    gpu = Gpu()
    for step in range(6):
        with gpu.range(f"step {step}"):
            for _ in range(50):
                gpu.work(30_000)
                gpu.launch("elementwise_kernel", 15_000)
                gpu.synchronise(stream)
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    if stream is not None:
        say_stream(tmp_path / "run.sqlite", stream)
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        (row,) = what_if(database, ["cpu=*:0"]).to_dicts()
    each = row["step_ns"] / 50
    assert each == pytest.approx(16_200 if stream is not None else 6_000 + 15_000 + 2_000, rel=0.05)


def say_stream(trace: Path, stream: int) -> None:
    """Adds what CUPTI says of synchronizations of a stream."""
    with sqlite3.connect(trace) as file:
        file.execute(
            "create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start integer, end integer, deviceId integer, "
            "contextId integer, greenContextId integer, eventId integer, correlationId integer, globalPid integer, "
            "syncType integer, streamId integer, eventSyncId integer)"
        )
        file.execute(
            f"""insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
            select start, end, 0, 1, null, 4294967295, correlationId, globalTid & 0xFFFFFFFFFF000000, 3, {stream}, 0
            from CUPTI_ACTIVITY_KIND_RUNTIME
            where nameId in (select id from StringIds where value like 'cudaStreamSynchronize%')"""
        )


@pytest.mark.slow
def test_pinned_memory_is_as_fast_as_other_copies_of_the_trace(tmp_path: Path) -> None:
    """Copies of a MiB take 500 us from pageable memory, and 50 where they are pinned."""

    def run(is_pinned: bool) -> Gpu:
        gpu = Gpu(is_pinned=is_pinned)
        for step in range(6):
            with gpu.range(f"step {step}"):
                for _ in range(10):
                    gpu.copy(50_000 if is_pinned else 500_000)
                gpu.is_pinned = True
                gpu.copy(50_000)
                gpu.is_pinned = is_pinned
                gpu.launch("elementwise_kernel", 20_000)
        return gpu.finished()

    before, after = run(False), run(True)
    writers.write_nsys(tmp_path / "run.sqlite", [before.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        (row,) = what_if(database, ["pin=*"]).to_dicts()
        ((evidence, advice),) = database.rows("select evidence, advice from finding where rule = 'exposed_copy'")
    assert row["step_ns"] * 6 == pytest.approx(after.timeline.end - 1_000_000, rel=0.03)
    assert "pageable memory at 2.1 GB/s, where the link does 21.0" in evidence and advice.startswith("Pin ")


def test_more_steps_in_one_pass_save_no_less(tmp_path: Path) -> None:
    """Of five steps two passes of two and a half one: launching costs as if there were any number of them."""
    run = Training(steps=5, kernel=4_000, copy=8_000, optimizer=0).run(Gpu(is_pinned=True))
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        saved = {size: what_if(database, [f"batch={size}"]).to_dicts()[0] for size in (2, 3, 4, 5, 8, 1000)}
    fracs = [row["saving_frac"] for row in saved.values()]
    assert fracs == sorted(fracs)
    assert fracs[:2] == pytest.approx([1 / 2, 2 / 3], abs=0.05)


@pytest.mark.slow
def test_work_that_is_not_recorded_stays_when_steps_are_one_pass_and_kernels_one(tmp_path: Path) -> None:
    """Kernels of CUDA graphs are missing in some recordings: between those that are there a stream seems to wait."""
    gpu = Gpu(is_pinned=True)
    for step in range(4):
        with gpu.range(f"step {step}"), gpu.graph():
            gpu.launch("elementwise_before", 20_000)
            gpu.launch("missing", 10_000_000)
            gpu.launch("elementwise_behind", 20_000)
        gpu.synchronise(COMPUTE)
    run = gpu.finished()
    run.timeline.ops[:] = [op for op in run.timeline.ops if op.name != "missing"]
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        saved = [
            what_if(database, [change]).to_dicts()[0]["saving_frac"]
            for change in ("batch=4", "fuse=step", "graph=step")
        ]
    assert max(saved) < 0.02
