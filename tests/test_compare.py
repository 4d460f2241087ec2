"""Traces side by side: what changed, appeared and vanished, and the gate for CI."""

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lorabench import rundir
from lorabench.errors import UsageError
from lorabench.reports.comparison import changes


def trace(path: Path, steps: int, **kernels: int) -> Path:
    """Steps of 1000 µs with a kernel of so many µs each, launched in a range of its name."""
    events: list[dict[str, Any]] = []
    link = 0
    for step in range(steps):
        begin = 10_000 + step * 2000
        cpu = {"ph": "X", "pid": 1, "tid": 1}
        events.append(cpu | {"cat": "user_annotation", "name": f"step {step}", "ts": begin, "dur": 1000})
        for number, (name, duration) in enumerate(kernels.items()):
            link += 1
            at = begin + 10 * number
            events.append(cpu | {"cat": "user_annotation", "name": f"range {name}", "ts": at, "dur": 8})
            args = {"correlation": link}
            events.append(
                cpu | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 1, "dur": 2, "args": args}
            )
            gpu = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": name, "ts": at + 5, "dur": duration}
            events.append(gpu | {"args": args | {"device": 0, "stream": 7}})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


@pytest.fixture
def run(run_command: Callable[..., Any]) -> Callable[..., Any]:
    return partial(run_command, "compare")


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    return [
        trace(tmp_path / "a.json", 2, gemm=100, copy=10, old=5),
        trace(tmp_path / "b.json", 4, gemm=150, copy=10, new=7),
    ]


def table(said: Any) -> dict[str, dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(said.out)))
    return {next(iter(row.values())): row for row in rows}


def test_values_are_for_each_step_where_both_have_steps(run: Callable[..., Any], two: list[Path]) -> None:
    found = table(run(*two, "--by", "kernel", "--csv"))
    assert list(found) == ["(total)", "gemm", "new", "old", "copy"]
    gemm = found["gemm"]
    assert [gemm[c] for c in ("a.json", "b.json", "b.json Δ", "b.json Δ frac", "b.json is")] == [
        "100000.0", "150000.0", "50000.0", "0.5", "",
    ]  # fmt: skip
    assert (found["new"]["b.json is"], found["new"]["a.json"], found["new"]["b.json Δ frac"]) == ("new", "", "")
    assert (found["old"]["b.json is"], found["old"]["b.json Δ"]) == ("gone", "-5000.0")
    assert found["(total)"]["a.json"] == "115000.0" and found["(total)"]["b.json"] == "167000.0"
    whole = table(run(*two, "--by", "kernel", "--totals", "--csv"))
    assert whole["gemm"]["a.json"] == "200000.0" and whole["gemm"]["b.json"] == "600000.0"


def test_the_total_of_nested_ranges_is_the_work_once(run: Callable[..., Any], two: list[Path]) -> None:
    found = table(run(*two, "--csv"))
    assert found["(total)"]["a.json"] == found["step"]["a.json"] == "115000.0"
    assert found["step/range gemm"]["b.json Δ"] == "50000.0"
    wall = table(run(*two, "--measure", "wall_ns", "--csv"))
    assert wall["(total)"]["a.json"] == wall["step"]["a.json"] == "1000000.0"


def test_steps_show_their_median_first(run: Callable[..., Any], two: list[Path]) -> None:
    found = table(run(*two, "--by", "step", "--csv"))
    assert list(found) == ["(median)", "2", "3", "0", "1"] and found["2"]["b.json is"] == "new"
    assert found["(median)"]["b.json Δ frac"] == "0.0"


def test_three_inputs_are_each_held_against_the_first(run: Callable[..., Any], two: list[Path], tmp_path: Path) -> None:
    third = trace(tmp_path / "c.json", 1, gemm=50)
    found = table(run(*two, third, "--by", "kernel", "--csv"))
    assert (found["gemm"]["b.json Δ frac"], found["gemm"]["c.json Δ frac"]) == ("0.5", "-0.5")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--by", "kernel", "--fail-above", "50%"], 0),
        (["--by", "kernel", "--fail-above", "0.4"], 8),
        (["--by", "kernel", "--only", "copy", "--fail-above", "0%"], 0),
        (["--by", "kernel", "--only", "^gemm$", "--fail-above", "49%"], 8),
        (["--by", "kernel", "--only", "new", "--fail-above", "1000%"], 8),
        (["--by", "step", "--fail-above", "1%"], 0),
    ],
)
def test_the_gate_looks_at_the_first_row(run: Callable[..., Any], two: list[Path], words: list[str], code: int) -> None:
    said = run(*two, *words, code=code)
    assert ("is allowed" in said.err or "has nothing" in said.err) == bool(code)
    assert "(total)" in said.out or "(median)" in said.out


