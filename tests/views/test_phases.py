"""Phases of training: which launches the GPU's work belongs to, and that the rows are all of it."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, opened
from lorabench.analyze.predict.predictions import what_if
from lorabench.analyze.store.database import Database
from lorabench.reports.answer import answer_text
from lorabench.reports.answer.answer import answer

FIXTURES = ROOT / "fixtures"
CAPTURE = FIXTURES / "h200-batch" / "trace.json.gz"
NAMED = {"data": "data", "h2d": "h2d", "optimizer": "optimizer", "forward": "forward", "recompute": "recompute"}
Event = dict[str, Any]


@pytest.fixture(scope="module")
def events() -> list[Event]:
    found: list[Event] = json.loads(gzip.decompress(CAPTURE.read_bytes()))["traceEvents"]
    return found


def written(events: list[Event], path: Path) -> Path:
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def shares(database: Database, column: str) -> dict[str, Any]:
    return dict(database.rows(f"select phase, {column} from phase_summary where {column} > 0"))


def brute_force(events: list[Event]) -> Counter[str]:
    """How many GPU operations each phase launches, by a loop over the ranges that are open at each launch."""
    spans = [e for e in events if e.get("ph") == "X" and e.get("cat") in ("user_annotation", "cpu_op")]
    launches = {
        e["args"]["correlation"]: e
        for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }  # fmt: skip
    found: Counter[str] = Counter()
    for work in events:
        if work.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        call = launches[work["args"]["correlation"]]
        around = [e for e in spans if float(e["ts"]) <= float(call["ts"]) < float(e["ts"]) + float(e["dur"])]
        here = [e["name"] for e in sorted(around, key=lambda e: float(e["ts"])) if e["tid"] == call["tid"]]
        named = [NAMED[name] for name in here if name in NAMED]
        in_backward = any(e["name"] == "backward" for e in around) or any(n.startswith("autograd::") for n in here)
        if "recompute" in named:
            found["recompute"] += 1
        elif named and named[-1] != "forward":
            found[named[-1]] += 1
        else:
            found["backward" if in_backward else named[-1] if named else "other"] += 1
    return found


@pytest.mark.slow
def test_work_belongs_to_the_phase_that_launched_it(events: list[Event]) -> None:
    with opened(CAPTURE) as database:
        assert shares(database, "gpu_op_cnt") == brute_force(events)
        ((backward, forward, again),) = database.rows(
            "select max(gpu_op_ns) filter (phase = 'backward'), max(gpu_op_ns) filter (phase = 'forward'), "
            "max(gpu_op_ns) filter (phase = 'recompute') from phase_summary"
        )
    assert 1.5 < backward / forward < 2.5 and 0.5 < again / forward < 1  # products of the backward are twice as many


@pytest.mark.parametrize(
    "name", ["h200-batch/trace.json.gz", "lora-run.sqlite", "lora-run.json.gz", "torch-cpu.json.gz"]
)
@pytest.mark.first(3)
def test_phases_add_up_to_the_steps_and_to_all_work(name: str) -> None:
    with opened(FIXTURES / name) as database:
        ((cpu_ns, cpu, gpu_ns, gpu),) = database.rows(
            "select sum(cpu_ns), sum(cpu_frac), sum(gpu_op_ns), sum(gpu_op_frac) from phase_summary"
        )
        ((wall_ns,),) = database.rows("select sum(wall_ns) from _phase_work")
        ((work_ns,),) = database.rows(
            "select coalesce(sum(op.end_ns - op.start_ns), 0) from gpu_op as op "
            "join _steady_time as steady using (source_id) "
            "where op.start_ns between steady.start_ns and steady.end_ns - 1"
        )
    assert (cpu_ns, gpu_ns) == (wall_ns, work_ns) and cpu == pytest.approx(1)
    assert gpu is None if not work_ns else gpu == pytest.approx(1)


def test_where_nobody_names_phases_backward_nodes_tell_them(events: list[Event], tmp_path: Path) -> None:
    """Forward: the operators that backward nodes point to. What has no gradient is in no phase then."""
    names = ("forward", "backward", "recompute", "step", "run", "h2d", "data")
    unnamed = [e for e in events if e.get("name") not in names]
    with opened(CAPTURE) as database:
        named = shares(database, "gpu_op_frac")
    with opened(written(unnamed, tmp_path / "unnamed.json")) as database:
        found = shares(database, "gpu_op_frac")
        counts = Counter(shares(database, "gpu_op_cnt"))
    assert found["backward"] + found["recompute"] == pytest.approx(named["backward"] + named["recompute"], abs=0.02)
    assert 0.7 * named["recompute"] < found["recompute"] < 1.1 * named["recompute"]
    assert 0.7 * named["forward"] < found["forward"] < 1.1 * named["forward"]
    # those that add gradients up are nodes without a number
    assert counts["backward"] + counts["recompute"] == brute_force(unnamed)["backward"]


def test_what_is_recomputed_can_be_left_out_whether_a_range_names_it_or_not(
    events: list[Event], tmp_path: Path
) -> None:
    unnamed = [e for e in events if e.get("name") not in ("forward", "backward", "recompute")]
    saved = []
    for trace in (CAPTURE, written(unnamed, tmp_path / "unnamed.json")):
        with opened(trace) as database:
            saved.append(what_if(database, ["skip=recompute"]).row(0, named=True)["saving_frac"])
    assert saved[1] == pytest.approx(saved[0], rel=0.1) and saved[0] > 0.1


@pytest.mark.parametrize(
    ("category", "name", "is_node"),
    [
        ("cpu_op", "ReluBackward1", True),  # without a number, as in 2021
        ("cpu_op", "torch::autograd::AccumulateGrad", True),
        ("cpu_op", "autograd::engine::evaluate_function: torch::autograd::CopySlices", True),
        ("cpu_op", "aten::native_layer_norm_backward", False),
        ("user_annotation", "PipelineBackward", False),
    ],
)
def test_nodes_without_a_number_are_known_by_their_names(
    category: str, name: str, is_node: bool, tmp_path: Path
) -> None:
    event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": 10.0, "dur": 5.0}
    with opened(written([event], tmp_path / "x.json")) as database:
        assert database.rows("select is_backward from range") == [(is_node,)]


def test_an_input_without_phases_has_no_rows(events: list[Event], tmp_path: Path) -> None:
    work = [e for e in events if e.get("cat") not in ("user_annotation", "cpu_op", "python_function")]
    with opened(written(work, tmp_path / "work.json")) as database:
        assert database.rows("from phase_summary") == []


def said(database: Database, change: Callable[[dict[str, Any]], None]) -> str:
    found = answer(database)
    change(found)
    return " ".join(" ".join(answer_text.lines(found)).split())


@pytest.mark.parametrize(
    ("busy", "is_of_gpu", "is_of_cpu"), [(0.04, False, True), (0.7, True, True), (0.95, True, False)]
)
def test_phases_are_those_of_what_takes_the_time(busy: float, is_of_gpu: bool, is_of_cpu: bool) -> None:
    def change(found: dict[str, Any]) -> None:
        found["parts"] = {"compute": busy, "communication": 0.0, "copies": 0.0, "host": 1 - busy}

    with opened(CAPTURE) as database:
        text = said(database, change)
    assert ("by phase: forward 27%, backward 71% (21% recomputed), optimizer 1%" in text) == is_of_gpu
    assert ("a step on the CPU: data" in text) == is_of_cpu


def test_of_work_that_is_mostly_in_no_phase_nothing_is_said() -> None:
    def change(found: dict[str, Any]) -> None:
        found["parts"] = {"compute": 0.95, "communication": 0.0, "copies": 0.0, "host": 0.05}
        found["gpu_phases"] = {"optimizer": 0.2, "other": 0.8}

    with opened(CAPTURE) as database:
        text = said(database, change)
    assert "by phase" not in text and "a step on the CPU: data" in text
