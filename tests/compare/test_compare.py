"""Traces side by side: what changed, appeared and vanished, and the gate for CI."""

import csv
import io
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import loops
import numpy as np
import pytest
import writers
from conftest import CORPUS, ROOT, absent, quick
from lorabench import rundir, sql
from lorabench.errors import UsageError
from lorabench.reports.comparison import comparisons, run_steps, spread
from lorabench.reports.comparison.by_step import of_rows
from lorabench.reports.run import outcome_text
from simulated_gpu import Gpu, Training
from simulated_ranks import Job, simulate


def trace(path: Path, steps: int | list[int], between: Sequence[int] = (0,), **kernels: int) -> Path:
    """Steps of 1000 µs (or as listed) with a kernel of so many µs each, launched in a range of its name; between them
    it takes so many µs, in turn.
    """
    events: list[dict[str, Any]] = []
    link = 0
    walls = steps if isinstance(steps, list) else [1000] * steps
    for step, wall in enumerate(walls):
        begin = 10_000 + sum(walls[:step]) + sum(between[n % len(between)] for n in range(step))
        cpu = {"ph": "X", "pid": 1, "tid": 1}
        events.append(cpu | {"cat": "user_annotation", "name": f"step {step}", "ts": begin, "dur": wall})
        for number, (name, duration) in enumerate(kernels.items()):
            link += 1
            at = begin + 10 * number
            events.append(cpu | {"cat": "user_annotation", "name": f"range {name}", "ts": at, "dur": 8})
            args = {"correlation": link}
            events.append(
                cpu | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 1, "dur": 2, "args": args}
            )
            gpu = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": name, "ts": at + 5}
            gpu["dur"] = duration * wall // 1000
            events.append(gpu | {"args": args | {"device": 0, "stream": 7}})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


