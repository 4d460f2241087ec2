"""Baselines: what compare needs of an input, kept under a name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lorabench import rundir
from test_compare import run_directory, table, trace


@pytest.fixture
def run(run_command: Callable[..., Any]) -> Callable[..., Any]:
    return run_command


def kept(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "data" / "lorabench" / "baselines").iterdir()}


@pytest.mark.long
def test_a_trace_can_be_compared_after_it_is_gone(run: Callable[..., Any], tmp_path: Path) -> None:
    before, after = trace(tmp_path / "before.json", 3, gemm=100), trace(tmp_path / "after.json", 3, gemm=150)
    assert run("baseline", "save", "main", before).out == "saved @main\n"
    before.unlink()
    run("cache", "clear")
    gemm = table(run("compare", "@main", after, "--by", "kernel", "--csv"))["gemm"]
    assert (gemm["@main"], gemm["after.json Δ"]) == ("100000.0", "50000.0")
    assert "  B  @main  (torch.profiler, 3 steps)" in run("compare", after, "@main", "--by", "kernel").out
    run("compare", "@main", after, "-o", tmp_path / "page.html")


def test_a_run_keeps_its_measurements_and_traces(run: Callable[..., Any], tmp_path: Path) -> None:
    one = run_directory(tmp_path / "one", [9_000_000, 10_000_000, 11_000_000], 70_000_000)
    other = run_directory(tmp_path / "other", [18_000_000, 20_000_000, 22_000_000], 70_000_000)
    run("baseline", "save", "bare", one)
    trace(one / "trace.json", 3, gemm=100)
    run("baseline", "save", "v1.0", one)
    assert run("compare", "@v1.0", other).out.startswith(
        "B is 2.00 x as slow as A: step 10.00 -> 20.00 ms (median of 3"
    )
    assert table(run("compare", "@v1.0", one, "--by", "kernel", "--csv"))["gemm"]["one Δ"] == "0.0"
    assert "bare holds no traces" in run("compare", "@bare", one, "--by", "kernel", code=3).err
    rows = json.loads(run("baseline", "list", "--json").out)
    assert [(row["name"], row["input"], row["holds"]) for row in rows] == [
        ("bare", "one", "measurements"), ("v1.0", "one", "measurements and traces"),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_name_is_replaced_with_force_only_and_removed_at_once(run: Callable[..., Any], tmp_path: Path) -> None:
    one, other = trace(tmp_path / "a.json", 1, gemm=100), trace(tmp_path / "b.json", 1, gemm=150)
    run("baseline", "save", "main", one)
    assert "replace it with --force" in run("baseline", "save", "main", other, code=2).err
    run("baseline", "save", "main", other, "--force")
    assert table(run("compare", "@main", one, "--by", "kernel", "--csv"))["gemm"]["@main"] == "150000.0"
    assert kept(tmp_path) == {"main"}
    assert run("baseline", "remove", "main").out == "removed @main\n" and kept(tmp_path) == set()
    assert "no baselines" in run("baseline", "list").err


def test_what_cannot_be_read_leaves_no_baseline(run: Callable[..., Any], tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("no trace", "utf-8")
    run("baseline", "save", "main", bad, code=3)
    assert kept(tmp_path) == set()
    damaged = run_directory(tmp_path / "one", [1, 2, 3], 1)
    (damaged / rundir.SUMMARY).write_text("{", "utf-8")
    assert "is damaged" in run("baseline", "save", "main", damaged, code=3).err and kept(tmp_path) == set()


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "a" * 65, "a b", "-x*"])
def test_names_stay_within_the_folder(run: Callable[..., Any], tmp_path: Path, name: str) -> None:
    one = trace(tmp_path / "a.json", 1, gemm=100)
    assert "is not a name for a baseline" in run("baseline", "save", "--", name, one, code=2).err
    assert "is not a name for a baseline" in run("baseline", "remove", "--", name, code=2).err
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_baseline_that_is_not_there_is_said(run: Callable[..., Any], tmp_path: Path) -> None:
    one = trace(tmp_path / "a.json", 1, gemm=100)
    assert "no such baseline: main; saved: none; keep one with" in run("compare", "@main", one, code=2).err
    run("baseline", "save", "other", one)
    said = run("baseline", "remove", "main", code=2).err
    assert said == "lorabench: no such baseline: main; saved: other\n"
    file = trace(tmp_path / "@main", 1, gemm=100)
    run("compare", file, one)  # a path is no name


@pytest.mark.slow
def test_a_baseline_is_called_with_or_without_its_mark(run: Callable[..., Any], tmp_path: Path) -> None:
    one = run_directory(tmp_path / "one", [9_000_000, 10_000_000, 11_000_000], 70_000_000)
    trace(one / "trace.json", 1, gemm=100)
    assert run("baseline", "save", "@main", one).out == "saved @main\n" and kept(tmp_path) == {"main"}
    assert run("baseline", "save", "copy", "@main").out == "saved @copy\n"
    rows = {row.pop("name"): row for row in json.loads(run("baseline", "list", "--json").out)}
    assert (rows["copy"]["input"], rows["copy"]["holds"]) == ("one", "measurements and traces")
    assert run("baseline", "remove", "@main").out == "removed @main\n" and kept(tmp_path) == {"copy"}
    run("compare", "@copy", one, "--by", "kernel")
    run("compare", "@copy", one)
