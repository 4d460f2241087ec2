"""What a difference is made of adds up to it, and its parts are those that compare prints."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import simulated_node
from conftest import CORPUS, ROOT, absent, quick
from lorabench.analyze.pipeline import analyze
from lorabench.reports.answer import answer
from lorabench.reports.comparison import by_step, changes, comparisons, difference, waterfall
from lorabench.reports.page.receipt import PARTS

FIXTURES = ROOT / "fixtures"
PAIRS = [
    pytest.param(FIXTURES / "lora-run.json.gz", FIXTURES / "h200-batch" / "trace.json.gz", id="fixtures"),
    pytest.param(CORPUS / "kineto" / "ddp-resnet18.mi300x.json.gz",
                 CORPUS / "kineto" / "resnet50-six-steps.2021.json.gz", id="communication"),
    pytest.param(CORPUS / "kineto" / "cuda-graphs.a100.json.gz", CORPUS / "kineto" / "ddp-backward.a100.json.gz",
                 id="a100"),
]  # fmt: skip


def pair(database_of: Callable, *traces: Path) -> list:
    for trace in traces:
        if not trace.exists():
            absent("corpus", f"there is no {trace}")
    return [database_of(trace) for trace in traces]


@pytest.mark.parametrize(("first", "second"), quick(2, PAIRS))
def test_parts_of_a_difference_are_those_of_compare(database_of: Callable, first: Path, second: Path) -> None:
    databases = pair(database_of, first, second)
    steps = [by_step.of_steps(database) for database in databases]
    assert all(steps), "choose traces with steps"
    means = [one.mean or 0.0 for one in steps if one]
    fell = waterfall.of(databases, means, is_timed=False)
    assert fell is not None and fell.is_of_gpu and len(fell.parts) > 3
    values = [fell.first, fell.second]
    assert values == pytest.approx(means) if fell.is_of_step else max(map(float.__sub__, values, means)) > 0
    for place, step in enumerate(values, 1):
        assert sum(part[place] for part in fell.parts) == pytest.approx(step, abs=1e-3)
    changed = sum(b - a for _, a, b in fell.parts)
    assert changed == pytest.approx(values[1] - values[0], abs=1e-3)
    named = dict(zip("AB", databases, strict=True))
    found = {name: (a, b) for name, a, b in fell.parts}
    # compare's idle time is that between the first work of a device and its last; before it the step waits for the CPU
    first_waits = [
        (steady - recorded) / step_cnt
        for database in databases
        for steady, recorded, step_cnt in database.rows(
            "select s.window_ns, t.window_ns, s.step_cnt "
            "from steady_state as s join gpu_timeline_summary as t using (device_id)"
        )
    ]
    left = list(found.get(PARTS["unrecorded"][0], (0.0, 0.0)))  # compare's causes have what is not recorded, too
    for row in changes.compare(named, comparisons.choose("idle", None))[0][1:]:
        waits = first_waits if row["cause"] == "host" else [0, 0]
        for place, letter in enumerate(named):
            more = (row[letter] or 0) + waits[place] - found.get(PARTS[row["cause"]][0], (0, 0))[place]
            assert -0.06 < more < left[place] + 0.06
            left[place] -= more
    assert left == pytest.approx([0, 0], abs=0.2)
    for measure, names in (("busy_ns", ("compute", "communication", "copies")), ("compute_ns", ("compute",))):
        total = changes.compare(named, comparisons.choose("device", measure))[0][0]
        for place, (letter, database) in enumerate(named.items()):
            parts = sum(found.get(PARTS[name][0], (0, 0))[place] for name in names)
            ((whole, step_cnt),) = database.rows(
                f"select t.{measure}, s.step_cnt "
                "from gpu_timeline_summary as t join steady_state as s using (device_id)"
            )
            assert parts == pytest.approx(whole / step_cnt, abs=0.06), measure
            # of busy time compare leaves out what lies outside of steps
            assert (
                total[letter] <= parts + 0.06
                if measure == "busy_ns"
                else total[letter] == pytest.approx(parts, abs=0.06)
            )


UNKNOWN = ("cuda-graphs.a100.json.gz", "resnet50-six-steps.2021.json.gz", "sglang-decode-graphs.json.gz")


@pytest.mark.parametrize("trace", [FIXTURES / "lora-run.json.gz", *(CORPUS / "kineto" / name for name in UNKNOWN)])
@pytest.mark.first(1)
def test_the_parts_are_those_of_the_answer(database_of: Callable, trace: Path) -> None:
    """What is not recorded is nobody's waiting, here as there."""
    (database,) = pair(database_of, trace)
    about = answer.answer(database)
    fell = waterfall.of([database, database], [1.0, 1.0], is_timed=False)
    assert fell is not None and not fell.is_of_step
    found = {name: time / fell.first for name, time, _ in fell.parts}
    assert found == pytest.approx({PARTS[name][0]: share for name, share in about["parts"].items() if share})
    if trace.name in UNKNOWN:
        assert found[PARTS["unrecorded"][0]] > 0
        assert fell.words(PARTS["unrecorded"][0]) == "what is not recorded of the GPU"
    # beside an input without steps it is of the whole recording, which has the same parts where nothing is left out
    whole = waterfall.of([database, database], None, is_timed=False)
    assert whole is not None and not whole.is_of_step
    if not database.rows("select 1 from steady_state where is_steady"):
        assert {name: time / whole.first for name, time, _ in whole.parts} == pytest.approx(found)