@pytest.fixture
def run(run_command: Callable[..., Any]) -> Callable[..., Any]:
    return partial(run_command, "compare")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two that no test changes, so that they are read once."""
    folder = tmp_path_factory.mktemp("two")
    return [
        trace(folder / "a.json", 2, gemm=100, copy=10, old=5),
        trace(folder / "b.json", 4, gemm=150, copy=10, new=7),
    ]


def table(said: Any) -> dict[str, dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(said.out)))
    return {next(iter(row.values())): row for row in rows}


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_total_of_nested_ranges_is_the_work_once(run: Callable[..., Any], two: list[Path]) -> None:
    found = table(run(*two, "--csv"))
    assert found["(total)"]["a.json"] == found["step"]["a.json"] == "115000.0"
    assert found["step/range gemm"]["b.json Δ"] == "50000.0"
    wall = table(run(*two, "--measure", "wall_ns", "--csv"))
    assert wall["(total)"]["a.json"] == wall["step"]["a.json"] == "1000000.0"


@pytest.mark.slow
def test_steps_show_their_median_first(run: Callable[..., Any], two: list[Path]) -> None:
    found = table(run(*two, "--by", "step", "--csv"))
    assert list(found) == ["(median)", "2", "3", "0", "1"] and found["2"]["b.json is"] == "new"
    assert found["(median)"]["b.json Δ frac"] == "0.0"


@pytest.mark.slow
def test_a_loop_that_waits_in_every_other_step_is_judged_by_its_mean(run: Callable[..., Any], tmp_path: Path) -> None:
    """The loader is slow, not the steps: their medians are alike, what they take is not."""
    waiting = trace(tmp_path / "waiting.json", [1000] * 40, between=[0, 0, 3000], gemm=100)
    fast = trace(tmp_path / "fast.json", [1000] * 40, gemm=100)
    said = run(waiting, fast).out.splitlines()
    assert said[0].startswith("B is 1.98") and "most of it between the steps" in " ".join(said[:2])
    assert "takes 9" in run(fast, waiting, "--fail-above", "5%", code=8).err
    run(waiting, fast, "--fail-above", "5%")
    run(fast, waiting, "--by", "kernel", "--fail-above", "5%")


def test_three_inputs_are_each_held_against_the_first(run: Callable[..., Any], two: list[Path], tmp_path: Path) -> None:
    third = trace(tmp_path / "c.json", 1, gemm=50)
    found = table(run(*two, third, "--by", "kernel", "--csv"))
    assert (found["gemm"]["b.json Δ frac"], found["gemm"]["c.json Δ frac"]) == ("0.5", "-0.5")


@pytest.mark.parametrize(
    ("words", "code"),
    quick(
        3,
        [
            (["--by", "kernel", "--fail-above", "50%"], 0),
            (["--by", "kernel", "--fail-above", "0.4"], 8),
            (["--by", "kernel", "--only", "copy", "--fail-above", "0%"], 0),
            (["--by", "kernel", "--only", "^gemm$", "--fail-above", "49%"], 8),
            (["--by", "kernel", "--only", "new", "--fail-above", "1000%"], 8),
            (["--by", "step", "--fail-above", "1%"], 0),
        ],
    ),
)
@pytest.mark.slow
def test_the_gate_looks_at_the_first_row(run: Callable[..., Any], two: list[Path], words: list[str], code: int) -> None:
    said = run(*two, *words, code=code)
    assert ("is allowed" in said.err or "has nothing" in said.err) == bool(code)
    assert "(total)" in said.out or "(median)" in said.out


def exchanging(path: Path, product: int, waits: Sequence[int]) -> Path:
    """Steps of a product and an exchange of so many us."""
    made = loops.Loop()

    def step(wait: int) -> None:
        made.kernel(loops.GEMM, product)
        made.kernel(loops.REDUCE, wait)
        made.synchronise()

    for number, wait in enumerate(waits):
        made.inside(f"step {number}", partial(step, wait))
    return made.write(path)


@pytest.mark.parametrize("by", ["class", "kernel"])
@pytest.mark.parametrize(("after", "grown"), quick(2, [(1300, True), (1300, False), (1010, True)]))
@pytest.mark.first(1)
@pytest.mark.slow
def test_what_grew_by_more_than_its_noise_counts_beside_what_is_noise(
    by: str, after: int, grown: bool, run: Callable[..., Any], tmp_path: Path
) -> None:
    """Communication differs from step to step; products do not, and are slower in all steps, or in none."""
    waits = (100, 900, 150, 1400, 120, 700)
    longer = [wait if grown else wait + 300 for wait in waits]
    both = [
        exchanging(tmp_path / "a.json", 1000, waits),
        exchanging(tmp_path / "b.json", after if grown else 1000, longer),
    ]
    fails = grown and after > 1010
    said = run(*both, "--by", by, "--fail-above", "15%", code=8 if fails else 0)
    assert ("in rows that grew by more than the noise of the steps; 15.0% is allowed" in said.err) == fails
    verdict = " ".join(said.out.split("GPU time", 2)[1].split())
    assert "no difference found" in verdict and ("but not in" in verdict) == grown


def test_run_directories_have_a_gate_of_their_own(run: Callable[..., Any], tmp_path: Path) -> None:
    runs = []
    for name, step, tokens in (("a", 10e6, 100.0), ("b", 11e6, 89.0)):
        runs.append(tmp_path / name)
        runs[-1].mkdir()
        summary = {"step_wall_ns": {"p50": step}, "tokens_per_s": {"computed": tokens}}
        (runs[-1] / rundir.SUMMARY).write_text(json.dumps(summary), "utf-8")
        (runs[-1] / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT}), "utf-8")
    run(*runs, "--fail-above", "15%")
    assert "step, median of b is 10.0% worse; 5.0% is allowed" in run(*runs, "--fail-above", "5%", code=8).err
    assert "10.0% worse; 5.0% is allowed" in run(*runs, "--fail-above", "5", code=8).err, "a bare 5 is per cent"
    assert "10.0% worse; 5.0% is allowed" in run(*runs, "--fail-above", "0.05", code=8).err
    assert (
        "nothing that is judged (time, launches, memory) grew by more than 15.0%"
        in run(*runs, "--fail-above", "15").err
    )
    assert "tokens computed, mean of b is 11.0% worse" in run(*runs, "--fail-above", "10.5%", code=8).err
    run(*reversed(runs), "--fail-above", "0")


@pytest.mark.slow
def test_of_a_run_directory_one_recording_counts(run: Callable[..., Any], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        trace(tmp_path / name / "trace.json", 1, gemm=100)
        for part in ("trace.json.gz", "memory.json.gz"):
            (tmp_path / name / part).write_bytes((tmp_path / name / "trace.json").read_bytes())
        (tmp_path / name / "trace.json").unlink()
    found = table(run(tmp_path / "a", tmp_path / "b", "--by", "kernel", "--csv"))
    assert found["gemm"]["a"] == "100000.0"


@pytest.mark.slow
def test_the_verdict_comes_first(run: Callable[..., Any], tmp_path: Path) -> None:
    slow = trace(tmp_path / "slow.json", [900, 1000, 1000, 1100], gemm=100)
    fast = trace(tmp_path / "fast.json", [490, 500, 500, 510], gemm=100)
    said = run(slow, fast, "--by", "kernel")
    verdict = said.out.split("\nGPU time in kernels (")[0].replace("\n", " ")
    assert verdict.startswith(
        "B is 2.00 x as fast as A: step 1.000 -> 0.500 ms (median of 4 steps, profiled; spread A 20 %, B 4.0 %)"
    )
    assert "GPU time in kernels of B: 100.0 -> 50.0 us per step (-50.0%), most of all gemm (-50.00 us)" in verdict
    assert "B is 2.00 x as slow as A: step" in run(fast, slow).out
    assert run(slow, fast, "--csv").err.startswith("B is 2.00 x as fast"), "rows alone are data"


@pytest.mark.slow
def test_a_difference_within_the_spread_is_none(run: Callable[..., Any], tmp_path: Path) -> None:
    one = trace(tmp_path / "a.json", [800, 900, 1000, 1100, 1200], gemm=100)
    other = trace(tmp_path / "b.json", [850, 950, 1050, 1150, 1250], gemm=100)
    words = (one, other, "--by", "kernel", "--fail-above", "1%")
    said = run(*words)
    assert said.out.startswith("no difference found: steps of 1.000 and 1.050 ms (median of 5 steps")
    assert "they differ too much to tell" in " ".join(said.out.split())
    assert "of b.json is 5.0% above a.json, within the noise of the steps: not counted" in said.err
    gemm = table(run(*words, "--csv"))["gemm"]
    assert (gemm["a.json spread"], gemm["b.json is"], gemm["b.json Δ"]) == ("20000.0", "no difference", "5000.0")
    run(*words, "--totals", code=8)
    few = [
        trace(tmp_path / f"{name}.json", walls, gemm=100) for name, walls in (("c", [800, 1200]), ("d", [850, 1250]))
    ]
    told = " ".join(run(*few, "--fail-above", "1%", "--by", "kernel").out.split())
    assert told.startswith("no difference found: steps of 1.000 and 1.050 ms, one among the others' (median of 2 steps")
    assert "no spread is known of fewer than 3 steps" in told


@pytest.mark.parametrize(
    ("walls", "is_told"), [([1000, 1100], False), ([1010], False), ([1300, 1310], True), ([700], True)]
)
@pytest.mark.slow
def test_of_too_few_steps_those_that_lie_among_the_others_are_no_difference(
    walls: list[int], is_told: bool, run: Callable[..., Any], tmp_path: Path
) -> None:
    many = trace(tmp_path / "a.json", [900, 1020, 1200, 950, 1100], gemm=100)
    few = trace(tmp_path / "b.json", walls, gemm=100)
    for pair in ((many, few), (few, many)):
        assert (not run(*pair).out.startswith("no difference found")) is is_told


@pytest.mark.slow
def test_an_input_of_other_work_has_nothing_in_common(run: Callable[..., Any], tmp_path: Path) -> None:
    one, other = trace(tmp_path / "a.json", 1, gemm=100), trace(tmp_path / "b.json", 1, conv=100)
    assert run(one, other, "--by", "kernel").out.startswith("nothing in common: not one kernel of A is in B\n")
    assert "nothing in common" not in run(one, other).out, "both have the range step"


@pytest.mark.slow
def test_recorders_and_profiling_are_said(
    run: Callable[..., Any], synthetic_trace: Callable[..., Path], two: list[Path]
) -> None:
    said = run(synthetic_trace("nsys"), two[0]).out
    assert "different profilers" in said and "(nsys, " in said and "(torch.profiler, 2 steps)" in said
    assert "different profilers" not in run(*two).out and "profiled" in run(*two).out


@pytest.mark.slow
def test_of_ranks_of_one_job_none_is_called_the_faster(run: Callable[..., Any], tmp_path: Path) -> None:
    """The one that the others wait for has the shortest kernels of communication."""
    ranks = simulate(Job(ranks=4, ranks_per_host=4, idle={(3, step): 2_000_000 for step in range(6)})).write(tmp_path)
    said = run(ranks[0], ranks[3]).out
    assert said.startswith("A and B are ranks 0 and 3 of one job, which wait for each other: steps of ")
    assert "as fast as" not in said and "as slow as" not in said
    assert "may be the one that the" in said
    assert "of one job" not in run(ranks[0], ranks[0]).out


def test_gpus_that_differ_are_said_and_cold_steps_do_not_count(run: Callable[..., Any], tmp_path: Path) -> None:
    files = [trace(tmp_path / f"{name}.json", [5000, *[1000] * 20], gemm=10) for name in "ab"]
    for path, device in zip(files, ("NVIDIA H100", "NVIDIA L4"), strict=True):
        content = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": device}], **content}), "utf-8")
    said = run(*files).out
    assert "(torch.profiler, 21 steps, 1 of them cold, NVIDIA H100)" in said
    assert "The GPUs differ: NVIDIA H100 and NVIDIA L4." in said
    assert "median of 20 steps" in said


def test_columns_are_letters_and_the_unit_is_said_once(run: Callable[..., Any], two: list[Path]) -> None:
    lines = run(*two, "--by", "kernel").out.splitlines()
    assert "GPU time in kernels (kernel_ns of kernel_summary) per step, us" in lines
    assert "  A  a.json  (torch.profiler, 2 steps)" in lines
    header = next(line for line in lines if line.startswith("kernel_name"))
    assert header.split() == ["kernel_name", "A", "B", "Δ", "Δ", "%", "share", "%", "spread", "B"]
    gemm = next(line for line in lines if line.startswith("gemm"))
    assert gemm.split() == ["gemm", "100.0", "150.0", "+50.0", "+50.0", "80.6", "0.0", "%"], "of 50 + 7 + 5"
    assert max(map(len, lines)) <= 120


@pytest.mark.slow
def test_rows_that_are_nothing_everywhere_are_left_out(run: Callable[..., Any], tmp_path: Path) -> None:
    one, other = (trace(tmp_path / name, 1, gemm=100) for name in ("a.json", "b.json"))
    assert list(table(run(one, other, "--csv"))) == ["(total)", "step", "step/range gemm"]
    nothing = table(run(one, other, "--measure", "self_launch_cnt", "--csv"))
    assert list(nothing) == ["(total)", "step/range gemm"], "step launches nothing by itself"


def test_growth_from_next_to_nothing_is_no_fraction(run: Callable[..., Any], tmp_path: Path) -> None:
    one = trace(tmp_path / "a.json", 1, gemm=100_000, tiny=1)
    other = trace(tmp_path / "b.json", 1, gemm=100_000, tiny=5000)
    tiny = table(run(one, other, "--by", "kernel", "--csv"))["tiny"]
    assert (tiny["b.json Δ"], tiny["b.json Δ frac"], tiny["b.json is"]) == ("4999000.0", "", "")


def test_rows_can_be_limited(run: Callable[..., Any], two: list[Path]) -> None:
    assert list(table(run(*two, "--by", "kernel", "--csv", "--limit", "2"))) == ["(total)", "gemm"]
    assert "3 more rows: --limit 5" in run(*two, "--by", "kernel", "--limit", "2").out


@pytest.mark.slow
def test_a_step_is_as_long_as_the_gpu_takes_for_it(run: Callable[..., Any], tmp_path: Path) -> None:
    """The CPU enqueues steps faster than the GPU computes them, and in one trace it is held up by Python."""
    paths = []
    for name, kernel, host in (("a", 400_000, 12_000), ("b", 400_000, 2_000), ("c", 800_000, 2_000)):
        paths.append(tmp_path / f"{name}.sqlite")
        writers.write_nsys(paths[-1], [Training(kernel=kernel, host=host).run(Gpu(is_pinned=True)).timeline])
    assert run(paths[0], paths[1]).out.startswith("no difference: step")
    assert run(paths[0], paths[2]).out.startswith("B is 1.99 x as slow as A: step")
    assert run(paths[0], paths[2], "--by", "step").out.startswith("B is 1.99 x as slow as A: step")


@pytest.mark.slow
def test_the_verdict_names_the_phase_that_a_step_became_longer_in(run: Callable[..., Any], tmp_path: Path) -> None:
    paths = []
    for name, load, kernel in (("a", 0, 20_000), ("b", 9_000_000, 20_000), ("c", 0, 300_000)):
        paths.append(tmp_path / f"{name}.sqlite")
        writers.write_nsys(paths[-1], [Training(kernel=kernel, load=load).run(Gpu()).timeline])
    slower, faster, computing = (run(*pair).out.splitlines() for pair in (paths[:2], paths[1::-1], paths[::2]))
    assert "most of it data (+9.000 ms)" in " ".join(slower[:2])
    assert "most of it data (-9.000 ms)" in " ".join(faster[:2])
    assert "most of it" not in computing[0] and "most of all step/" in " ".join(computing[1:4])


def test_compiled_graphs_are_compared_by_their_order(run: Callable[..., Any], tmp_path: Path) -> None:
    """torch.compile names them by a hash, which every change of the program changes."""
    paths = []
    for name, kernels in (("a", {"q" * 40: 100, "r" * 40: 50}), ("b", {"z" * 40: 100, "e" * 40: 75})):
        paths.append(trace(tmp_path / f"{name}.json", 3, **kernels))
        text = paths[-1].read_text("utf-8")
        for graph in kernels:
            text = text.replace(f"range {graph}", f"## Call CompiledFxGraph f{graph} ##")
        paths[-1].write_text(text, "utf-8")
    rows = table(run(*paths, "--csv"))
    assert {path: row["b.json Δ"] for path, row in rows.items() if "Graph" in path} == {
        "step/## Call CompiledFxGraph 1 ##": "0.0", "step/## Call CompiledFxGraph 2 ##": "25000.0",
    }  # fmt: skip


@pytest.mark.parametrize("ranges", [(0, 1), (1, 1), (2, 2)])
@pytest.mark.first(1)
def test_recordings_of_a_cpu_are_compared_by_what_both_have(
    ranges: tuple[int, int], tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    """Where one has no range, or each one around everything, operators say what changed."""
    paths = []
    for name, count, length in zip("ab", ranges, (400, 200), strict=True):
        common = {"ph": "X", "pid": 1, "tid": 1}
        events = [common | {"cat": "cpu_op", "name": f"aten::{op}", "ts": 10 + 500 * n, "dur": length}
                  for n, op in enumerate(("mm", "add"))]  # fmt: skip
        around = [(5, 995)] if count == 1 else [(5 + 500 * n, 495) for n in range(count)]
        events += [common | {"cat": "user_annotation", "name": f"part{n}", "ts": start, "dur": wall}
                   for n, (start, wall) in enumerate(around)]  # fmt: skip
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    said = run_command("compare", *paths).out
    assert ("operator_summary" in said) is (ranges != (2, 2))
    if ranges != (2, 2):
        assert "0.80 -> 0.40" in said or "800.0 -> 400.0" in said, said


@pytest.mark.slow
def test_without_ranges_that_hold_the_work_rows_are_kernels(
    run: Callable[..., Any], two: list[Path], tmp_path: Path
) -> None:
    bare = []
    for path in two:
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
        kept = [event for event in events if event["cat"] != "user_annotation" or event["name"] == "range copy"]
        bare.append(tmp_path / f"bare-{path.name}")
        bare[-1].write_text(json.dumps({"traceEvents": kept}), "utf-8")
    assert list(table(run(*two, "--csv")))[1].startswith("step")
    assert set(table(run(*bare, "--csv"))) == {"(total)", "gemm", "copy", "old", "new"}
    assert "Ranges hold less than half of the GPU time" in run(*bare).out
    assert list(table(run(*bare, "--csv", "--by", "range"))) == ["(total)", "range copy"], "unless they are asked for"
    assert "is none; for traces compare range" in run(*bare, "--by", "summary", code=2).err


def test_markdown_takes_no_name_for_markup(run: Callable[..., Any], tmp_path: Path) -> None:
    name = "a|b<img src=x>*_`@me"
    one, other = trace(tmp_path / "a.json", 1, **{name: 100}), trace(tmp_path / "b.json", 1, **{name: 150})
    said = run(one, other, "--by", "range", "--markdown").out
    (row,) = (line for line in said.splitlines() if line.startswith("| step") and "img" in line)
    assert row.split(" | ")[0] == r"| step/range a\|b\<img src=x\>\*\_\`\@me"
    said = run(one, other, "--by", "kernel", "--markdown").out
    assert r"| a\|b | 100.0 | 150.0 | +50.0 | +50.0 | 100.0 |" in said, "a kernel's short name"
    assert "|---|---:|---:|---:|---:|---:|" in said and said.startswith("**")
    assert "choose one of" in run(one, other, "--markdown", "--csv", code=2).err


@pytest.mark.slow
def test_a_kernel_with_another_name_in_the_same_place_is_one_row(run: Callable[..., Any], tmp_path: Path) -> None:
    def of(path: Path, kernels: dict[str, tuple[str, int]]) -> Path:
        """Kernels that are launched in ranges of other names than theirs."""
        whole = json.loads(trace(path, 3, **{name: time for name, (_, time) in kernels.items()}).read_text("utf-8"))
        for event in whole["traceEvents"]:
            if (name := event["name"].removeprefix("range ")) in kernels and event["name"] != name:
                event["name"] = f"range {kernels[name][0]}"
        path.write_text(json.dumps(whole), "utf-8")
        return path

    one = of(tmp_path / "a.json", {"gemm_64x64": ("mm", 100), "gemm_32x32": ("mm", 20), "kept": ("mm", 5),
                                   "add_old": ("add", 10), "conv_a": ("conv", 9), "conv_b": ("conv", 8)})  # fmt: skip
    other = of(tmp_path / "b.json", {"gemm_16x16": ("mm", 30), "gemm_128x64": ("mm", 80), "kept": ("mm", 5),
                                     "add_new": ("sub", 10), "conv_c": ("conv", 9)})  # fmt: skip
    found = table(run(one, other, "--by", "kernel", "--csv"))
    assert (found["gemm_64x64"]["renamed_to"], found["gemm_64x64"]["b.json Δ"]) == ("gemm_128x64", "-20000.0")
    assert (found["gemm_32x32"]["renamed_to"], found["gemm_32x32"]["b.json Δ"]) == ("gemm_16x16", "10000.0")
    assert found["kept"]["renamed_to"] == "" and "gemm_16x16" not in found
    assert found["add_old"]["b.json is"] == "gone" and found["add_new"]["b.json is"] == "new", "in other ranges"
    assert {found[name]["renamed_to"] for name in ("conv_a", "conv_b", "conv_c")} == {""}, "two are not one"
    for name in ("a.json", "b.json"):
        rows = [float(row[name] or 0) for key, row in found.items() if key != "(total)"]
        assert sum(rows) == float(found["(total)"][name])
    assert found["(total)"]["b.json"] == "134000.0"
    lines = run(one, other, "--by", "kernel").out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("gemm_64x64"))
    assert " renamed " in lines[place] and lines[place + 1] == "    -> gemm_128x64"
    assert "| gemm\\_128x64 |" in run(one, other, "--by", "kernel", "--markdown").out


@pytest.mark.slow
def test_a_mean_that_one_step_makes_is_said_to_be_of_few_steps(run: Callable[..., Any], tmp_path: Path) -> None:
    one = trace(tmp_path / "one.json", [1000, 1000, 1010, 9000, 1000, 990, 1000], gemm=500)
    even = trace(tmp_path / "even.json", [1000, 1010, 990, 1000, 1000, 1000, 1000], gemm=500)
    asked = ("--by", "kernel", "--csv")
    assert table(run(one, even, *asked))["gemm"]["even.json is"] == "in few steps"
    assert run(one, even, "--by", "kernel", "--fail-above", "5%").out
    assert "few steps, far out, make it" in run(one, even, "--by", "kernel").out.replace("\n", " ")


def with_evaluation(path: Path, is_eval: list[bool], gemm: int, backward: int) -> Path:
    """Steps that train or evaluate, with kernels of so many µs in forward and backward, a little unlike."""
    events: list[dict[str, Any]] = []
    for number, evaluates in enumerate(is_eval):
        at, off = number * 10_000, number * 7 % 5
        parts = [("forward", 100, gemm + off)] + ([] if evaluates else [("backward", 4_000, backward + off)])
        whole = {"cat": "user_annotation", "name": f"step {number}", "ts": at, "dur": 9_900}
        events.append({"ph": "X", "pid": 1, "tid": 1} | whole)
        for name, begin, length in parts:
            args = {"correlation": 10 * number + (name == "backward"), "stream": 7, "device": 0}
            cpu, at_cpu = {"ph": "X", "pid": 1, "tid": 1}, at + begin
            events += [
                cpu | {"cat": "user_annotation", "name": name, "ts": at_cpu, "dur": length + 300},
                cpu | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at_cpu + 10, "dur": 10, "args": args},
                {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": f"of_{name}", "ts": at_cpu + 100}
                | {"dur": length, "args": args},
            ]
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    return path


@pytest.mark.slow
def test_what_other_shares_of_evaluation_change_is_no_difference(run: Callable[..., Any], tmp_path: Path) -> None:
    none = with_evaluation(tmp_path / "none.json", [False] * 10, 2_000, 3_000)
    some = with_evaluation(tmp_path / "some.json", [step % 5 == 4 for step in range(10)], 2_000, 3_000)
    for one, other in ((none, some), (some, none)):
        found = table(run(one, other, "--csv"))
        name = f"{other.name} is"
        assert {found[row][name] for row in ("(total)", "step/backward")} == {"other steps"}
        assert found["step/forward"][name] in ("", "no difference")
        said = run(one, other, "--fail-above", "5%").out.replace("\n", " ")
        assert "another share of its steps only evaluates" in said
        assert f"{0 if one is none else 2} of 10 in A, {2 if one is none else 0} of 10 in B" in said
    assert "as other steps evaluate: not counted" in run(some, none, "--fail-above", "5%").err.replace("\n", " ")
    slower = with_evaluation(tmp_path / "slower.json", [False] * 10, 2_000, 3_600)
    found = table(run(some, slower, "--csv"))
    assert {found[row]["slower.json is"] for row in ("(total)", "step/backward")} == {""}, "this one is a change"
    assert "is allowed" in run(some, slower, "--fail-above", "5%", code=8).err.replace("\n", " ")


def run_directory(path: Path, walls: list[int], profiled: int) -> Path:
    """A run whose timing pass has steps of two tasks each, with a slower pass under a profiler."""
    path.mkdir()
    steps = [f"timing,{n},{a},{n}{a},{wall // 2},0,1,1,1" for n, wall in enumerate(walls) for a in (0, 1)]
    steps += [f"torch,{n},0,{n},{profiled},0,1,1,1" for n in range(9)]
    head = "pass,step,adapter,start_ns,wall_ns,loss,computed_token_cnt,token_cnt,trained_token_cnt"
    (path / rundir.STEPS).write_text("\n".join([head, *steps, ""]), "utf-8")
    median = sorted(walls)[len(walls) // 2]
    summary = {"step_wall_ns": {"p50": median}, "tokens_per_s": {"computed": 1e9 / median}}
    (path / rundir.SUMMARY).write_text(json.dumps(summary), "utf-8")
    (path / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT}), "utf-8")
    return path


def test_runs_are_judged_by_their_timing_pass_alone(run: Callable[..., Any], tmp_path: Path) -> None:
    one = run_directory(tmp_path / "one", [9_000_000, 10_000_000, 11_000_000], 70_000_000)
    same = run_directory(tmp_path / "same", [9_500_000, 10_500_000, 11_500_000], 10_000_000)
    fast = run_directory(tmp_path / "fast", [4_900_000, 5_000_000, 5_100_000], 90_000_000)
    said = run(one, fast).out.replace("\n", " ")
    assert said.startswith(
        "B is 2.00 x as fast as A: step 10.00 -> 5.00 ms (median of 3 steps, timing pass, no profiler"
    )
    assert "step, median           ms    10.00  5.00  -5.00   -50.0    20.0 %     4.0 %" in run(one, fast).out
    close = run(one, same, "--fail-above", "2%")
    assert close.out.startswith("no difference found: steps of 10.00 and 10.50 ms (median of 3 steps")
    assert "step, median of same is 5.0% worse, within the noise of the steps: not counted" in close.err
    raw = table(run(one, fast, "--csv"))["step, median"]
    assert (raw["unit"], raw["one"], raw["one spread"], raw["fast Δ frac"]) == ("ns", "10000000.0", "2000000.0", "-0.5")


def test_runs_that_are_no_further_apart_than_their_steps_vary_are_to_be_repeated(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """A busy machine puts two runs of one program as far apart, however many steps say so."""
    walls = [8_000_000 + 200_000 * (7 * n % 20) for n in range(40)]
    one = run_directory(tmp_path / "one", walls, 10_000_000)
    slower = run_directory(tmp_path / "slower", [wall * 6 // 5 for wall in walls], 10_000_000)
    other = run_directory(tmp_path / "other", [2 * wall for wall in walls], 10_000_000)
    said = " ".join(run(one, slower).out.split())
    assert said.startswith("B is 1.2") and "and so may runs of one program: repeat both to be sure" in said
    assert "repeat" not in run(one, other).out


def of_tokens(path: Path, spec: dict[str, Any], wall: int, tokens: int, ranges: float) -> Path:
    """A run whose steps take so long for so many tokens, one in ten of them a tenth longer."""
    run_directory(path, [wall] * 9 + [wall * 11 // 10], 7 * wall)
    mean = wall * 1.01
    summary = {
        "step_wall_ns": {"p50": wall, "mean": mean}, "tokens_per_s": {"computed": tokens / mean * 1e9},
        "overhead_frac": {"ranges": ranges},
    }  # fmt: skip
    (path / rundir.SUMMARY).write_text(json.dumps(summary), "utf-8")
    (path / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT, "spec": spec}), "utf-8")
    return path


@pytest.mark.parametrize("ranges", [0.3, 0.004, -0.004, -0.2])
@pytest.mark.parametrize("torch", [-0.3, 0.7])
@pytest.mark.parametrize("is_busy", [False, True])
def test_costs_of_profilers_are_no_more_than_steps_can_tell(
    ranges: float, torch: float, is_busy: bool, tmp_path: Path
) -> None:
    steps = [40, 60, 90, 200, 300] if is_busy else [40, 41, 42, 43, 44]
    run = run_directory(tmp_path / "run", [step * 1_000_000 for step in steps], 1)
    summary = rundir.read_summary(run) | {"overhead_frac": {"ranges": ranges, "torch": torch}}
    said = " ".join(outcome_text.costs(run, summary))
    assert ("is the machine busy?" in said) is is_busy
    assert ("are mostly the profiler's" in said) is (torch > 0.5 and not is_busy)
    assert (f"torch {torch:+.1%} (within" in said) is (torch > 0 and is_busy)
    assert (f"ranges {ranges:+.1%} (within" in said) is (ranges >= 0 and (ranges < 0.02 or is_busy))
    assert ("torch not known: steps vary too much" in said) is (torch < 0)
    assert ("ranges not known: steps vary too much" in said) is (ranges == -0.2 or (ranges < 0 and is_busy))
    assert ("ranges too small to measure" in said) is (ranges == -0.004 and not is_busy)
    assert "-" not in said.split("step:")[1].replace("not known", "")


def test_one_step_is_not_said_to_vary(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run", [40_000_000], 1)
    said = " ".join(outcome_text.costs(run, rundir.read_summary(run) | {"overhead_frac": {"torch": -0.3}}))
    assert said == "cost on top of a step: torch not known: that takes more than one step"


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("waited", [0.1, 0.9])
def test_batches_that_come_in_bursts_are_not_said_to_be_a_busy_machine(
    waited: float, workers: int, tmp_path: Path
) -> None:
    run = run_directory(tmp_path / "run", [wall * 1_000_000 for wall in [4, 37] * 8], 1)
    loader = {"waited_ns": waited * 20.5e6, "step_ns": 20.5e6, "worker_cnt": workers}
    said = " ".join(outcome_text.costs(run, rundir.read_summary(run) | {"loader": loader}))
    assert (f"90% of the time, and {workers} workers finish" in said) is (waited == 0.9 and workers > 1)
    assert ("is the machine busy?" in said) is not (waited == 0.9 and workers > 1)


@pytest.mark.parametrize("noise", [1, 20])
def test_steps_of_adapters_in_turn_are_not_said_to_be_a_busy_machine(noise: int, tmp_path: Path) -> None:
    walls = [(11 + n % 3 * noise, 128) if n % 2 else (48 + n % 3 * noise, 512) for n in range(16)]
    run = run_directory(tmp_path / "run", [wall * 1_000_000 for wall, _ in walls], 1)
    rows = [f"timing,{n},,{n},{wall}000000,,{tokens},," for n, (wall, tokens) in enumerate(walls)]
    header = "pass,step,adapter,start_ns,wall_ns,loss,computed_token_cnt,token_cnt,trained_token_cnt"
    (run / rundir.STEPS).write_text("\n".join([header, *rows]), "utf-8")
    said = " ".join(outcome_text.costs(run, rundir.read_summary(run) | {"command": ["python", "train.py"]}))
    assert ("those of 128 tokens take 12.0 ms, those of 512 tokens take 49.0 ms" in said) is (noise == 1)
    assert ("is the machine busy?" in said) is (noise == 20)


def test_runs_of_other_numbers_of_tokens_are_judged_by_tokens(run: Callable[..., Any], tmp_path: Path) -> None:
    """Two adapters in a step take longer than one, and each of them less."""
    one = of_tokens(tmp_path / "one", {"lora_cnt": 1, "rank": [8], "seed": 0, "run_id": "x"}, 40_000_000, 32, 0.434)
    two = of_tokens(tmp_path / "two", {"lora_cnt": 2, "rank": [8], "seed": 0, "run_id": "y"}, 50_000_000, 64, 0.386)
    same = of_tokens(tmp_path / "same", {"lora_cnt": 1, "rank": [8], "seed": 1, "run_id": "z"}, 50_000_000, 32, 0.4)
    done = run(one, two, "--fail-above", "5%")
    said = " ".join(done.out.split())
    assert said.startswith(
        "B is 1.60 x as fast as A: tokens/s 792 -> 1,267 (steps of 32 and 64 tokens, 40.00 and 50.00 ms"
    )
    assert "(10 steps, lora_cnt 1)" in said and "(10 steps, lora_cnt 2)" in said
    assert "step, median of two is 25.0% worse, of other numbers of tokens: not counted" in done.err
    assert "cost of ranges % 43.4 38.6 -4.8 -11.1" in said
    assert "B is 1.25 x as slow as A: step 40.00 -> 50.00 ms" in run(one, same).out
    run(one, same, "--fail-above", "5%", code=8)


@pytest.mark.slow
def test_a_table_can_go_to_a_file(run: Callable[..., Any], two: list[Path], tmp_path: Path) -> None:
    run(*two, "-o", tmp_path / "x.csv")
    run(*two, "-o", tmp_path / "x.json")
    rows = json.loads((tmp_path / "x.json").read_text("utf-8"))
    assert (tmp_path / "x.csv").read_text("utf-8").count("\n") == len(rows) + 1 > 3
    assert "write to a .csv, .json or .parquet file" in run(*two, "-o", tmp_path / "x.xls", code=2).err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--by", "weather"], "choose one of range, operator"),
        (["--measure", "path"], "choose one of range_cnt"),
        (["--only", "("], "not a regular expression"),
        (["--fail-above", "much"], "write a share"),
        (["--fail-above", "-3%"], "write a share"),
        (["--by", "summary", "--totals"], "is none; for traces compare range"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    run: Callable[..., Any], two: list[Path], words: list[str], says: str
) -> None:
    assert says in run(*two, *words, code=2).err


def test_one_input_is_not_enough(run: Callable[..., Any], two: list[Path]) -> None:
    assert "two inputs or more" in run(two[0], code=2).err


@pytest.mark.long
def test_every_comparison_finds_no_change_in_a_trace_beside_itself(
    run: Callable[..., Any], synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    one = synthetic_trace("nsys")
    other = tmp_path / "other.sqlite"
    other.write_bytes(one.read_bytes())
    for by in comparisons.COMPARISONS.keys() - {"memory"}:  # which these traces know nothing of
        rows = list(csv.DictReader(io.StringIO(run(one, other, "--by", by, "--csv").out)))
        assert len(rows) > 1, by
        assert all(float(row["other.sqlite Δ"]) == 0 and not row["other.sqlite is"] for row in rows), by


def test_a_measure_that_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="choose one of"):
        comparisons.choose("range", "kind; drop table range")


LORA_WORK = """select {}, coalesce(op.launch_start_ns, op.start_ns), op.end_ns - op.start_ns
    from gpu_op as op, _lora_reach as reached, _lora_path as place
    where op.attribution_id = reached.attribution_id and reached.path_id = place.path_id and {}"""


@pytest.mark.parametrize(
    ("view", "measure", "events"),
    [
        ("idle_summary", "idle_ns", "select cause, start_ns, idle_ns from idle_gap"),
        ("api_summary", "call_ns", "select text, start_ns, end_ns - start_ns from api_call join name using (name_id)"),
        ("lora_summary", "gpu_op_ns", LORA_WORK.format("module || '|' || part || '|' || direction", "is_part")),
        (
            "adapter_summary",
            "gpu_op_ns",
            LORA_WORK.format("adapter || '|' || direction", "part <> 'base' and adapter <> ''"),
        ),
    ],
)
def test_the_spread_of_a_row_is_that_of_what_each_step_has_of_it(
    view: str, measure: str, events: str, synthetic_trace: Callable[..., Path], database_of: Callable[..., Any]
) -> None:
    database = database_of(synthetic_trace("nsys", steps=5))
    steps = database.rows("select start_ns, end_ns from _step order by start_ns")
    by_step: dict[str, list[int]] = {}
    total: Counter[str] = Counter()
    for name, at, amount in database.rows(events):
        total[name] += amount
        for number, (start, end) in enumerate(steps):
            if start <= at <= end and not (number + 1 < len(steps) and at >= steps[number + 1][0]):
                by_step.setdefault(name, [0] * len(steps))[number] += amount
    keys = {name: tuple(name.split("|")) for name in by_step}
    found = {key: replace(row, kinds=()) for key, row in of_rows(database, view, measure, keys.values()).items()}
    assert len(by_step) > 1 and found.keys() >= set(keys.values())
    warm = None if view == "idle_summary" else 1.0
    for name, amounts in by_step.items():
        there = [amount for amount in amounts if amount]
        low, middle, high = np.quantile(there, [0.25, 0.5, 0.75] if len(there) >= spread.FEW_STEPS else [0, 0.5, 1])
        assert found[keys[name]] == spread.Spread(low, middle, high, len(there), warm=warm, total=total[name]), name


@pytest.mark.slow
def test_parts_and_adapters_of_lora_have_a_spread_in_a_comparison(
    synthetic_trace: Callable[..., Path], run_command: Callable[..., Any]
) -> None:
    before, after = synthetic_trace("nsys", steps=5, adapters=2), synthetic_trace("nsys", steps=5, adapters=2, seed=3)
    for by, cnt in (("lora", 6), ("adapter", 4)):
        total, *rows = json.loads(run_command("compare", before, after, "--by", by, "--json").out)
        assert len(rows) == cnt
        for row in (total, *rows):
            spreads = [value for name, value in row.items() if name.endswith(" spread")]
            assert len(spreads) == 2 and min(spreads) > 0, row


def test_recordings_without_steps_are_compared_by_all_that_the_gpu_does(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    """The kernels are the same; copies that take ten times as long are what makes the difference."""
    for name, copy in (("slow", 1_000_000), ("fast", 100_000)):
        gpu = Gpu(is_pinned=True)
        for length in range(4):
            gpu.copy(copy + length)
            gpu.launch(f"kernel_{length}", 10_000 + length * 1_000)
        writers.write_nsys(tmp_path / f"{name}.sqlite", [gpu.finished().timeline])
    said = run(tmp_path / "slow.sqlite", tmp_path / "fast.sqlite").out
    assert "GPU window of B: 4.054 -> 0.454 ms (-88.8%; 4 kernels)" in said
    assert "most of it while the GPU copies" in " ".join(said.split())
    assert "GPU time in kernels of B: the same" in said


def launches(at: int, name: str, link: int, duration: int, tid: int = 1) -> list[dict[str, Any]]:
    args = {"correlation": link}
    call = {"ph": "X", "pid": 1, "tid": tid, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 2}
    kernel = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": name, "ts": at + 4, "dur": duration}
    return [call | {"args": args}, kernel | {"args": args | {"device": 0, "stream": 7}}]


@pytest.mark.slow
def test_work_behind_the_last_step_is_no_steps_and_that_is_said(tmp_path: Path, run: Callable[..., Any]) -> None:
    """A recording ends in the middle of a step: its kernels would make each of the others longer."""
    cut, whole = trace(tmp_path / "cut.json", 4, gemm=100), trace(tmp_path / "whole.json", 4, gemm=100)
    found = json.loads(cut.read_text("utf-8"))
    found["traceEvents"] += launches(90_000, "gemm", 1_000, 100)
    cut.write_text(json.dumps(found), "utf-8")
    total, row = json.loads(run(cut, whole, "--by", "kernel", "--json").out)
    assert {total["cut.json"], total["whole.json"], row["cut.json"], row["whole.json"]} == {100_000}
    assert "20% of GPU time in kernels in A lies outside of its steps" in " ".join(run(cut, whole).out.split())
    total, _ = json.loads(run(cut, whole, "--by", "kernel", "--totals", "--json").out)
    assert (total["cut.json"], total["whole.json"]) == (500_000, 400_000)


@pytest.mark.slow
def test_what_took_longer_is_where_it_was_launched(tmp_path: Path, run: Callable[..., Any]) -> None:
    """A forward has the kernels of its backward, too, by sequence number; it did not launch them."""

    def recorded(name: str, backward: int) -> Path:
        events: list[dict[str, Any]] = []
        for step in range(4):
            at = 10_000 + 1000 * step
            main, other = {"ph": "X", "pid": 1, "tid": 1}, {"ph": "X", "pid": 1, "tid": 2}
            named = main | {"cat": "user_annotation"}
            linked = {"Sequence number": step, "Fwd thread id": 1}
            events += [
                named | {"name": f"step {step}", "ts": at, "dur": 990},
                named | {"name": "forward", "ts": at + 1, "dur": 100},
                main | {"cat": "cpu_op", "name": "aten::mm", "ts": at + 2, "dur": 20}
                | {"args": linked | {"Fwd thread id": 0}},
                *launches(at + 4, "gemm", 2 * step + 1, 50),
                named | {"name": "backward", "ts": at + 200, "dur": 700},
                other | {"cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward0"}
                | {"ts": at + 300, "dur": 50, "args": linked},
                *launches(at + 310, "gemm_backward", 2 * step + 2, backward, 2),
            ]  # fmt: skip
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
        return path

    said = run(recorded("a", 100), recorded("b", 400), "--by", "range").out
    rows = {line.split()[0]: line.split()[1:4] for line in said.splitlines() if line.startswith(("step", "(total"))}
    assert rows["step/forward"][2] == rows["step/backward"][2], "the table has it in both"
    assert "most of all launched in step/backward" in " ".join(said.split())
    assert "may add up to more than the one around them" in " ".join(said.split())
    # of a last step that is cut off the backward is no step's: neither in the rows nor in what is taken off them
    cut = recorded("cut", 100)
    found = json.loads(cut.read_text("utf-8"))
    found["traceEvents"] = [
        event | {"dur": 90} if event["name"] == "step 3" else event for event in found["traceEvents"]
    ]
    cut.write_text(json.dumps(found), "utf-8")
    assert "most of all launched in step/backward" in " ".join(
        run(cut, tmp_path / "b.json", "--by", "range").out.split()
    )


@pytest.mark.slow
def test_a_kernel_a_thousand_times_as_fast_is_another_one(tmp_path: Path, run: Callable[..., Any]) -> None:
    for fast, is_one in ((30, True), (1, False)):
        a, b = trace(tmp_path / "a.json", 2, gemm_old=900), trace(tmp_path / "b.json", 2, gemm_new=fast)
        b.write_text(b.read_text("utf-8").replace("range gemm_new", "range gemm_old"), "utf-8")
        said = run(a, b, "--by", "kernel").out
        assert ("renamed" in said) is is_one
        assert "gemm_old gemm_new" not in said


@pytest.mark.slow
def test_a_kernel_that_was_launched_before_the_recording_is_in_none_of_its_steps(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    """It runs in the first of them; a recording that begins a moment later has not got it."""
    with_it, without = trace(tmp_path / "with.json", 4, gemm=100), trace(tmp_path / "without.json", 4, gemm=100)
    found = json.loads(with_it.read_text("utf-8"))
    found["traceEvents"].append(launches(10_500, "gemm", 1_000, 100)[1])
    with_it.write_text(json.dumps(found), "utf-8")
    for by in ("kernel", "class"):
        total, row = json.loads(run(with_it, without, "--by", by, "--json").out)
        assert {total["with.json"], total["without.json"], row["with.json"], row["without.json"]} == {100_000}
    assert "20% of GPU time in kernels in A lies outside of its steps" in " ".join(run(with_it, without).out.split())


def test_what_no_input_has_is_said_and_not_measured_as_zero(run: Callable[..., Any]) -> None:
    fixture = ROOT / "fixtures" / "torch-cpu.json.gz"
    assert (
        "nothing to compare: none of these inputs has anything by kernel" in run(fixture, fixture, "--by", "kernel").out
    )


def test_memory_that_was_not_recorded_is_not_compared(run: Callable[..., Any]) -> None:
    fixture = ROOT / "fixtures" / "torch-cpu.json.gz"
    done = run(fixture, fixture, "--by", "memory", code=3)
    assert "no memory is recorded; collect with --profiler timing,memory" in " ".join(done.err.split()) and not done.out


def test_what_one_run_did_not_measure_is_not_new(run: Callable[..., Any], tmp_path: Path) -> None:
    bare = run_directory(tmp_path / "bare", [1, 2, 3], 70_000_000)
    whole = run_directory(tmp_path / "whole", [9_000_000, 10_000_000, 11_000_000], 70_000_000)
    (bare / rundir.SUMMARY).write_text('{"kernel_launches_per_step": 0}')
    summary = rundir.read_summary(whole) | {"kernel_launches_per_step": 5}
    (whole / rundir.SUMMARY).write_text(json.dumps(summary))
    rows = table(run(bare, whole, "--csv"))
    assert (rows["step, median"]["whole is"], rows["step, median"]["whole Δ"]) == ("not measured", "")
    assert (rows["kernel launches a step"]["whole is"], rows["kernel launches a step"]["whole Δ"]) == ("new", "5.0")
    assert table(run(whole, bare, "--csv"))["step, median"]["bare is"] == "not measured"
    assert "not measured" in run(bare, whole).out and " new" in run(bare, whole).out


@pytest.mark.parametrize("name", ["x.txt", "x", "x.html.gz"])
def test_a_file_that_compare_does_not_write_is_refused_before_anything_is_said(
    name: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    one = run_directory(tmp_path / "one", [9_000_000, 10_000_000, 11_000_000], 70_000_000)
    done = run(one, one, "-o", tmp_path / name, code=2)
    assert "write to a .csv, .json or .parquet file, or a page: .html" in " ".join(done.err.split())
    assert done.err.startswith("lorabench: ") and not done.out


def in_turn(path: Path, turns: int, wall: int, around: str | None, tokens: int = 0) -> Path:
    """Five steps of so many turns of so many us each, of a CPU, within a range that begins before them all."""
    events: list[dict[str, Any]] = []
    time = 5000
    for step in range(5):
        for _ in range(turns):
            whole = {"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation", "ts": time, "dur": wall}
            events.append(whole | {"name": f"step {step}"})
            events.append(whole | {"name": "forward", "dur": wall // 2})
            events.append(whole | {"name": "aten::mm", "cat": "cpu_op", "dur": wall // 2})
            time += wall + 10
    if around is not None:
        events.append(events[0] | {"name": around, "ts": 1000, "dur": time})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


@pytest.mark.parametrize("around", [None, "run"])
@pytest.mark.slow
def test_adapters_in_turn_are_one_step_whatever_is_around_them(
    around: str | None, run: Callable[..., Any], tmp_path: Path
) -> None:
    switch = in_turn(tmp_path / "switch.json", 2, 1000, around)
    batch = in_turn(tmp_path / "batch.json", 1, 1200, around)
    said = run(switch, batch, "--by", "range", "--fail-above", "5%")
    assert said.out.startswith("B is 1.67 x as fast as A: step 2.020 -> 1.210 ms (median of 5 steps"), said.out
    rows = table(run(switch, batch, "--by", "range", "--csv"))
    assert float(rows["(total)"]["switch.json"]) == 2_000_000 and float(rows["(total)"]["batch.json"]) == 1_200_000
    assert "lies outside" not in said.err + said.out
    steps = table(run(switch, batch, "--by", "step", "--csv"))
    assert float(steps["(median)"]["switch.json"]) == 2_020_000


def test_names_that_are_nowhere_are_no_comparison(run: Callable[..., Any], two: list[Path]) -> None:
    said = run(*two, "--by", "kernel", "--only", "zzz", code=2)
    assert "nothing by kernel is called zzz in any of these inputs" in said.err


@pytest.mark.parametrize("by", [(), ("--by", "range")])
@pytest.mark.slow
def test_a_view_of_runs_is_judged_by_tokens_too(by: tuple[str, ...], run: Callable[..., Any], tmp_path: Path) -> None:
    folders = []
    for name, wall, tokens in (("one", 1_000_000, 100), ("two", 1_200_000, 200)):
        folders.append(of_tokens(tmp_path / name, {"lora_cnt": 1}, wall, tokens, 0.0))
        in_turn(tmp_path / name / "trace.json", 1, 1000, None)
    assert run(*folders, *by).out.startswith("B is 1.67 x as fast as A: tokens/s ")


QWEN = "qwen-stacks-memory"


@pytest.mark.parametrize(
    ("one", "two", "is_asked"),
    [
        ("bert-small.mi300x", f"{QWEN}.mi300x", True),
        (f"{QWEN}.h100", f"{QWEN}.mi300x", False),
        ("legacy-2021-resnet50", "resnet50-six-steps.2021", False),
    ],
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_of_two_programs_it_is_asked_whether_they_are_one(
    one: str, two: str, is_asked: bool, run_command: Callable[..., Any]
) -> None:
    """By what a step calls: on another GPU no kernel is the same, and ranges around a step are in every trace."""
    files = [CORPUS / "kineto" / f"{name}.json.gz" for name in (one, two)]
    if not all(file.exists() for file in files):
        absent("corpus", f"no corpus of real profiles at {CORPUS}")
    said = run_command("compare", *files).out
    assert said.startswith("is B the same program as A? ") == is_asked


def test_steps_of_other_numbers_are_no_other_program(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    for name, first in (("a", 3), ("b", 20)):
        events = [
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"step {first + n}",
                "pid": 1,
                "tid": 1,
                "ts": 1000 * n,
                "dur": 900,
            }
            for n in range(4)
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    said = run_command("compare", tmp_path / "a.json", tmp_path / "b.json", "--by", "step").out
    assert said.startswith("no difference") and "nothing in common" not in said


@pytest.mark.parametrize(
    ("by", "measure"),
    [
        (by, column.name)
        for by, how in comparisons.COMPARISONS.items()
        for view in sql.load()
        if view.name == how.view
        for column in view.columns
        if re.match("(mean|median|min|max|stddev)_ns$|(start|peak)_ns$|(largest|peak)_bytes$", column.name)
    ],
)
def test_what_does_not_add_up_is_no_measure(by: str, measure: str) -> None:
    """The mean of a call divided by the number of steps is nothing; a peak that stands in each row is one."""
    with pytest.raises(UsageError, match="does not add up: choose one of "):
        comparisons.choose(by, measure)


@pytest.mark.parametrize("by", ["device", "step", "kernel", "class", "idle", "range"])
@pytest.mark.slow
def test_one_step_and_many_of_a_program_are_alike(by: str, run: Callable[..., Any], tmp_path: Path) -> None:
    """A CPU that runs ahead has left a step long before the GPU works at it: that lies in the step all the same."""
    paths = []
    for steps in (1, 2, 12):
        paths.append(tmp_path / f"{steps}.sqlite")
        program = Training(steps=steps, kernel=200_000).run(Gpu(is_pinned=True))
        writers.write_nsys(paths[-1], [program.timeline])
    for path in paths[1:]:
        run(paths[0], path, "--by", by, "--fail-above", "2%")
        said = run(path, paths[0], "--by", by, "--fail-above", "2%")
        assert said.out.startswith("no difference: ") and "lies outside" not in said.out


def test_rows_that_are_equal_in_all_steps_are_not_in_few_steps(run: Callable[..., Any], tmp_path: Path) -> None:
    """Beside a row in which a few steps make the difference; what adds up to as much differs in its last digits."""
    for name, first in (("a", 1), ("b", 40)):
        cold = [1000 * first, 1000, 1000, 1000, 1000, 1000, 1000]
        trace(tmp_path / f"{name}.json", 7, gemm=100, relu=30)
        content = json.loads((tmp_path / f"{name}.json").read_text())
        for event in content["traceEvents"]:
            if event["name"] == "gemm":
                event["dur"] = event["dur"] * cold.pop(0) // 1000
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    found = table(run(tmp_path / "a.json", tmp_path / "b.json", "--by", "kernel", "--csv"))
    assert found["relu"]["b.json is"] in ("", "no difference") and float(found["relu"]["b.json Δ"]) == 0


def test_a_step_of_several_adapters_has_the_tokens_of_all(tmp_path: Path) -> None:
    """In one pass each has a row that begins with the others'; in turn each has its own time."""
    for behind, length, whole in ((0, 500, 500.0), (300, 300, 600.0)):
        rows = [
            f"timing,{step},adapter_{adapter},{step * 1000 + behind * adapter},{length},1.0,1024,1024,1024,\n"
            for step in (1, 2)
            for adapter in (0, 1)
        ]
        head = "pass,step,adapter,start_ns,wall_ns,loss,computed_token_cnt,token_cnt,trained_token_cnt,rank\n"
        (tmp_path / rundir.STEPS).write_text(head + "".join(rows))
        assert run_steps._steps(tmp_path, False) == [(2048, whole)] * 2


