"""Files with calls that give the GPU work and without that work: why it is not there."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import writers
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.read.not_collected import LOST_CONTEXT
from simulated_gpu import Gpu, Training

Change = Callable[[sqlite3.Connection], Any]
WORK = ("KERNEL", "MEMCPY", "MEMSET")


def without_work(file: sqlite3.Connection) -> None:
    for table in WORK:
        file.execute(f"drop table CUPTI_ACTIVITY_KIND_{table}")


def failed(code: int) -> Change:
    def change(file: sqlite3.Connection) -> None:
        without_work(file)
        last = "(select max(start) from CUPTI_ACTIVITY_KIND_RUNTIME)"
        file.execute(f"update CUPTI_ACTIVITY_KIND_RUNTIME set returnValue = {code} where start = {last}")

    return change


def without_launches(file: sqlite3.Connection) -> None:
    without_work(file)
    for name in ("Launch", "Memcpy", "Memset"):
        file.execute(
            "delete from CUPTI_ACTIVITY_KIND_RUNTIME where nameId in "
            f"(select id from StringIds where value like '%{name}%')"
        )


def in_graphs(file: sqlite3.Connection) -> None:
    columns = "start, end, deviceId, streamId, correlationId, globalPid"
    file.execute(f"create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE as select {columns}, 1 as graphId "
                 "from CUPTI_ACTIVITY_KIND_KERNEL limit 3")  # fmt: skip
    without_work(file)


def said(tmp_path: Path, change: Change) -> tuple[str, str]:
    """What is said to be missing, and the answer."""
    trace = tmp_path / "run.sqlite"
    writers.write_nsys(trace, [Training(steps=2, syncs=True).run(Gpu()).timeline])
    with closing(sqlite3.connect(trace)) as file:
        change(file)
        file.commit()
    with analyze([trace], tmp_path / "run.duckdb") as database:
        from lorabench.reports.answer import answer, answer_text

        ((note,),) = database.rows(
            "select note from source_fact where section = 'missing' and item = 'CUPTI_ACTIVITY_KIND_KERNEL'"
        )
        text = "\n".join(answer_text.lines(answer.answer(database)))
    return note, text


def test_work_that_was_launched_and_not_collected_is_not_called_none(tmp_path: Path) -> None:
    note, text = said(tmp_path, without_work)
    assert "calls that give the GPU work are there, but not what they launched: the recording ended" in note
    assert re.search(r"^the GPU's work is missing, which \d+ calls launched: times are the CPU's$", text, re.MULTILINE)


@pytest.mark.parametrize("code", LOST_CONTEXT)
@pytest.mark.first(2)
def test_a_program_that_failed_is_said_to_have(code: int, tmp_path: Path) -> None:
    note, _ = said(tmp_path, failed(code))
    assert re.search(rf"the program failed, as cuda\w+ returned {code} \(cudaError\w+\)$", note)


@pytest.mark.parametrize("code", [0, 1, 600])
@pytest.mark.first(1)
def test_an_error_that_leaves_the_context_is_no_reason(code: int, tmp_path: Path) -> None:
    note, _ = said(tmp_path, failed(code))
    assert "the program failed" not in note and "the recording ended" in note


@pytest.mark.slow
def test_where_nothing_was_launched_nothing_ran(tmp_path: Path) -> None:
    note, text = said(tmp_path, without_launches)
    assert note.startswith("no kernels: nothing ran on a GPU, or CUDA tracing was off")
    assert "no GPU work in this file: times are the CPU's" in text


@pytest.mark.slow
def test_graphs_recorded_whole_are_why_there_are_no_kernels(tmp_path: Path) -> None:
    note, _ = said(tmp_path, in_graphs)
    assert "CUDA graphs are recorded whole" in note


@pytest.mark.parametrize(
    "call", ["cudaLaunchKernel", "cudaMemcpyAsync", "hipModuleLaunchKernel", "cudaStreamIsCapturing"]
)
@pytest.mark.first(2)
@pytest.mark.slow
def test_calls_of_a_kineto_trace_without_work_say_whether_any_was_asked_for(call: str, tmp_path: Path) -> None:
    both = {"ph": "X", "pid": 1, "tid": 1, "ts": 5, "dur": 3}
    events = [both | {"cat": "cpu_op", "name": "aten::mm"}, both | {"cat": "cuda_runtime", "name": call}]
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((note,),) = database.rows("select note from source_fact where item = 'GPU work'")
    is_asking = call != "cudaStreamIsCapturing"
    assert note.startswith("a call that gives" if is_asking else "nothing ran on a GPU: of 1 CUDA call")
