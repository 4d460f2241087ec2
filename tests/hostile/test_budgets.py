"""Small files that ask for much memory or time: every reader keeps its budget, whatever the file says."""

import gzip
import json
import pickle
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import brute_force
import duckdb
import pytest
from conftest import corpus_params, opened, quick
from lorabench import sql

# What a process needs that reads nothing is about 150 MB.
BUDGET_MB = 450
EVENT = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {}}
Bounded = Callable[..., Any]


def overlapping(path: Path, count: int) -> Path:
    """Ranges that all overlap each other, and a launch inside of all."""
    ranges = (brute_force.Range(1, 1, i, count * 10 + i, f"r{i}") for i in range(count))
    calls = (brute_force.Call(1, 1, 2 * count + i, 2 * count + i + 1, i) for i in range(count))
    ops = (brute_force.Op(1, 0, 3 * count + i, 3 * count + i + 1, i) for i in range(count))
    brute_force.write_nsys(brute_force.Trace(tuple(ranges), tuple(calls), tuple(ops)), path)
    return path


@pytest.mark.parametrize("count", quick(1, [8000, 1000]))
@pytest.mark.slow
def test_ranges_that_all_overlap_each_other(count: int, tmp_path: Path, bounded: Bounded) -> None:
    path = overlapping(tmp_path / "run.sqlite", count)
    bounded(path, memory_mb=BUDGET_MB + 150)
    with opened(path, db=tmp_path / "x.duckdb") as database:
        total = database.rows("select sum(kernel_ns) from kernel_summary")
        assert database.rows("select sum(self_kernel_ns) from range_summary") == total
        lost = dict(database.rows("select item, value from trace_info where section = 'lost'"))
    assert ("ranges that overlap partially" in lost) == (count > 1000)


@pytest.mark.slow
def test_ranges_nested_thousands_deep(tmp_path: Path, bounded: Bounded) -> None:
    path = overlapping(tmp_path / "run.sqlite", 4000)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("update NVTX_EVENTS set end = 1000000 - start")
    bounded(path, memory_mb=BUDGET_MB + 300)


@pytest.mark.parametrize("size", [20, 64])
@pytest.mark.first(1)
def test_a_string_full_of_what_looks_like_the_end_of_an_event(size: int, tmp_path: Path, bounded: Bounded) -> None:
    path = tmp_path / "run.json"
    first = json.dumps(EVENT | {"name": "NAME"}).replace("NAME", "},{'" * (size << 18))
    path.write_text('{"traceEvents": [' + first + "," + json.dumps(EVENT) + "]}")
    bounded(path, memory_mb=BUDGET_MB + 200, code=(0, 3))


