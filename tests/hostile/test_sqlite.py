"""nsys exports whose SQLite says strange things: as many rows as SQLite counts, or it is reported; bounded memory."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import opened, quick
from lorabench.errors import CorruptInputError, LorabenchError
from simulated_gpu import Gpu

COLUMNS = "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, demangledName INTEGER"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def export(path: Path, kernels: int, *pragmas: str, value: str = "value TEXT", strings: int = 2) -> Path:
    """The smallest export with a table of more than one page."""
    with closing(sqlite3.connect(path)) as file, file:
        for pragma in ("page_size = 512", *pragmas):
            file.execute(f"pragma {pragma}")
        file.execute("create table StringIds (id INTEGER)")
        file.executemany("insert into StringIds values (?)", [(i,) for i in range(strings)])
        file.execute(f"alter table StringIds add column {value}")
        file.execute(f"create table {KERNELS} ({COLUMNS})")
        file.executemany(
            f"insert into {KERNELS} values (?, ?, 0, 7, ?, 1)", [(10 * i, 10 * i + 5, i) for i in range(kernels)]
        )
        if value == "value TEXT":
            file.execute("update StringIds set value = 'gemm é' where id = 1")
    return path


def read(path: Path, tmp_path: Path) -> tuple[int, dict[str, str]]:
    """The number of kernels, and what was lost."""
    with opened(path, db=tmp_path / "x.duckdb", force=True) as database:
        ((count,),) = database.rows("select count(*) from gpu_op")
        return count, dict(database.rows("select item, value from trace_info where section = 'lost'"))


def counted(path: Path) -> int | None:
    """What SQLite counts, None where it cannot."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
        ((count,),) = file.execute(f"select count(*) from {KERNELS} not indexed")
        return int(count)
    return None


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_texts_of_other_encodings_are_read_as_written(encoding: str, tmp_path: Path) -> None:
    path = export(tmp_path / "run.sqlite", 5, f"encoding = '{encoding}'")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "create table NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT)"
        )
        file.executemany(
            "insert into NVTX_EVENTS values (?, ?, 59, 1, ?)", [(1, 9, "étape"), (2, 3, "a/b"), (4, 5, "étape")]
        )
    with opened(path, db=tmp_path / "x.duckdb") as database:
        assert sorted(database.rows("select path, range_cnt from range_summary")) == [
            ("étape", 1),
            ("étape/a/b", 1),
            ("étape/étape", 1),
        ]
        assert database.rows("select kernel_name, kernel_cnt from kernel_summary") == [("gemm é", 5)]


def test_an_unfinished_target_of_a_link_is_refused(tmp_path: Path) -> None:
    target = export(tmp_path / "target.sqlite", 5)
    (tmp_path / "target.sqlite-wal").write_bytes(b"x")
    (tmp_path / "link").mkdir()
    link = tmp_path / "link" / "run.sqlite"
    link.symlink_to(target)
    with pytest.raises(CorruptInputError, match=r"target\.sqlite-wal lies beside"):
        read(link, tmp_path)


def test_pages_in_a_wrong_order_lose_no_row(tmp_path: Path) -> None:
    """Two children of an interior page have changed places: SQLite still gives all rows, in another order."""
    path = export(tmp_path / "run.sqlite", 61)
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as file:
        ((root,),) = file.execute(f"select rootpage from sqlite_master where name = '{KERNELS}'")
    start = (root - 1) * 512
    assert content[start] == 5
    first, last = (start + int.from_bytes(content[start + 12 + 2 * i : start + 14 + 2 * i], "big") for i in (0, 1))
    content[first : first + 4], content[last : last + 4] = content[last : last + 4], content[first : first + 4]
    path.write_bytes(content)
    assert counted(path) == 61
    assert read(path, tmp_path) == (61, {})


@pytest.mark.parametrize("seed", quick(12, range(60)))
@pytest.mark.slow
def test_damaged_pages_lose_nothing_in_silence(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    path = export(tmp_path / "run.sqlite", 400)
    content = bytearray(path.read_bytes())
    for _ in range(draw.choice([1, 1, 2, 5])):
        at = draw.randrange(512, len(content))
        if draw.random() < 0.5:  # among the pointers of a page
            at = at // 512 * 512 + draw.randrange(0, 40)
        content[at] = draw.randrange(256)
    path.write_bytes(content)
    expected = counted(path)
    try:
        found, lost = read(path, tmp_path)
    except LorabenchError as error:
        assert "\n" not in str(error)
        return
    noted = sum(int(lost.get(item, 0)) for item in (KERNELS, f"{KERNELS} rows"))
    assert found + noted == expected


def test_a_column_called_rowid_is_a_column(tmp_path: Path) -> None:
    path = export(tmp_path / "run.sqlite", 5)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"alter table {KERNELS} add column rowid TEXT")
        file.execute(f"update {KERNELS} set rowid = 'seven'")
    assert read(path, tmp_path) == (5, {})


@pytest.mark.parametrize(
    "value",
    [
        f"value TEXT DEFAULT '{'x' * 100_000}'",
        "value TEXT GENERATED ALWAYS AS (hex(zeroblob(16000000)))",
        "value TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000)))",
        "value TEXT GENERATED ALWAYS AS (printf('%*d', 1000000, id))",
    ],
)
@pytest.mark.first(2)
@pytest.mark.slow
def test_computed_texts_end_in_a_line(value: str, tmp_path: Path, bounded: Callable[..., Any]) -> None:
    path = export(tmp_path / "run.sqlite", 5, value=value, strings=20_000)
    ran = bounded(path, memory_mb=450, code=3)
    assert "StringIds" in ran.err


def test_a_schema_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    path = export(tmp_path / "run.sqlite", 5)
    content = path.read_bytes().replace(b"streamId INTEGER", b"stream\xff\xff INTEGER", 1)
    path.write_bytes(content)
    with pytest.raises(CorruptInputError, match="no column streamId"):
        read(path, tmp_path)
    path.write_bytes(content.replace(b"StringIds", b"String\xff\xfe\xfd"))
    with pytest.raises(CorruptInputError):
        read(path, tmp_path)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_wait_whose_call_is_lost_is_a_wait(is_lost: bool, tmp_path: Path) -> None:
    """CUPTI records the synchronization and not always its call; without it the CPU seems to work all the time."""
    run = Gpu()
    for _ in range(80):
        run.launch("matmul_gemm_kernel", 400_000)
    run.synchronise()
    path = tmp_path / "run.sqlite"
    writers.write_nsys(path, [run.finished().timeline])
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, "
            "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER)"
        )
        waits = (
            "CUPTI_ACTIVITY_KIND_RUNTIME where nameId in (select id from StringIds where value like '%Synchronize%')"
        )
        file.execute(
            "insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION "
            f"select start, end, 0, -1, correlationId, globalTid & ~16777215, 4 from {waits}"
        )
        if is_lost:  # a call of another process may have its number
            file.execute(
                "update CUPTI_ACTIVITY_KIND_RUNTIME set globalTid = globalTid + (1 << 24), end = start + 1, "
                "nameId = (select min(nameId) from CUPTI_ACTIVITY_KIND_RUNTIME) "
                f"where rowid in (select rowid from {waits})"
            )
    with opened(path, db=tmp_path / "x.duckdb") as database:
        assert database.rows("select kind, call_cnt from sync_summary") == [("device", 1)]
        assert database.rows("select count(*) from api_call") == [(len(run.timeline.calls) + is_lost,)]
        ((critical,),) = database.rows("select sum(critical_frac) from critical_path where activity = 'kernel'")
    assert critical > 0.95
