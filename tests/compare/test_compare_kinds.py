"""Comparisons of what is not alike: steps that come in turns, ranges with other names, other profilers."""

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import corpus_params
from hypothesis import example, given
from hypothesis import strategies as st
from lorabench import rundir
from lorabench.reports.comparison import by_step, changes, compared, comparisons, renamed, runs
from test_compare import trace

MS = 1_000_000


def run_directory(path: Path, steps: list[tuple[int, int]]) -> Path:
    """A run whose timing pass has steps of so many tokens and milliseconds."""
    path.mkdir()
    head = "pass,step,adapter,start_ns,wall_ns,loss,computed_token_cnt,token_cnt,trained_token_cnt"
    rows = [f"timing,{n},0,{n},{wall * MS},0,{tokens},{tokens},1" for n, (tokens, wall) in enumerate(steps)]
    (path / rundir.STEPS).write_text("\n".join([head, *rows, ""]), "utf-8")
    walls = sorted(wall for _, wall in steps)
    mean = sum(walls) / len(walls)
    summary = {
        "step_wall_ns": {"p50": walls[len(walls) // 2] * MS, "mean": mean * MS},
        "tokens_per_s": {"computed": sum(tokens for tokens, _ in steps) / sum(walls) * 1e3},
    }
    (path / rundir.SUMMARY).write_text(json.dumps(summary), "utf-8")
    (path / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT}), "utf-8")
    return path


@pytest.fixture
def run(run_command: Callable[..., Any]) -> Callable[..., Any]:
    return partial(run_command, "compare")


def test_padding_is_no_work(run: Callable[..., Any], tmp_path: Path) -> None:
    """The same sequences, in one of the runs padded to half as many tokens again."""
    plain, padded = (run_directory(tmp_path / name, [(1000, 100 + n % 3) for n in range(20)]) for name in "ab")
    for folder, computed in ((plain, 1.0), (padded, 1.5)):
        summary = rundir.read_summary(folder)
        real = summary["tokens_per_s"]["computed"]
        summary["tokens_per_s"] = {"computed": real * computed, "non_padding": real}
        (folder / rundir.SUMMARY).write_text(json.dumps(summary), "utf-8")
    steps = (padded / rundir.STEPS).read_text().replace(",0,1000,1000,", ",0,1500,1000,")
    (padded / rundir.STEPS).write_text(steps)
    said = run(plain, padded).out
    assert said.startswith("no difference") and "other work" not in said


def test_of_a_run_that_waits_in_every_other_step_the_mean_counts(run: Callable[..., Any], tmp_path: Path) -> None:
    even = run_directory(tmp_path / "even", [(1000, 100 + n % 3) for n in range(20)])
    waits = run_directory(tmp_path / "waits", [(1000, 98 if n % 2 else 300) for n in range(20)])
    saves = run_directory(tmp_path / "saves", [(1000, 220 if n % 4 == 3 else 97) for n in range(20)])
    assert run(even, waits).out.startswith("B is 1.97 x as slow as A: step 101.0 -> 199.0 ms (mean of 20 steps")
    assert run(even, saves).out.startswith("B is 1.27 x as slow as A")