@pytest.mark.parametrize(
    "more",
    [("-o", "x.csv", "--json"), ("-o", "x.json", "--csv"), ("-o", "x.csv", "--markdown"), ("-o", "x.html", "--csv")],
)
def test_a_file_and_another_form_are_refused(more: tuple[str, ...], run: Callable[..., Any], two: list[Path]) -> None:
    assert "choose one of -o" in run(*two, "--by", "kernel", *more, code=2).err


def test_graphs_that_are_recorded_whole_are_said_to_be(
    run: Callable[..., Any], tmp_path: Path, two: list[Path]
) -> None:
    """None of their kernels is in the rows."""
    graph = tmp_path / "graph.sqlite"
    writers.write_nsys(graph, [Training(steps=3).run(Gpu(is_pinned=True)).timeline])
    with closing(sqlite3.connect(graph)) as file:
        file.execute("create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE as select start, end, deviceId, streamId, "
                     "correlationId, globalPid, 1 as graphId from CUPTI_ACTIVITY_KIND_KERNEL limit 4")  # fmt: skip
        file.commit()
    assert "B runs 4 CUDA graphs of " in run(two[0], graph, "--by", "kernel").out


@pytest.mark.slow
def test_of_ranges_side_by_side_the_one_that_changed_most_says_where(run: Callable[..., Any], tmp_path: Path) -> None:
    """Whether it has others inside or not: only what is around all of a step does not."""
    for name, longer in (("a", 0), ("b", 400)):
        events: list[dict[str, Any]] = []
        at = 10_000
        for _ in range(6):
            for part, length in (
                ("reader", 100),
                ("backbone", 400),
                ("head", 300 + longer),
                ("boxes", 200 + longer // 4),
            ):
                both = {"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation", "ts": at}
                events += [both | {"name": part, "dur": length}, both | {"name": "inner", "dur": 20}]
                at += length + 5
        (tmp_path / f"{name}.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    said = " ".join(run(tmp_path / "a.json", tmp_path / "b.json", "--by", "range").out.split())
    assert "most of all head (+400.0 us)" in said, said
