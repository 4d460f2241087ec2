"""The replay: what was measured when nothing changes, on every trace; bounds and order when something does."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import writers
from conftest import ROOT, corpus_params
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.attribute.replay import Graph, Weights
from lorabench.analyze.attribute.replay_graph import Operations, graph
from lorabench.analyze.attribute.replay_threads import Points
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict import trace as traces
from lorabench.analyze.predict.changes import GRAPH_LAUNCH_NS, apply, parse
from lorabench.analyze.predict.scene import Scene
from lorabench.analyze.store.database import Database
from lorabench.errors import UsageError
from simulated_gpu import COMMUNICATION, COMPUTE, COPIES, Gpu

FILES = [
    *corpus_params("nsys/*.sqlite"), *corpus_params("kineto/*.json.gz"),
    ROOT / "fixtures" / "lora-run.sqlite", ROOT / "fixtures" / "torch-cpu.json.gz", ROOT / "fixtures" / "h200-batch",
]  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_unchanged_trace_is_replayed_to_the_nanosecond(path: Path, database_of: Callable[[Path], Database]) -> None:
    database = database_of(path)
    for (source_id,) in database.rows("select source_id from source where kind in ('nsys', 'kineto')"):
        trace = traces.fetch(database, source_id)
        if trace is None:
            continue
        found = trace.graph.replay(trace.graph.measured)
        assert (found.begin + trace.origin == trace.points.begin).all()
        begun = trace.graph.begin_of_operations(trace.graph.measured, trace.graph.replay(trace.graph.measured))
        assert (begun + trace.origin == trace.work.start).all()
        assert found.length_ns == trace.end - trace.origin
    assert database.rows("select step from replay where error_frac <> 0") == []
    ((steps,),) = database.rows(
        "select count(*) from _step join source using (source_id) where kind <> 'snapshot' and thread_id is not null"
    )
    ((replayed,),) = database.rows("select count(*) from replay where step is not null")
    assert replayed == steps


# A program: launches on three streams, copies, waits for a stream or for all, streams that wait for others, work of the
# CPU, another thread.
STREAM = st.sampled_from([COMPUTE, COPIES, COMMUNICATION])
LENGTH = st.integers(0, 60_000)
INSTRUCTION = st.one_of(
    st.tuples(st.just("launch"), LENGTH, STREAM),
    st.tuples(st.just("copy"), LENGTH, STREAM),
    st.tuples(st.just("synchronise"), st.one_of(st.none(), STREAM)),
    st.tuples(st.just("stream_waits"), STREAM, STREAM),
    st.tuples(st.just("work"), LENGTH),
    st.tuples(st.just("backward"), st.lists(st.tuples(st.just("launch"), LENGTH, STREAM), min_size=1, max_size=4)),
)
PROGRAMS = st.lists(INSTRUCTION, min_size=1, max_size=25)


def run(program: list[tuple[object, ...]]) -> Gpu:
    gpu = Gpu()
    gpu.launch("first", 1_000)
    _run(gpu, program)
    return gpu.finished()


def _run(gpu: Gpu, program: list[tuple[object, ...]]) -> None:
    for kind, *arguments in program:
        if kind == "backward":
            with gpu.backward_thread():
                _run(gpu, arguments[0])  # type: ignore[arg-type]
        elif kind == "launch":
            gpu.launch("kernel", *arguments)  # type: ignore[arg-type]
        else:
            getattr(gpu, str(kind))(*arguments)


def graph_of(gpu: Gpu) -> tuple[Graph, Points, Operations]:
    """As a trace would give it: nothing of the program but times, calls, streams."""
    calls = sorted((c for c in gpu.timeline.calls if "Event" not in c.name), key=lambda c: c.start)
    ops = sorted(gpu.timeline.ops, key=lambda o: o.start)
    place = {call.correlation: number for number, call in enumerate(calls)}
    stream_of = {op.correlation: op.stream for op in ops}
    ends = {op.correlation: op.end for op in ops}
    names = sorted({op.stream for op in ops})
    waits = ["Synchronize" in c.name or (c.name == "cudaMemcpyAsync" and ends[c.correlation] <= c.end) for c in calls]

    def array(values: object) -> np.ndarray:
        return np.array(list(values), dtype=np.int64)  # type: ignore[call-overload]

    begin = array(c.start for c in calls)
    points = Points(
        np.zeros_like(begin), array(c.tid for c in calls), begin, array(c.end for c in calls),
        np.array([c.correlation in stream_of for c in calls]), np.array(waits), begin.copy(),
        array(
            names.index(stream_of[c.correlation]) if w and c.correlation in stream_of else -1
            for c, w in zip(calls, waits, strict=True)
        ),
        array(c.end for c in calls), np.zeros_like(begin),
    )  # fmt: skip
    none = np.zeros(len(ops), dtype=np.int64)
    work = Operations(
        array(o.start for o in ops), array(o.end for o in ops), none, none, array(names.index(o.stream) for o in ops),
        array(place[o.correlation] for o in ops), np.array([o.kind == "kernel" for o in ops]), none > 0, none > 0,
    )  # fmt: skip
    return graph(points, work), points, work


def scaled(weights: Weights, factor: float) -> Weights:
    return replace(weights, length=np.rint(weights.length * factor).astype(np.int64))


@given(PROGRAMS)
def test_any_program_is_replayed_to_the_nanosecond(program: list[tuple[object, ...]]) -> None:
    found, points, work = graph_of(run(program))
    origin = points.begin.min()
    assert (found.replay(found.measured).begin + origin == points.begin).all()
    assert (found.begin_of_operations(found.measured, found.replay(found.measured)) + origin == work.start).all()


@given(PROGRAMS, st.floats(0, 1), st.floats(0, 1))
def test_faster_kernels_save_no_more_than_their_time_and_faster_ones_no_less(
    program: list[tuple[object, ...]], one: float, other: float
) -> None:
    found, _, work = graph_of(run(program))
    slow, fast = (found.replay(scaled(found.measured, f)).length_ns for f in sorted((one, other), reverse=True))
    whole = found.replay(found.measured).length_ns
    assert fast <= slow <= whole
    assert whole - fast <= (1 - min(one, other)) * (work.end - work.start).sum() + len(work)


@given(PROGRAMS)
def test_what_nothing_hides_stays_when_all_else_is_free(program: list[tuple[object, ...]]) -> None:
    found, points, work = graph_of(run(program))
    measured, nothing = found.measured, np.zeros_like
    cpu_free = replace(measured, host=nothing(measured.host), own=nothing(measured.own), waits=nothing(measured.waits))
    longest = max((work.end - work.start)[work.stream == stream].sum() for stream in np.unique(work.stream))
    assert found.replay(cpu_free).length_ns >= longest
    main = points.thread == points.thread[0]
    busy = (points.end - points.begin)[main & ~points.waits].sum()
    assert found.replay(scaled(measured, 0)).length_ns >= busy


@given(PROGRAMS, st.floats(0, 1), st.floats(0, 1))
def test_two_changes_save_at_least_what_the_better_one_saves(
    program: list[tuple[object, ...]], kernels: float, host: float
) -> None:
    found, _, _ = graph_of(run(program))
    first = scaled(found.measured, kernels)
    second = replace(found.measured, host=np.rint(found.measured.host * host).astype(np.int64))
    lengths = [found.replay(weights).length_ns for weights in (first, second, replace(first, host=second.host))]
    rounded = len(found.measured.host)
    assert lengths[2] <= min(lengths[:2]) + rounded


@given(PROGRAMS)
def test_what_does_not_wait_is_not_later(program: list[tuple[object, ...]]) -> None:
    found, points, _ = graph_of(run(program))
    free = found.replay(replace(found.measured, waits=np.zeros_like(points.waits)))
    assert (free.begin <= found.replay(found.measured).begin).all()


@pytest.mark.parametrize("apart", [0, 5_000])
@pytest.mark.first(1)
def test_a_graph_of_everything_is_launched_once_in_each_step(apart: int, tmp_path: Path) -> None:
    """Also where one step begins when the one before ends."""
    gpu = Gpu()
    for step in range(6):
        with gpu.range(f"step {step}"):
            for _ in range(5):
                gpu.launch("gemm", 1_000)
        gpu.work(apart)
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        found = traces.fetch(database, 1)
        assert found is not None
        scene = Scene(database, found)
        graphs = found.steps.of_points(len(found.points))
        changed = apply(scene, found.graph.measured, [parse("graph=*")])
    assert changed is not None
    assert sorted(set(graphs.tolist()) - {-1}) == list(range(6))
    assert int((changed.host == GRAPH_LAUNCH_NS).sum()) == 6 and not changed.own[graphs >= 0].any()


KERNELS = {
    "ampere_sgemm_128x64_tn": 32,
    "cutlass_simt_sgemm": 32,
    "ampere_h16816gemm_64x64": 16,
    "add_elementwise": None,
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("device", ["V100", "L40S", "H100", "A100"])
@pytest.mark.first(1)
def test_another_device_takes_its_peak_in_the_precision_of_a_product(name: str, device: str, tmp_path: Path) -> None:
    """Of a float32 program it is no peak of tensor cores: an L40S multiplies faster there than an H100."""
    gpu = Gpu()
    for step in range(3):
        with gpu.range(f"step {step}"):
            gpu.launch(name, 1_000_000)
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with sqlite3.connect(tmp_path / "run.sqlite") as file:
        file.execute("update TARGET_INFO_GPU set name = 'NVIDIA H100 80GB HBM3'")
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        peak = f"matrix{KERNELS[name]}_flops" if KERNELS[name] else "memory_bytes_s"
        asked = f"select {peak} from device_peak where regexp_matches(?, pattern) order by priority limit 1"
        ((own,), (other,)) = (database.rows(asked, gpu)[0] for gpu in ("H100", device))
        found = traces.fetch(database, 1)
        assert found is not None
        scene = Scene(database, found)
        changed = apply(scene, found.graph.measured, [parse(f"device={device}")])
        assert changed is not None and changed.length == pytest.approx(np.full(3, 1_000_000 * own / other), abs=1)
        for twice in (f"device={device}", "device=T4"):
            with pytest.raises(UsageError, match="only one of them can be applied"):
                apply(scene, found.graph.measured, [parse(f"device={device}"), parse(twice)])


def test_what_the_first_kernel_waited_for_outside_of_the_recording_delays_no_other_and_is_no_part_of_the_step(
    tmp_path: Path,
) -> None:
    """A recording that begins while the GPU works: all is launched in 20 ms, and runs from 150 ms on."""
    events: list[dict[str, object]] = [
        {"ph": "X", "cat": "user_annotation", "name": "step 1", "pid": 1, "tid": 1, "ts": 0, "dur": 20_000}
    ]
    for n in range(40):
        link = {"args": {"correlation": n + 1, "device": 0, "stream": 7}}
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 500 * n + 1, "dur": 10}
        kernel = {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 150_000 + 4_000 * n, "dur": 4_000}
        events += [{"ph": "X"} | call | link, {"ph": "X"} | kernel | link]
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    with analyze([tmp_path / "t.json"], tmp_path / "t.duckdb") as database:
        found = traces.fetch(database, 1)
        assert found is not None
        scene = Scene(database, found)
        halved = apply(scene, scene.trace.graph.measured, [parse("scale=gemm:0.5")])
        assert halved is not None
        assert scene.saved_ns(halved) == 80_000_000
        assert scene.window_ns == pytest.approx(160_000_000, rel=0.001)