@pytest.mark.parametrize(
    "event",
    quick(
        2,
        ['{"ph":x}', '{"a":[{}', '"},{"', '{"a":1}}', '{"ph":"X","name":"a "b" c","ts":1,"dur":2}', '{"a":"x', "[" * 8],
    ),
)
@pytest.mark.slow
def test_millions_of_invalid_events(event: str, tmp_path: Path, bounded: Bounded) -> None:
    path = tmp_path / "run.json"
    path.write_text(
        '{"traceEvents": [' + json.dumps(EVENT) + "," + ",".join([event] * ((3 << 20) // len(event))) + "]}"
    )
    bounded(path, memory_mb=BUDGET_MB + 150, code=(0, 3), timeout_s=100)


@pytest.mark.parametrize("text", quick(2, ['"traceEvents":[', "}]", '{"traceEvents":[', "]", "} ]", '}],"a":']))
@pytest.mark.slow
def test_headers_and_ends_that_repeat(text: str, tmp_path: Path, bounded: Bounded) -> None:
    path = tmp_path / "run.json"
    inside = json.dumps(text * ((20 << 20) // len(text)))
    path.write_text(f'{{"x": {inside}, "traceEvents": [{json.dumps(EVENT)}], "y": {inside}}}')
    bounded(path, memory_mb=BUDGET_MB + 100, code=(0, 3))


def _laughs() -> list[Any]:
    """A few hundred bytes of references to references, which make a text of a million million."""
    value: list[Any] = ["ha"]
    for _ in range(12):
        value = [value] * 10
    return value


ALLOC = {"action": "alloc", "addr": 1, "size": 1}
SEGMENT = {"device": 0, "address": 0, "total_size": 1, "stream": 0, "segment_type": "a", "blocks": []}
FRAME = {"filename": _laughs(), "name": _laughs(), "line": _laughs()}


def _snapshot(history: list[Any], segments: list[Any], lists: int = 1) -> bytes:
    return pickle.dumps({"segments": segments, "device_traces": [history] * lists})


BOMBS: dict[str, Callable[[], bytes]] = {
    "memo": lambda: bytes.fromhex("80045d72ffffff0f2e"),
    "long memo": lambda: b"\x80\x04]r\xff\xff\xff\x7f.",
    "deep list": lambda: b"\x80\x04" + b"]" * 5000 + b"a" * 4999 + b".",
    "very deep list": lambda: b"\x80\x04" + b"]" * 1_000_000 + b"a" * 999_999 + b".",
    "shared history": lambda: _snapshot([ALLOC] * 1000, [], 2000),
    "shared segments": lambda: _snapshot([], [SEGMENT] * 3_000_000),
    "laughing name": lambda: _snapshot([ALLOC | {"frames": [FRAME]}], []),
    "long number": lambda: b"\x80\x04\x8b\x00\x00\x00\x04" + b"\x7f" * (4 << 24) + b".",
    "long text": lambda: b"\x80\x04X\xff\xff\xff\xff.",
    "long frame": lambda: b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "gzip": lambda: gzip.compress(b"\x80\x04" + b"]" * (200 << 20)),
}


@pytest.mark.parametrize("bomb", quick(4, BOMBS))
@pytest.mark.first(2)
def test_pickles_that_ask_for_memory(bomb: str, tmp_path: Path, bounded: Bounded) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(BOMBS[bomb]())
    bounded(path, memory_mb=BUDGET_MB, code=(0, 3), timeout_s=60)


@pytest.mark.slow
def test_a_memory_timeline_of_millions_of_rows(
    tmp_path: Path, bounded: Bounded, synthetic_trace: Callable[..., Path]
) -> None:
    path = tmp_path / "run.json"
    memory = {
        "ph": "i",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": 1,
        "args": {"Bytes": 8, "Addr": 1, "Device Type": 0},
    }
    path.write_text(json.dumps({"traceEvents": [EVENT, memory]}))
    (tmp_path / "cpu.raw.json.gz").write_bytes(gzip.compress(b"[" + b"[1,1,8,0]," * 4_000_000 + b"[1,1,8,0]]"))
    bounded(path, memory_mb=BUDGET_MB + 450)


@pytest.mark.parametrize("spaces", quick(1, ["\n", " ", "\t"]))
@pytest.mark.slow
def test_gzip_bombs_of_white_space(spaces: str, tmp_path: Path, bounded: Bounded) -> None:
    path = tmp_path / "run.json.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        for _ in range(60):
            file.write(spaces * (20 << 20))
    bounded(path, memory_mb=BUDGET_MB, code=3)


@pytest.mark.long
def test_texts_of_a_foreign_database_are_no_reason_to_take_all_memory(
    synthetic_trace: Callable[..., Path], tmp_path: Path, bounded: Bounded
) -> None:
    opened(synthetic_trace("nsys"), db=tmp_path / "theirs.duckdb").close()
    with duckdb.connect(str(tmp_path / "theirs.duckdb")) as connection:
        connection.execute("update name set text = repeat(text || '-', 300000)")
    bounded(
        tmp_path / "theirs.duckdb", "analyze", tmp_path / "theirs.duckdb", "-o", tmp_path / "all",
        memory_mb=3000, code=(0, 3, 5),
    )  # fmt: skip


@pytest.mark.parametrize(
    "path",
    quick(
        1,
        [
            *corpus_params("memory_snapshots/*.pickle"),
            *corpus_params("kineto/*.json.gz"),
            *corpus_params("nsys/*.sqlite"),
        ],
    ),
)
@pytest.mark.slow
def test_no_view_takes_many_times_what_reading_takes(path: Path, tmp_path: Path) -> None:
    """The planner may join rows that have little in common before those that pick a few: a minute for 13,000 events."""
    begin = time.process_time()
    with opened(path, db=tmp_path / "x.duckdb") as database:
        read_s = time.process_time() - begin
        for view in sql.public():
            begin = time.process_time()
            database.view(view.name)
            assert time.process_time() - begin < 10 * read_s, view.name
