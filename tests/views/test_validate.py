"""validate against torch's own validator: on real traces, and on ones that break each rule."""

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import ROOT, corpus_params, quick
from lorabench import sql
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict.predictions import what_if
from lorabench.analyze.store.building import building
from lorabench.reports.answer import what_if_text
from lorabench.reports.answer.answer import IDLE, answer
from lorabench.reports.answer.answer_text import lines
from lorabench.reports.answer.verdict_text import doubts
from lorabench.reports.page.page import write as write_page
from simulated_gpu import Gpu, Training
from synthetic import MAIN, Call

FIXTURES = ROOT / "fixtures"
TORCHS = (
    "gpu_kernel_causality", "stream_wait_corr_id_populated", "stream_sync_overlap", "stream_wait_corr_id_in_past",
    "nccl_metadata", "backward_seq_id_uniqueness",
)  # fmt: skip


def event(category: str, name: str, start: float, duration: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration, "args": args}


def launched(start: float, kernel_start: float, duration: float = 10) -> list[dict[str, Any]]:
    link = {"correlation": 1, "External id": 1}
    return [
        event("cuda_runtime", "cudaLaunchKernel", start, 2, **link),
        event("kernel", "k", kernel_start, duration, device=0, stream=7, **link),
    ]


def sync(kind: str, start: float, **args: Any) -> dict[str, Any]:
    return event("cuda_sync", kind, start, 5, cuda_sync_kind=kind, device=0, stream=7, **args)


def backward(name: str, start: float, number: int) -> dict[str, Any]:
    text = f"autograd::engine::evaluate_function: {name}"
    return event("cpu_op", text, start, 5, **{"Sequence number": number, "Fwd thread id": 1})


COMPLETE = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 8, "Out msg nelems": 8, "Group size": 2}
RECORD = event("cuda_runtime", "cudaEventRecord", 10, 2, correlation=5)
WAITS = {"wait_on_cuda_event_record_corr_id": 5}
# rule: (events that break it, how often; events that do not)
CASES: dict[str, tuple[list[dict[str, Any]], int, list[dict[str, Any]]]] = {
    "gpu_kernel_causality": (launched(100, 90), 1, launched(100, 100)),
    "stream_wait_corr_id_populated": (
        [sync("Stream Wait Event", 20), sync("Event Sync", 30, wait_on_cuda_event_record_corr_id=-1)], 2,
        [RECORD, sync("Stream Wait Event", 20, **WAITS), sync("Event Sync", 30, **WAITS)],
    ),
    "stream_sync_overlap": (
        [*launched(100, 110), sync("Stream Sync", 115)], 1, [*launched(100, 110), sync("Stream Sync", 120)],
    ),
    "stream_wait_corr_id_in_past": (
        [RECORD, sync("Stream Wait Event", 5, **WAITS),
         sync("Stream Wait Event", 50, wait_on_cuda_event_record_corr_id=6)], 2,
        [RECORD, sync("Stream Wait Event", 20, **WAITS)],
    ),
    "nccl_metadata": (
        [event("cpu_op", "record_param_comms", 1, 5, **{k: v for k, v in COMPLETE.items() if k != missing})
         for missing in COMPLETE], 5,
        [event("cpu_op", "record_param_comms", 1, 5, **COMPLETE)],
    ),
    "backward_seq_id_uniqueness": (
        [backward("MmBackward0", 1, 3), backward("AddBackward0", 10, 3), backward("MmBackward0", 20, 4)], 1,
        [backward("MmBackward0", 1, 3), backward("MmBackward0", 10, 3), backward("AddBackward0", 20, 4)],
    ),
}  # fmt: skip


