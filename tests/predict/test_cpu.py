"""What is predicted of a run without a GPU against the run with the change made: a CPU whose rules are written down."""

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simulated_gloo
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.attribute.cover import Cover
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict import operators, unprofiled
from lorabench.analyze.predict.predictions import what_if
from lorabench.errors import UsageError
from simulated_cpu import CALL, GAP, PYTHON, Program, with_zero_calls

FIXTURES = ROOT / "fixtures"
BEFORE = with_zero_calls(Program())
PAIRS = [
    ("batch=4", BEFORE, replace(BEFORE, rows=40, steps=2, optimizers=4), 4),
    ("batch=2", BEFORE, replace(BEFORE, rows=20, steps=4, optimizers=2), 2),
    ("merge=5", replace(BEFORE, micro=5), replace(BEFORE, rows=50), 1),
    ("skip=recompute", replace(BEFORE, recomputed=(400, 90, 700)), BEFORE, 1),
    ("prefetch={data}", BEFORE, replace(BEFORE, data_ns=0), 1),
    ("scale=op3$:0.5", BEFORE, replace(BEFORE, forward=(400, 0, 90, 750, 30, 700), backward=(900, 0, 200, 1250, 0)), 1),
]  # fmt: skip


@pytest.mark.parametrize(("change", "before", "after", "tasks"), PAIRS, ids=[pair[0] for pair in PAIRS])
@pytest.mark.first(3)
def test_a_step_without_a_profiler_is_predicted_from_a_profiled_one(
    change: str, before: Program, after: Program, tasks: int, tmp_path: Path
) -> None:
    with analyze([before.write(tmp_path / "before.json")], tmp_path / "before.duckdb") as database:
        (found,) = unprofiled.fractions(database, before.step_ns(), [[change]])
    assert found.frac is not None
    assert found.frac * before.step_ns() * tasks == pytest.approx(after.step_ns(), rel=0.03)


def test_what_a_rank_waits_for_the_others_is_neither_called_nor_worked(tmp_path: Path) -> None:
    """Rank 0 waits in each step while rank 1 sleeps: nothing done to rank 0 makes that shorter."""
    job = simulated_gloo.Job(kind="ddp", late=tuple(range(6)))
    trace, _ = simulated_gloo.write(job, tmp_path / "traces")
    with analyze([trace], tmp_path / "x.duckdb") as database:
        ((step_ns,),) = database.rows("select min(wall_ns)::double from step_summary")
        asked = [["cpu=*:0"], ["hide-communication=*"], ["cpu=*:0", "hide-communication=*"]]
        own, waits, both = (found.frac for found in unprofiled.fractions(database, step_ns, asked))
    assert own and waits and own * step_ns == pytest.approx(1e3 * (job.nap + simulated_gloo.TRANSFER))
    assert own + waits == pytest.approx(1) and both == 0


def test_what_if_predicts_steps_batched_of_a_trace_without_a_gpu(tmp_path: Path) -> None:
    before, after = BEFORE.write(tmp_path / "before.json", 0), replace(BEFORE, rows=40, steps=2, optimizers=4)
    with analyze([before], tmp_path / "before.duckdb") as database:
        (row,) = what_if(database, ["batch=4"]).to_dicts()
        (fused,) = what_if(database, ["fuse=step/optimizer"]).to_dicts()
        (faster,) = what_if(database, ["scale=op3$:0.5"]).to_dicts()
    between = GAP * (BEFORE.steps - 1) / BEFORE.steps * 4
    assert row["step_ns"] * 4 == pytest.approx(after.step_ns() + between, rel=0.01)
    calls = len(BEFORE.optimizer) * (CALL + PYTHON)
    assert fused["saving_ns"] == pytest.approx(calls, rel=0.03)
    assert faster["saving_ns"] == pytest.approx((1500 + 2500) / 2 * BEFORE.rows, rel=0.03)


def test_all_that_is_fetched_ahead_is_the_input_and_not_all_that_the_cpu_does(tmp_path: Path) -> None:
    changes = ("prefetch=*", "prefetch=step/data", "cpu=*:0")
    with analyze([BEFORE.write(tmp_path / "before.json")], tmp_path / "x.duckdb") as database:
        saved = [what_if(database, [change]).to_dicts()[0]["saving_ns"] for change in changes]
        alone, named = unprofiled.fractions(database, BEFORE.step_ns(), [["prefetch=*"], ["prefetch={data}"]])
    assert 0 < saved[0] == saved[1] < saved[2] / 2
    assert alone == named


