"""One run on a GPU, recorded by nsys and by torch.profiler: what both saw must be the same."""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, corpus_params, quick
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from lorabench.progress import Silent
from lorabench.reports.comparison import changes

CAPTURE = ROOT / "fixtures" / "h200-batch"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("h200")
    for name in ("run.sqlite", "trace.json"):
        with gzip.open(CAPTURE / f"{name}.gz") as packed, (folder / name).open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
    with analyze([folder / "run.sqlite", folder / "trace.json"], folder / "run.duckdb") as database:
        yield database


def both(run: Database, view: str, keys: str, columns: str, where: str = "true") -> list[dict[Any, Any]]:
    """What nsys and what torch saw: {keys: columns}."""
    found = [
        {row[:-1]: row[-1] for row in run.rows(
            f"select {keys}, ({columns}) from {view} join source using (source_id) where source.kind = ? and {where}",
            kind,
        )}
        for kind in ("nsys", "kineto")
    ]  # fmt: skip
    assert found[0]
    return found


def test_both_saw_the_same_kernels(run: Database) -> None:
    by_nsys, by_torch = both(run, "kernel_summary", "kernel_name", "kernel_cnt, kernel_ns")
    counts = [sorted(n for n, _ in seen.values()) for seen in (by_nsys, by_torch)]
    assert counts[0] == counts[1] and sum(counts[0]) == 1250
    times = [sum(t for _, t in seen.values()) for seen in (by_nsys, by_torch)]
    assert times[0] == pytest.approx(times[1], rel=0.001)  # each ran the steps once more: the GPU's own scatter


def test_both_saw_the_same_ranges_under_the_same_paths(run: Database) -> None:
    annotations = "range_summary.kind = 'annotation' and path not like '%Optimizer.%'"  # torch opens these itself
    by_nsys, by_torch = both(run, "range_summary", "path", "range_cnt", annotations)
    assert by_nsys == by_torch and len(by_nsys) == 169


def test_both_give_every_part_of_lora_the_same_launches_and_kernels(run: Database) -> None:
    by_nsys, by_torch = both(run, "lora_summary", "module, part, direction", "range_cnt, launch_cnt, kernel_cnt")
    assert by_nsys == by_torch
    assert {direction for _, _, direction in by_nsys} == {"forward", "backward", "recompute"}


def test_both_saw_as_much_work_in_each_step_and_phase(run: Database) -> None:
    by_nsys, by_torch = both(run, "step_summary", "step", "launch_cnt, kernel_cnt")
    assert len(by_nsys) == 2 and sorted(by_nsys.values()) == sorted(by_torch.values())
    phases = "path in ('run', 'run/step', 'run/step/backward', 'run/step/optimizer', 'run/step/h2d')"
    by_nsys, by_torch = both(run, "range_summary", "path", "range_cnt, launch_cnt, kernel_cnt", phases)
    assert by_nsys == by_torch and len(by_nsys) == 5


def test_both_give_the_device_the_same_busy_time(run: Database) -> None:
    by_nsys, by_torch = both(run, "gpu_timeline_summary", "device_id", "gpu_op_cnt, busy_ns, compute_ns")
    assert by_nsys.keys() == by_torch.keys() == {(0,)}
    assert by_nsys[(0,)][0] == by_torch[(0,)][0]
    assert by_nsys[(0,)][1:] == pytest.approx(by_torch[(0,)][1:], rel=0.01)


@pytest.mark.slow
def test_a_comparison_of_the_two_finds_the_same_in_each_range(run: Database, tmp_path: Path) -> None:
    """Only torch says which range the backward belongs to."""
    paths = []
    for name in ("run.sqlite", "trace.json"):
        paths.append(tmp_path / name)
        with gzip.open(CAPTURE / f"{name}.gz") as packed, paths[-1].open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
    compared = changes.compare_inputs(paths, "range", None, None, False, Silent())
    names = compared.names
    ranges = [row for row in compared.rows if "Optimizer." not in row["path"]]
    assert len(ranges) > 150
    for row in ranges:
        assert row[names[0]] == pytest.approx(row[names[1]], rel=0.05, abs=200), row["path"]
    assert changes.BACKWARD_IS_APART in compared.notes
    assert not any("sequence_kernel_ns)" in note and "add up to" in note for note in compared.notes)
    assert "most of all" not in compared.verdict[1], "what is the same to the last per mille comes from nowhere"


# an old torch, DDP, a graph, stacks of Python
OF_EACH_KIND = ("legacy-2021-resnet50", "ddp-resnet18", "cuda-graphs", "qwen-stacks-memory1")


@pytest.mark.parametrize(
    "path",
    quick(5, sorted(
        [pytest.param(CAPTURE / "trace.json.gz", id="capture"), *corpus_params("kineto/*.json.gz")],
        key=lambda case: case.id not in ("capture", "absent", *OF_EACH_KIND),
    )),
)  # fmt: skip
@pytest.mark.slow
def test_what_is_compared_does_not_depend_on_sequence_numbers(path: Path, tmp_path: Path) -> None:
    """A recording that says which range the backward belongs to is held against one that does not."""
    with gzip.open(path) as packed:
        trace = json.load(packed)
    (tmp_path / "with.json").write_text(json.dumps(trace), "utf-8")
    for event in trace if isinstance(trace, list) else trace["traceEvents"]:
        for name in ("Sequence number", "Fwd thread id"):
            (event.get("args") or {}).pop(name, None)
    (tmp_path / "without.json").write_text(json.dumps(trace), "utf-8")
    found = []
    for name in ("with", "without"):
        with analyze([tmp_path / f"{name}.json"], tmp_path / f"{name}.duckdb") as database:
            found.append(
                database.rows("select path, kernel_ns from _launched_range where kind = 'annotation' order by all")
            )
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_page_warns_of_what_the_terminal_warns_of(
    run: Database, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    inputs = [run.path.with_name("run.sqlite"), run.path.with_name("trace.json")]
    warning = "The inputs were recorded by different profilers"
    assert warning in run_command("compare", *inputs, "--by", "kernel").out
    run_command("compare", *inputs, "-o", tmp_path / "c.html")
    assert f'<p class="caution">{warning}' in (tmp_path / "c.html").read_text("utf-8")