def written(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


def broken(path: Path, database: Path) -> dict[str, int]:
    """The errors and how often each. What torch's metadata lack may be known from elsewhere, and is no error then."""
    with analyze([path], database) as opened:
        return dict(
            opened.rows("select rule, problem_cnt from validation where severity = 'error' or rule = 'nccl_metadata'")
        )


def torchs(path: Path) -> dict[str, int]:
    validator = pytest.importorskip("torch.profiler._trace_validator")
    counts: dict[str, int] = {}
    for violation in validator.validate_trace(str(path))[1]:
        rule = violation.rule_name.removeprefix("_check_")
        counts[rule] = counts.get(rule, 0) + 1
    return counts


@pytest.mark.parametrize("rule", CASES)
@pytest.mark.first(1)
def test_each_rule_of_torch_finds_its_fault_and_nothing_else(rule: str, tmp_path: Path) -> None:
    wrong, count, right = CASES[rule]
    path = written(tmp_path / "wrong.json", wrong)
    assert broken(path, tmp_path / "w.duckdb") == {rule: count} == torchs(path)
    path = written(tmp_path / "right.json", right)
    assert broken(path, tmp_path / "r.duckdb") == {} == torchs(path)


def test_nodes_without_a_number_share_none(tmp_path: Path) -> None:
    """-1, as traces of Ascend have it, which torch's own rule takes for a number."""
    path = written(tmp_path / "x.json", [backward("MmBackward0", 1, -1), backward("AddBackward0", 10, -1)])
    assert broken(path, tmp_path / "x.duckdb") == {}


@pytest.mark.parametrize(
    "path",
    quick(
        5, [*corpus_params("kineto/*.json*"), FIXTURES / "h200-batch" / "trace.json.gz", FIXTURES / "torch-cpu.json.gz"]
    ),
    ids=lambda p: p.name if isinstance(p, Path) else p,
)
@pytest.mark.first(1)
def test_real_traces_break_the_rules_that_torch_says(path: Path, tmp_path: Path) -> None:
    expected = torchs(path)
    found = broken(path, tmp_path / "x.duckdb")
    # torch looks at the first launch and the first kernel of an operator, lorabench at each kernel and its own launch
    assert found.pop("gpu_kernel_causality", 0) >= bool(expected.pop("gpu_kernel_causality", 0))
    assert found == expected


def test_the_rules_of_torch_are_all_there() -> None:
    validator = pytest.importorskip("torch.profiler._trace_validator")
    assert {rule.__name__.removeprefix("_check_") for rule in validator._RULES} == set(TORCHS) == set(CASES)
    assert set(TORCHS) < {rule.name for rule in sql.in_folder(sql.VALIDATIONS)}


@pytest.fixture
def run(run_command: Callable[..., Any]) -> Callable[..., Any]:
    return partial(run_command, "validate")


@pytest.mark.slow
def test_a_sound_trace_passes(run: Callable[..., Any]) -> None:
    said = run(FIXTURES / "h200-batch" / "trace.json.gz")
    assert said.out == "" and "no problem: " in said.err and "stream_sync_overlap" in said.err


@pytest.mark.slow
def test_errors_end_with_9_and_warnings_only_when_strict(run: Callable[..., Any], tmp_path: Path) -> None:
    said = run(written(tmp_path / "w.json", CASES["gpu_kernel_causality"][0]), "--csv", code=9)
    rows = {row["rule"]: row for row in csv.DictReader(io.StringIO(said.out))}
    assert rows["gpu_kernel_causality"]["example"] == "k began 10.000 us before its launch"
    assert "1 of 19 rules are broken: gpu_kernel_causality" in said.err
    orphan = written(tmp_path / "o.json", [event("kernel", "k", 10, 5, correlation=3, device=0, stream=7)])
    said = run(orphan, "--json")
    assert {row["rule"] for row in json.loads(said.out)} >= {"launch_missing"}
    run(orphan, "--strict", code=9)


@pytest.mark.parametrize(
    ("suffix", "kept", "missing"), [("sqlite", 0.5, True), ("json", 0.5, True), ("sqlite", 1, False)]
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_a_recording_that_ends_while_the_gpu_is_behind_says_so(
    suffix: str, kept: float, missing: bool, run: Callable[..., Any], tmp_path: Path
) -> None:
    made = Training(kernel=400_000).run(Gpu(is_pinned=True)).timeline
    until = made.ops[int(kept * len(made.ops)) - 1].start
    made.ops = [op for op in made.ops if op.start <= until]
    trace = tmp_path / f"run.{suffix}"
    (writers.write_nsys if suffix == "sqlite" else writers.write_kineto)(trace, [made])
    said = [row["example"] for row in json.loads(run(trace, "--json").out or "[]") if row["rule"] == "work_missing"]
    launched = 6 * (4 * 12 + 30)
    there = sum(op.kind == "kernel" for op in made.ops)
    text = f"the last {launched - there} of {launched} kernel launches have no GPU work: the recording ended before it"
    assert said == ([text] if missing else [])
    with analyze([trace], tmp_path / "x.duckdb") as database:
        said = " ".join(" ".join(lines(answer(database))).split())
        assert ("the recording ended early" in said) == missing


@pytest.mark.parametrize("suffix", ["sqlite", "json"])
@pytest.mark.first(1)
def test_kernels_that_are_missing_between_others_are_said(suffix: str, run: Callable[..., Any], tmp_path: Path) -> None:
    """Their launches are there: the gap is none of the CPU's doing. What a graph captures does not run."""
    made = Training(kernel=400_000).run(Gpu(is_pinned=True)).timeline
    kernels = [op for op in made.ops if op.kind == "kernel"]
    dropped = {id(op) for op in kernels[len(kernels) // 2 : len(kernels) // 2 + 30]}
    made.ops = [op for op in made.ops if id(op) not in dropped]
    begin = made.calls[-1].end + 1000
    captured = [
        Call(MAIN, begin + 1000 * n, begin + 1000 * n + 900, name, 90_000 + n)
        for n, name in enumerate(("cudaStreamBeginCapture", *["cudaLaunchKernel"] * 5, "cudaStreamEndCapture"))
    ]
    last = Call(MAIN, begin + 9_000, begin + 9_900, "cudaLaunchKernel", 91_000)
    made.calls += [*captured, last]
    end = max(begin, *(op.end for op in made.ops))
    made.ops.append(replace(kernels[-1], start=end + 10_000, end=end + 60_000, correlation=91_000))
    trace = tmp_path / f"run.{suffix}"
    (writers.write_nsys if suffix == "sqlite" else writers.write_kineto)(trace, [made])
    rows = {row["rule"]: row["example"] for row in json.loads(run(trace, "--json").out or "[]")}
    assert rows["work_dropped"] == f"30 of {len(kernels) + 6} kernel launches have no GPU work, though later ones have"
    with analyze([trace], tmp_path / "x.duckdb") as database:
        said = " ".join(" ".join(lines(answer(database))).split())
        assert f"30 of {len(kernels) + 6} kernel launches have no GPU work, though later ones have" in said
        found = database.rows("select evidence from finding where advice like 'The GPU may have worked there%'")
    assert [text for (text,) in found if text.endswith("; 30 kernels were launched for it that are not in the file")]


def test_what_a_file_holds_twice_is_said(run: Callable[..., Any], tmp_path: Path) -> None:
    made = Training(kernel=400_000).run(Gpu(is_pinned=True)).timeline
    writers.write_nsys(tmp_path / "once.sqlite", [made])
    again = [op for op in made.ops if op.kind == "kernel"][:7]
    writers.write_nsys(
        tmp_path / "twice.sqlite", [replace(made, ops=made.ops + again, calls=made.calls + made.calls[:3])]
    )
    said = {
        name: [row["example"] for row in json.loads(run(tmp_path / name, "--json").out or "[]")
               if row["rule"] == "recorded_twice"]
        for name in ("once.sqlite", "twice.sqlite")
    }  # fmt: skip
    assert said == {"once.sqlite": [], "twice.sqlite": ["7 GPU operations, 3 calls more than once"]}


def test_launches_are_missing_behind_the_last_one_of_their_process(tmp_path: Path) -> None:
    """Of two in one file one stopped early: what it launched since has no work, whatever the other one did."""
    timelines = []
    for kept in (0.5, 0.75):
        made = Training(kernel=400_000).run(Gpu(is_pinned=True)).timeline
        until = made.ops[int(kept * len(made.ops)) - 1].start
        timelines.append(replace(made, ops=[op for op in made.ops if op.start <= until]))
    trace = tmp_path / "run.sqlite"
    writers.write_nsys(trace, timelines, are_processes=True)
    launched = 6 * (4 * 12 + 30)
    missing = sum(launched - sum(op.kind == "kernel" for op in timeline.ops) for timeline in timelines)
    with analyze([trace], tmp_path / "x.duckdb") as database:
        assert database.rows("select missing_cnt, launch_cnt from _work_missing") == [(missing, 2 * launched)]


def test_what_was_lost_is_a_warning(run: Callable[..., Any], tmp_path: Path) -> None:
    whole = json.dumps({"traceEvents": launched(1, 5)})
    (tmp_path / "cut.json").write_text(whole[: len(whole) - 30], "utf-8")
    rows = json.loads(run(tmp_path / "cut.json", "--json").out)
    assert "lost" in {row["rule"] for row in rows}


@pytest.mark.slow
def test_sums_that_are_not_what_sql_defines_are_named(
    synthetic_trace: Callable[..., Path], tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    trace = synthetic_trace("nsys")
    said = run_command("validate", trace, "--definitions").err
    assert "equal to their definitions: matched_collective, path_busy, path_measure, range_measure, set_work" in said
    with building(tmp_path / "x.duckdb") as new:
        new.connection.execute("insert into path_busy values (1, 0, 7)")
    said = run_command("validate", tmp_path / "x.duckdb", "--definitions", "--json", code=9)
    assert "path_busy (1 rows)" in said.err
    (row,) = (row for row in json.loads(said.out) if row["rule"] == "definition of path_busy")
    assert (row["severity"], row["problem_cnt"]) == ("error", 1) and "kept" in row["example"] and "7" in row["example"]


@pytest.mark.parametrize("kernel", quick(1, [2_000, 400_000]), ids=["launch-bound", "GPU-bound"])
@pytest.mark.parametrize("shift_ms", [0, 20, -0.1, -150])
@pytest.mark.first(2)
@pytest.mark.slow
def test_clocks_that_were_not_matched_are_said_first(kernel: int, shift_ms: float, tmp_path: Path) -> None:
    """Steps that wait for the GPU, whose work is moved as a whole; also on the page."""
    gpu = Gpu(is_pinned=True)
    for step in range(12):
        with gpu.range(f"step {step}"):
            for _ in range(20):
                gpu.work(8_000)
                gpu.launch("matmul_gemm_kernel", kernel)
            gpu.synchronise()
    timeline = gpu.finished().timeline
    shift = round(shift_ms * 1_000_000)
    timeline.ops[:] = [replace(op, start=op.start + shift, end=op.end + shift) for op in timeline.ops]
    writers.write_nsys(tmp_path / "run.sqlite", [timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "x.duckdb") as database:
        found = answer(database)
        rules = {rule for (rule,) in database.rows("select rule from validation where severity = 'error'")}
        write_page(database, tmp_path / "page.html")
        known = {row["source_id"]: row for row in database.dicts("from _answer_replay")}
        predicted = list(what_if_text.lines(what_if(database).to_dicts(), known))
        of_idle = database.rows("from finding where is_predicted or rule in ('synchronisation', 'launch_bound_range')")
    said = " ".join(lines(found))
    page = (tmp_path / "page.html").read_text("utf-8")
    if not shift:
        assert "too early beside" not in page and "too late beside" not in page
        assert found["clock_shift_ns"] is None and not rules and "clocks" not in said
        return
    assert abs(found["clock_shift_ns"] - shift) < 100_000
    assert rules == {"clock_shift" if shift > 0 else "gpu_kernel_causality"}
    doubted = f"too {'late' if shift > 0 else 'early'} beside the CPU"
    assert doubted in said and doubted in page
    assert not re.search("sets the pace|the CPU is late|waiting:|host [0-9]", said)
    assert "waits for the CPU 9" not in page
    assert not re.search("would be saved|launch bound|synchroni[sz]ation", said)
    assert not re.search("saves [0-9.,]+ ms", page)
    assert not of_idle, "findings about why it is idle"
    assert "idle" in found["parts"] and not found["parts"].keys() & set(IDLE)
    assert doubted in " ".join(predicted)


@pytest.mark.parametrize(("linked", "said"), [(False, "no GPU work says which call launched it"), (True, "")])
@pytest.mark.slow
def test_of_launches_that_are_missing_one_reason_is_said(linked: bool, said: str, tmp_path: Path) -> None:
    """Calls are recorded, and no kernel has the number of one."""
    events = launched(1, 20)
    for one in events:
        if one["cat"] == "kernel" and not linked:
            one["args"] = {"device": 0, "stream": 7}
    (tmp_path / "run.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    with analyze([tmp_path / "run.json"], tmp_path / "run.duckdb") as database:
        found = doubts(answer(database))
    assert len(found) == (not linked) and all(text.startswith(said) for text in found)