@pytest.mark.parametrize("fixture", ["lora-run.json.gz", "nvtx-ranges.sqlite"])
@pytest.mark.first(1)
@pytest.mark.slow
def test_beside_a_gpu_too_the_input_is_fetched_or_said_to_be_nowhere(fixture: str, tmp_path: Path) -> None:
    with analyze([FIXTURES / fixture], tmp_path / "x.duckdb") as database:
        standard = database.view("what_if").to_dicts()
        inputs = {row["change"]: row["saving_ns"] for row in standard if row["change"].startswith("prefetch=")}
        if not inputs:
            with pytest.raises(UsageError, match="no range that means reading input; name it: prefetch=PATH"):
                what_if(database, ["prefetch=*"])
            return
        assert what_if(database, ["prefetch=*"]).to_dicts()[0]["saving_ns"] == max(inputs.values())


@pytest.mark.slow
def test_recomputation_is_said_and_a_change_to_try(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    trace = replace(BEFORE, recomputed=(400, 90, 700)).write(tmp_path / "trace.json")
    said = " ".join(run_command("summary", trace).out.split())
    backward = re.search(r"backward (\d+)% \((\d+)% recomputed\)", said)
    assert backward and 0 < int(backward[2]) < int(backward[1])
    with analyze([trace], tmp_path / "x.duckdb") as database:
        saved = dict(database.view("what_if").select("change", "saving_frac").rows())
        (asked,) = what_if(database, ["skip=recompute"]).to_dicts()
    assert saved["skip=recompute"] == asked["saving_frac"] == pytest.approx(int(backward[2]) / 100, abs=0.03)
    without = run_command("summary", BEFORE.write(tmp_path / "without.json")).out
    assert "backward" in without and "recomputed" not in without


@pytest.mark.slow
def test_without_the_gpus_work_waits_for_it_are_no_change_to_try(tmp_path: Path) -> None:
    """Counters alone are recorded of kernels, or another profiler took them: the calls that wait are there."""
    events = json.loads(gzip.decompress((FIXTURES / "lora-run.json.gz").read_bytes()))["traceEvents"]
    left = [event for event in events if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert any("Synchronize" in event["name"] for event in left)
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": left}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        kinds = {change.partition("=")[0] for change in database.view("what_if")["change"]}
    assert kinds <= {"prefetch"}


def test_what_a_trace_does_not_have_is_said(tmp_path: Path) -> None:
    asked = [["skip=recompute"], ["scale=gemm:0.5"], ["pin=*"], ["prefetch={h2d}"]]
    with analyze([BEFORE.write(tmp_path / "before.json")], tmp_path / "before.duckdb") as database:
        found = unprofiled.fractions(database, BEFORE.step_ns(), asked)
    assert [p.frac for p in found] == [None] * 4
    assert [p.why.split(";")[0] for p in found] == [
        "no such range: 'recompute'",
        "no operator's name matches 'gemm'",
        "pin=*: the trace has no GPU work",
        "the trace has no range that means h2d",
    ]  # fmt: skip


def test_changes_together_save_as_much_as_each_and_never_more_than_the_step(tmp_path: Path) -> None:
    program = replace(BEFORE, recomputed=(400, 90, 700))
    both = ["skip=recompute", "prefetch={data}"]
    with analyze([program.write(tmp_path / "before.json")], tmp_path / "before.duckdb") as database:
        one, two, together, twice = unprofiled.fractions(
            database, program.step_ns(), [[both[0]], [both[1]], both, ["cpu=step:0", "cpu=step:0"]]
        )
    assert 1 - together.frac == pytest.approx(2 - one.frac - two.frac)  # type: ignore[operator]
    assert twice.frac == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5_000)), max_size=30), st.sets(st.integers(0, 4)))
def test_work_is_within_own_time_and_nothing_of_what_computes_nothing(
    calls: list[tuple[int, int]], idle: set[int]
) -> None:
    name, own = (np.array([call[place] for call in calls], dtype=np.int64) for place in (0, 1))
    work = operators.work_ns(name, own, np.isin(name, list(idle)))
    is_idle = np.isin(name, list(idle))
    assert ((work >= 0) & (work <= own)).all() and not work[is_idle].any()
    assert (own - work)[~is_idle].max(initial=0) <= operators.CALL_NS


INTERVALS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10)), max_size=8)


