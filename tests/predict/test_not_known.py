"""What no recording tells is said not to be known, instead of being next to nothing."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import opened
from lorabench.analyze.predict.predictions import what_if
from lorabench.reports.answer import answer, verdict_text
from simulated_gpu import COPIES, Gpu


def training(is_pinned: bool, steps: int = 6) -> Gpu:
    """Steps whose input is copied first, with a CPU that is ahead."""
    gpu = Gpu(is_pinned=is_pinned)
    for number in range(steps):
        with gpu.range(f"step {number}"):
            gpu.copy(6_000_000)
            for _ in range(20):
                gpu.launch("gemm", 400_000)
    return gpu.finished()


@pytest.mark.parametrize("is_known", [True, False])
def test_what_pinned_memory_saves_is_not_known_where_nothing_is_copied_from_it(
    is_known: bool, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    gpu = training(is_pinned=False)
    if is_known:  # one from pinned memory, as fast
        gpu.timeline.ops.append(replace(gpu.timeline.ops[-1], kind="memcpy", name="[memcpy]", stream=COPIES,
                                        bytes=1 << 20, is_pageable=False, correlation=10**6))  # fmt: skip
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.timeline])
    said = " ".join(run_command("what-if", tmp_path / "run.sqlite").out.split())
    assert ("no copy from pinned memory says how much faster they would be" in said) is not is_known
    rest = said.partition("less than 0.1%")[2]
    assert is_known or "pin=*" not in rest


def test_what_work_saves_whose_launches_came_before_the_recording_is_not_known(tmp_path: Path) -> None:
    gpu = training(is_pinned=True)
    whole = gpu.timeline
    gpu.timeline = replace(whole, calls=whole.calls[::7])
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.timeline])
    with opened(tmp_path / "run.sqlite", db=tmp_path / "run.duckdb") as database:
        rows = {row["change"]: row for row in what_if(database).to_dicts()}
        (asked,) = what_if(database, ["scale=gemm:0.5"]).to_dicts()
    assert rows["scale=matmul:0.5"]["saving_ns"] is None and asked["saving_ns"] is None
    assert "launched before the recording began" in asked["note"]
    assert rows["cpu=*:0"]["saving_ns"] is not None


def test_no_graph_is_made_of_a_range_that_launches_nothing(tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    for number in range(6):
        with gpu.range(f"step {number}"):
            gpu.launch("gemm", 400_000)
            with gpu.range("empty_cache"):
                gpu.free()
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with opened(tmp_path / "run.sqlite", db=tmp_path / "run.duckdb") as database:
        (row,) = what_if(database, ["graph=empty_cache"]).to_dicts()
    assert row["saving_ns"] == 0


@pytest.mark.slow
def test_a_slow_step_says_that_the_gpu_works_longer_in_it(tmp_path: Path) -> None:
    """The CPU waits for it at the end, in no phase: that is neither saving nor logging."""
    gpu = Gpu(is_pinned=True)
    for number in range(10):
        with gpu.range(f"step {number}"):
            with gpu.range("forward"):
                gpu.launch("gemm", 9_000_000 if number == 5 else 3_000_000)
            with gpu.range("backward"):
                gpu.launch("gemm", 3_000_000)
            gpu.synchronise(None)
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with opened(tmp_path / "run.sqlite", db=tmp_path / "run.duckdb") as database:
        ((evidence,),) = database.rows("select evidence from finding where rule = 'uneven_steps'")
    assert evidence.endswith("the GPU's work is 6.0 ms longer in it")


@pytest.mark.slow
def test_graphs_that_are_recorded_whole_are_what_the_gpu_computes(tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    for number in range(8):
        with gpu.range(f"step {number}"):
            gpu.work(300_000)
            gpu.launch("graph", 2_000_000)
            gpu.synchronise(None)
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as file, file:
        file.execute("create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE as select start, end, deviceId, streamId, "
                     "contextId, correlationId, globalPid, 1 as graphId from CUPTI_ACTIVITY_KIND_KERNEL")  # fmt: skip
        file.execute("delete from CUPTI_ACTIVITY_KIND_KERNEL")
    with opened(tmp_path / "run.sqlite", db=tmp_path / "run.duckdb") as database:
        assert "graph" in {kind for (kind,) in database.rows("select distinct kind from gpu_op")}
        said = verdict_text.verdict(answer.answer(database))
        rows = {row["change"]: row for row in what_if(database).to_dicts()}
    assert "faster kernels save" not in said
    assert rows["scale=graph:0.5"]["saving_frac"] == pytest.approx(1_000 / 2_330, rel=0.05)