def test_run_directories_have_a_gate_of_their_own(run: Callable[..., Any], tmp_path: Path) -> None:
    runs = []
    for name, step, tokens in (("a", 10e6, 100.0), ("b", 11e6, 90.0)):
        runs.append(tmp_path / name)
        runs[-1].mkdir()
        summary = {"step_wall_ns": {"p50": step}, "tokens_per_s": {"computed": tokens}}
        (runs[-1] / rundir.SUMMARY).write_text(json.dumps(summary), "utf-8")
        (runs[-1] / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT}), "utf-8")
    run(*runs, "--fail-above", "15%")
    assert "step, median of b is 10.0% worse; 5.0% is allowed" in run(*runs, "--fail-above", "5%", code=8).err
    assert "10.0% worse; 5.0% is allowed" in run(*runs, "--fail-above", "5", code=8).err, "a bare 5 is per cent"
    assert "10.0% worse; 5.0% is allowed" in run(*runs, "--fail-above", "0.05", code=8).err
    assert "nothing grew by more than 15.0%" in run(*runs, "--fail-above", "15").err
    assert "tokens computed of b is 11.1% worse" in run(*runs, "--fail-above", "10.5%", code=8).err
    run(*reversed(runs), "--fail-above", "0")


def test_of_a_run_directory_one_recording_counts(run: Callable[..., Any], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        trace(tmp_path / name / "trace.json", 1, gemm=100)
        for part in ("trace.json.gz", "memory.json.gz"):
            (tmp_path / name / part).write_bytes((tmp_path / name / "trace.json").read_bytes())
        (tmp_path / name / "trace.json").unlink()
    found = table(run(tmp_path / "a", tmp_path / "b", "--by", "kernel", "--csv"))
    assert found["gemm"]["a"] == "100000.0"


def test_a_table_can_go_to_a_file(run: Callable[..., Any], two: list[Path], tmp_path: Path) -> None:
    run(*two, "-o", tmp_path / "x.csv")
    run(*two, "-o", tmp_path / "x.json")
    rows = json.loads((tmp_path / "x.json").read_text("utf-8"))
    assert (tmp_path / "x.csv").read_text("utf-8").count("\n") == len(rows) + 1 > 3
    assert "write to a .csv or .json file" in run(*two, "-o", tmp_path / "x.xls", code=2).err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--by", "weather"], "choose one of range, operator"),
        (["--measure", "path"], "choose one of range_cnt"),
        (["--only", "("], "not a regular expression"),
        (["--fail-above", "much"], "write a share"),
        (["--fail-above", "-3%"], "write a share"),
        (["--by", "summary", "--totals"], "go with a view"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    run: Callable[..., Any], two: list[Path], words: list[str], says: str
) -> None:
    assert says in run(*two, *words, code=2).err


def test_one_input_is_not_enough(run: Callable[..., Any], two: list[Path]) -> None:
    assert "two inputs or more" in run(two[0], code=2).err


def test_every_comparison_finds_no_change_in_a_trace_beside_itself(
    run: Callable[..., Any], synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    one = synthetic_trace("nsys")
    other = tmp_path / "other.sqlite"
    other.write_bytes(one.read_bytes())
    for by in changes.COMPARISONS.keys() - {"memory"}:  # which these traces know nothing of
        rows = list(csv.DictReader(io.StringIO(run(one, other, "--by", by, "--csv").out)))
        assert len(rows) > 1, by
        assert all(float(row["other.sqlite Δ"]) == 0 and not row["other.sqlite is"] for row in rows), by


def test_a_measure_that_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="choose one of"):
        changes.choose("range", "kind; drop table range")