def cover_of(intervals: list[tuple[int, int]]) -> Cover:
    begin = np.array([a for a, _ in intervals], dtype=np.int64)
    return Cover.of(begin, begin + np.array([b for _, b in intervals], dtype=np.int64))


@given(INTERVALS, INTERVALS)
def test_what_two_covers_have_in_common_is_in_both(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    a, b, moments = cover_of(one), cover_of(other), np.arange(70)
    assert (a.common(b).holds(moments) == (a.holds(moments) & b.holds(moments))).all()


def finding(path: Path, folder: Path) -> dict[str, tuple[int, str]]:
    with analyze([path], folder / "found.duckdb", force=True) as database:
        rows = database.rows("select rule, occurrence_cnt, evidence from finding")
    return {rule: (count, evidence) for rule, count, evidence in rows}


@pytest.mark.parametrize(("turns", "adapters"), [((10, 10, 10, 40), 4), ((10, 40), 2), ((), 0), ((10,), 0)])
@pytest.mark.first(2)
@pytest.mark.slow
def test_adapters_in_turn_are_tried_in_one_pass(turns: tuple[int, ...], adapters: int, tmp_path: Path) -> None:
    program = replace(BEFORE, steps=12, turns=turns)
    with analyze([program.write(tmp_path / "turns.json")], tmp_path / "x.duckdb") as database:
        changes = {row["change"]: row["saving_frac"] for row in what_if(database).to_dicts()}
    tried = [change for change in changes if change.startswith("batch=")]
    assert tried == ([f"batch={adapters}"] if adapters else [])
    assert all(changes[change] > 0.05 for change in tried)


@pytest.mark.parametrize("micro", [1, 3])
@pytest.mark.first(1)
@pytest.mark.slow
def test_micro_batches_of_a_step_are_tried_as_one(micro: int, tmp_path: Path) -> None:
    program = replace(BEFORE, micro=micro)
    with analyze([program.write(tmp_path / "micro.json")], tmp_path / "x.duckdb") as database:
        changes = {row["change"] for row in what_if(database).to_dicts()}
    assert {change for change in changes if change.startswith("merge=")} == ({"merge=3"} if micro == 3 else set())


@pytest.mark.parametrize(("micro", "size"), [(1, 2), (4, 5), (4, 1024)])
@pytest.mark.first(2)
@pytest.mark.slow
def test_no_more_micro_batches_are_merged_than_a_step_has(micro: int, size: int, tmp_path: Path) -> None:
    with analyze([replace(BEFORE, micro=micro).write(tmp_path / "micro.json")], tmp_path / "x.duckdb") as database:
        with pytest.raises(UsageError, match=f"there are steps with {micro} micro batch"):
            what_if(database, [f"merge={size}"])
        (found,) = unprofiled.fractions(database, BEFORE.step_ns(), [[f"merge={size}"]])
    assert found.frac is None and f"steps with {micro} micro batch" in found.why


@pytest.mark.slow
def test_what_is_left_of_micro_batches_is_called_for_itself(tmp_path: Path) -> None:
    """Of four in passes of three there are two passes, as in passes of two."""
    with analyze([replace(BEFORE, micro=4).write(tmp_path / "micro.json")], tmp_path / "x.duckdb") as database:
        two, three, four = (what_if(database, [f"merge={size}"])["saving_ns"].item() for size in (2, 3, 4))
    assert two == three < four
    assert four == pytest.approx(1.5 * two, rel=0.01)


@pytest.mark.slow
def test_steps_of_adapters_in_turn_are_uneven_beside_those_of_their_own(tmp_path: Path) -> None:
    """Of one that has longer sequences all steps are longer; where one of them is longer still that is said."""
    program = replace(BEFORE, steps=16, turns=(10, 10, 10, 80))
    path = program.write(tmp_path / "turns.json")
    assert "uneven_steps" not in finding(path, tmp_path)
    slower = json.loads(path.read_text("utf-8"))
    late = sorted(e["ts"] for e in slower["traceEvents"] if e["name"] == "step 8")[0] + 1
    for event in slower["traceEvents"]:
        at = event["ts"]
        if at > late:
            event["ts"] += 400
        elif at + event["dur"] > late:
            event["dur"] += 400
    path.write_text(json.dumps(slower), "utf-8")
    count, evidence = finding(path, tmp_path)["uneven_steps"]
    assert count == 1 and "above the median of its adapter" in evidence