@pytest.mark.parametrize("are_unique", [False, True])
def test_runs_are_compared_by_steps_of_as_many_tokens(
    are_unique: bool, run: Callable[..., Any], tmp_path: Path
) -> None:
    tokens = [500 + 37 * n if are_unique else 500 + 1000 * (n % 2) for n in range(20)]
    one = run_directory(tmp_path / "one", [(count, count // 5) for count in tokens])
    slower = run_directory(tmp_path / "slower", [(count, round(count / 5 * 1.1)) for count in tokens])
    same = run_directory(tmp_path / "same", [(count, count // 5) for count in tokens])
    assert run(one, slower, "--fail-above", "5%", code=8).out.startswith("B is 1.10 x as slow as A")
    assert run(one, same, "--fail-above", "5%").out.startswith("no difference")


def of_ranges(path: Path, names: dict[str, int], root: str = "step ", cold: int = 1, has_gpu: bool = True) -> Path:
    """Eight steps with a kernel of so many us in each range; the first `cold` times as long on the CPU."""
    events: list[dict[str, Any]] = []
    cpu, link, at = {"ph": "X", "pid": 1, "tid": 1}, 0, 10_000
    for step in range(8):
        start = at
        for name, length in names.items():
            link += 1
            args, own = {"correlation": link}, 50 * (cold if not step else 1)
            events += [
                cpu | {"cat": "user_annotation", "name": name, "ts": at + 1, "dur": own},
                cpu | {"cat": "cpu_op", "name": "aten::mm", "ts": at + 2, "dur": own - 10},
                cpu | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 3, "dur": 2, "args": args},
            ]
            gpu = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": f"gemm {name.split('.')[-1]}", "ts": at + 8}
            events += [gpu | {"dur": length, "args": args | {"device": 0, "stream": 7}}] if has_gpu else []
            at += own + length
        events.append(cpu | {"cat": "user_annotation", "name": f"{root}{step}", "ts": start, "dur": at - start})
        at += 5
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


LAYERS = {"layers.0.mlp": 40, "layers.1.mlp": 40}


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_of_each_kind_of_steps_those_are_listed_that_count(
    factor: float, database_of: Callable[..., Any], tmp_path: Path
) -> None:
    """Cold steps do not, and steps without the row have nothing of it."""
    database = database_of(of_ranges(tmp_path / "cold.json", LAYERS, cold=40))
    warm_cnt = database.rows("select count(*) filter (is_warm), count(*) from _compared_step")[0]
    assert 0 < warm_cnt[0] < warm_cnt[1]
    for view, measure in (("range_summary", "gpu_op_ns"), ("kernel_summary", "total_ns")):
        for spread in by_step.of_rows(database, view, measure).values():
            for kind in spread.scaled(factor).kinds:
                each = kind.each or ()
                assert (len(each), sum(each)) == (kind.with_cnt, pytest.approx(kind.value))
                assert sum(value**2 for value in each) == pytest.approx(kind.square)
            assert sum(kind.with_cnt for kind in spread.kinds) == spread.step_cnt == warm_cnt[0]


@pytest.mark.parametrize(
    ("names", "root"),
    [(LAYERS, "ProfilerStep#"), ({f"base_model.model.{name}": ns for name, ns in LAYERS.items()}, "step ")],
)
@pytest.mark.slow
def test_ranges_in_a_wrapper_are_those_without_it(
    names: dict[str, int], root: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    one = of_ranges(tmp_path / "one.json", LAYERS, "step ")
    said = run(one, of_ranges(tmp_path / "two.json", names | {next(iter(names)): 60}, root)).out
    assert "nothing in common" not in said and " gone" not in said and "most of all step/layers.0.mlp" in said
    assert "renamed" in said and "(+20.00 us)" in said


def test_a_run_that_did_not_end_well_is_compared_by_its_steps_and_said_to_be_one(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    whole = run_directory(tmp_path / "whole", [(1000, 100 + n % 3) for n in range(20)])
    cut = run_directory(tmp_path / "cut", [(1000, 50 + n % 3) for n in range(9)])
    (cut / rundir.SUMMARY).write_text(json.dumps({"step_cnt": 200}), "utf-8")
    ended = {"format": rundir.FORMAT, "status": "cancelled", "message": "pass timing: interrupted"}
    (cut / rundir.MANIFEST).write_text(json.dumps(ended), "utf-8")
    said = " ".join(run(whole, cut).out.split())
    assert said.startswith("B is 1.98 x as fast as A: step 101.0 -> 51.0 ms (median of 20 and 9 steps")
    assert (
        "B did not end well (cancelled: pass timing: interrupted): what it had measured until then is compared" in said
    )
    (cut / rundir.STEPS).unlink()
    said = " ".join(run(whole, cut).out.split())
    assert "no verdict on speed" in said and "interrupted): it has no steps without a profiler" in said


def test_runs_of_two_scripts_are_said_to_be_so(run: Callable[..., Any], tmp_path: Path) -> None:
    runs = [run_directory(tmp_path / name, [(1000, 100 + n % 3) for n in range(20)]) for name in ("a", "b")]
    scripts = ["one.py", "other.py"]
    for path, script in zip(runs, scripts, strict=True):
        manifest = {"format": rundir.FORMAT, "status": "ok", "command": ["python", f"/x/{script}", "--fast"]}
        (path / rundir.MANIFEST).write_text(json.dumps(manifest), "utf-8")
    assert "These ran different scripts (A one.py, B other.py)" in " ".join(run(*runs).out.split())
    assert "different scripts" not in run(runs[0], runs[0]).out


PATHS = st.lists(st.sampled_from(["a", "b", "a/c", "b/c", "a/c/d", "x"]), min_size=1, unique=True)


@given(paths=PATHS, wrapper=st.sampled_from(["model.", "base_model.model.", "_orig_mod.", ""]))
def test_each_range_has_one_other_name_and_no_range_two(paths: list[str], wrapper: str) -> None:
    wrapped = ["/".join(wrapper + part for part in path.split("/")) for path in paths]
    found = renamed.of_wrapped(paths, wrapped)
    assert found == {other: own for other, own in zip(wrapped, paths, strict=True) if other != own}
    assert not found.keys() & set(paths)


@given(paths=PATHS, is_first=st.booleans())
@example(paths=["a", "b/a"], is_first=True)
def test_steps_in_a_range_of_a_profiler_are_those_without_it(paths: list[str], is_first: bool) -> None:
    around = {f"ProfilerStep/{path}": path for path in paths}
    inner = ["ProfilerStep", *around]
    if is_first:
        assert renamed.of_wrapped(paths, inner) == around
    else:
        assert renamed.of_wrapped(inner, paths) == {path: other for other, path in around.items()}


@pytest.mark.slow
def test_only_ranges_that_match_add_up_once(run: Callable[..., Any], tmp_path: Path) -> None:
    one, two = (of_ranges(tmp_path / f"{n}.json", LAYERS | {"layers.1.mlp": ns}) for n, ns in (("a", 40), ("b", 60)))
    rows = list(csv.DictReader(io.StringIO(run(one, two, "--only", ".", "--csv").out)))
    assert (rows[0]["path"], float(rows[0]["a.json"]), float(rows[0]["b.json"])) == ("(total)", 80_000, 100_000)


@pytest.mark.slow
def test_work_that_was_not_recorded_is_not_nothing(run: Callable[..., Any], tmp_path: Path) -> None:
    one = of_ranges(tmp_path / "one.json", LAYERS)
    said = run(one, of_ranges(tmp_path / "two.json", LAYERS, has_gpu=False), "--fail-above", "5%").out
    assert "CPU time (wall_ns of range_summary)" in said and "No GPU work of B is recorded" in said


@pytest.mark.slow
def test_cold_steps_that_cannot_be_left_out_fail_no_gate(run: Callable[..., Any], tmp_path: Path) -> None:
    one, cold = (of_ranges(tmp_path / f"{n}.json", LAYERS, cold=times) for n, times in (("one", 1), ("cold", 40)))
    ended = run(one, cold, "--by", "operator", "--measure", "self_cpu_ns", "--fail-above", "5%")
    assert "cold ones (1 of B) too" in ended.out
    assert "above one.json, with cold steps in it: not counted" in ended.err


@pytest.mark.slow
def test_profilers_that_cost_differently_make_no_run_slower(
    synthetic_trace: Callable[..., Path], run: Callable[..., Any]
) -> None:
    said = run(synthetic_trace("nsys", steps=5), synthetic_trace("kineto", steps=5)).out
    assert said.startswith("no verdict: A was recorded by nsys, B by torch.profiler")


@pytest.mark.parametrize("name", ["unit", "measure", "step", "path"])
def test_an_input_may_be_called_as_a_column_is(name: str, run: Callable[..., Any], tmp_path: Path) -> None:
    one = run_directory(tmp_path / name, [(1000, 100 + n % 3) for n in range(10)])
    two = run_directory(tmp_path / "other", [(1000, 120 + n % 3) for n in range(10)])
    said = run(one, two).out
    line = next(line for line in said.splitlines() if line.startswith("step, median"))
    assert f"A  ./{name} " in said and "101.0  121.0" in line


def test_no_column_is_called_as_an_input_may_be() -> None:
    keys = {key for how in comparisons.COMPARISONS.values() for key in how.keys}
    assert keys | {"measure", "unit", compared.RENAMED_TO} == compared.TAKEN
    assert runs.names([Path("/x/step"), Path("/x/y")]) == ["./step", "y"]


def test_what_is_no_difference_is_marked_where_there_is_no_room_for_spreads(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    one = run_directory(tmp_path / "one", [(1000, 90 + 7 * n % 23) for n in range(12)])
    two = run_directory(tmp_path / "two", [(1000, 91 + 5 * n % 23) for n in range(12)])
    assert "no difference" in next(line for line in run(one, two).out.splitlines() if line.startswith("step, median"))


def test_runs_of_another_mix_of_tokens_are_judged_by_the_token(run: Callable[..., Any], tmp_path: Path) -> None:
    one = run_directory(tmp_path / "one", [(1000, 100 + n % 3) if n % 4 else (2000, 200 + n % 3) for n in range(20)])
    two = run_directory(tmp_path / "two", [(2000, 200 + n % 3) if n % 4 else (1000, 100 + n % 3) for n in range(20)])
    assert run(one, two).out.startswith("no difference found: tokens/s")


def test_outermost_ranges_alone_are_not_called_alike() -> None:
    assert renamed.of_wrapped(["prefill"], ["decode"]) == {}


@pytest.mark.parametrize(("added", "is_seen"), [(0, False), (150, True)])
@pytest.mark.slow
def test_of_rows_too_what_comes_in_turns_is_no_noise(
    added: int, is_seen: bool, run: Callable[..., Any], tmp_path: Path
) -> None:
    """Every other step has twice as much: pairs of steps are alike, and what all of them have more is seen."""
    paths = []
    for number, more in enumerate((0, added)):
        walls = [wall + more + (7 * step + 5 * number) % 11 for step, wall in enumerate([1000, 2000] * 6)]
        paths.append(trace(tmp_path / f"{number}.json", walls, gemm=500))
    rows = list(csv.DictReader(io.StringIO(run(*paths, "--by", "kernel", "--csv").out)))
    assert [row["1.json is"] == "" for row in rows] == [is_seen, is_seen]


@pytest.mark.parametrize("path", corpus_params("nsys/llm-training-autograd*.sqlite"))
def test_a_step_without_a_range_has_the_kernels_that_step_summary_says(
    path: Path, database_of: Callable[[Path], Any]
) -> None:
    database = database_of(path)
    how = comparisons.COMPARISONS["kernel"]
    rows, _ = changes.compare({"a": database, "b": database}, how)
    ((kernel_ns, warm, found_by),) = database.rows(
        """select sum(kernel_ns), count(*), any_value(found_by) from step_summary
        where start_ns >= (select coalesce(min(first_step_ns), 0) from _steady_time)"""
    )
    assert found_by == "period"
    assert rows[0]["a"] == pytest.approx(kernel_ns / warm, rel=1e-6)