def by_hand(**shares: float) -> waterfall.Values:
    return {PARTS[name][0]: share for name, share in shares.items()}


def test_where_one_side_does_not_know_why_it_is_idle_neither_is_said_to(
    database_of: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = iter([by_hand(compute=60.0, host=30.0, kernel_wait=10.0), by_hand(compute=50.0, idle=150.0)])
    monkeypatch.setattr(waterfall, "_of_gpu", lambda *_: next(sides))
    databases = pair(database_of, FIXTURES / "lora-run.json.gz", FIXTURES / "lora-run.json.gz")
    fell = waterfall.of(databases, [100.0, 200.0], is_timed=False)
    assert fell is not None and fell.parts == [("computes", 60.0, 50.0), (PARTS["idle"][0], 40.0, 150.0)]


def test_processes_of_one_file_share_its_steps(database_of: Callable, tmp_path: Path) -> None:
    """The same run twice in one file: a step of it is no shorter."""
    run = FIXTURES / "lora-run.sqlite"
    node = simulated_node.write(run, tmp_path / "node.sqlite", names_gpus=False)
    databases = pair(database_of, run, node)
    fell = waterfall.of(databases, [421_483.0, 421_483.0], is_timed=False)
    assert fell is not None and all(a == b for _, a, b in fell.parts)


def test_the_step_of_a_timing_pass_is_work_and_waiting(database_of: Callable) -> None:
    """The profiler makes the GPU wait longer: its causes of waiting are not those of the timing pass."""
    databases = pair(database_of, FIXTURES / "lora-run.json.gz", FIXTURES / "h200-batch" / "trace.json.gz")
    fell = waterfall.of(databases, [30e6, 35e6], is_timed=True)
    assert fell is not None and {name for name, *_ in fell.parts} >= {"computes", "waits"}
    assert not {name for name, *_ in fell.parts} & {PARTS[cause][0] for cause in ("host", "dependency", "kernel_wait")}
    assert [sum(part[place] for part in fell.parts) for place in (1, 2)] == pytest.approx([30e6, 35e6])


def test_phases_of_a_step_on_the_clock_of_the_verdict(database_of: Callable) -> None:
    databases = pair(database_of, FIXTURES / "torch-cpu.json.gz", FIXTURES / "torch-cpu.json.gz")
    fell = waterfall.of(databases, [100.0, 50.0], is_timed=True)
    assert fell is not None and not fell.is_of_gpu
    assert {name for name, *_ in fell.parts} >= {"forward", "backward", "optimizer"}
    assert [sum(part[place] for part in fell.parts) for place in (1, 2)] == pytest.approx([100, 50])
    assert all(b == pytest.approx(a / 2) for _, a, b in fell.parts)
    most = fell.most()
    assert most and most[0] == "forward" and most[1] < 0
    assert waterfall.of(databases, None, is_timed=False) is None


def stepping(folder: Path, name: str, forward: int, between: int, cold: int = 0) -> Path:
    """A CPU's steps of a forward and a backward of 300 us; the first takes so much longer, in its optimizer."""
    events, at = [], 0
    for step in range(5):
        first = cold if step == 0 else 0
        begin = at
        for called, length in (("forward", forward), ("backward", 300), ("optimizer", 50 + first)):
            events.append({"ph": "X", "cat": "user_annotation", "name": called, "pid": 1, "tid": 1, "ts": at,
                           "dur": length})  # fmt: skip
            at += length
        events.append({"ph": "X", "cat": "user_annotation", "name": f"step {step}", "pid": 1, "tid": 1, "ts": begin,
                       "dur": at - begin})  # fmt: skip
        at += between
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    return path


@pytest.mark.slow
def test_phases_are_those_of_warm_steps_on_the_clock_that_they_have(tmp_path: Path, run_command: Callable) -> None:
    """A cold step is in no mean, and what lies between steps is in no phase."""
    a = stepping(tmp_path, "a", 200, 0, cold=4000)
    b = stepping(tmp_path, "b", 280, 150)
    said = " ".join(run_command("compare", a, b).stdout.split())
    # the last step of four or five has nothing behind it
    assert "most of the difference from A to B: between steps, +120.0 us in the mean step" in said
    with analyze([a]) as one, analyze([b]) as other:
        steps = [by_step.of_steps(database) for database in (one, other)]
        fell = waterfall.of([one, other], [step.mean or 0.0 for step in steps if step], is_timed=False)
    assert fell is not None
    assert {name: (before, after) for name, before, after in fell.parts} == {
        "forward": (200_000, 280_000), "backward": (300_000, 300_000), "optimizer": (50_000, 50_000),
        "between steps": (0, 120_000),
    }  # fmt: skip


def test_the_flame_graph_of_a_difference_has_all_work_of_both(database_of: Callable) -> None:
    databases = pair(database_of, FIXTURES / "lora-run.json.gz", FIXTURES / "h200-batch" / "trace.json.gz")
    made = difference.section_of(databases, ("A", "B"), [1.0, 1.0])
    assert made is not None
    own = made.figure["change"]["own"]
    for place, database in enumerate(databases):
        ((time, steps),) = database.rows(
            "select sum(end_ns - start_ns), (select count(distinct step) from step_summary) from gpu_op"
        )
        assert sum(values[place] for values in own) == pytest.approx(time / steps, abs=len(own))
