"""Every broken input ends in one clear line and an exit code, or in a report that says what was lost."""

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest
from conftest import ROOT, Ended, opened
from lorabench.errors import CorruptInputError, InputError, LorabenchError, UnknownFormatError

Make = Callable[..., Path]


@pytest.fixture
def sqlite(synthetic_trace: Make, tmp_path: Path) -> Path:
    return Path(shutil.copy(synthetic_trace("nsys"), tmp_path / "run.sqlite"))


@pytest.fixture
def trace(synthetic_trace: Make) -> bytes:
    return synthetic_trace("kineto").read_bytes()


def edited(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as file, file:
        for statement in statements:
            file.execute(statement)
    return path


def facts(path: Path, tmp_path: Path, section: str) -> dict[str, tuple[str, str]]:
    with opened(path, db=tmp_path / "facts.duckdb", force=True) as database:
        rows = database.rows("select item, value, note from trace_info where section = ?", section)
    return {item: (value, note) for item, value, note in rows}


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def refused(path: Path, tmp_path: Path, error: type[LorabenchError]) -> str:
    with pytest.raises(error) as raised:
        opened(path, db=tmp_path / "never.duckdb").close()
    assert "\n" not in str(raised.value)
    assert list(tmp_path.glob("*never*")) == [], "something half-written was left behind"
    return str(raised.value)


def _archived(content: bytes, mode: Literal["w", "w:gz"]) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as archive:
        member = tarfile.TarInfo("run.sqlite")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return held.getvalue()


def _zipped(content: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("run.sqlite", content)
    return held.getvalue()


@pytest.mark.parametrize(
    ("pack", "command"),
    [
        (gzip.compress, "gunzip"),
        (bz2.compress, "bzip2"),
        (lzma.compress, "xz"),
        (lambda content: b"\x28\xb5\x2f\xfd" + content, "zstd"),
        (lambda content: _archived(content, "w"), "tar"),
        (lambda content: _archived(content, "w:gz"), "tar"),
        (_zipped, "unzip"),
    ],
    ids=["gzip", "bzip2", "xz", "zstd", "tar", "tar.gz", "zip"],
)
def test_a_packed_export_is_not_called_damaged(
    sqlite: Path, tmp_path: Path, pack: Callable[[bytes], bytes], command: str
) -> None:
    packed = written(tmp_path / "run.packed", pack(sqlite.read_bytes()))
    assert f"`{command}" in refused(packed, tmp_path, UnknownFormatError)


def test_a_checkpoint_is_not_advised_to_be_unpacked(tmp_path: Path) -> None:
    """What torch.save() writes is a zip archive."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("adapter_model/data.pkl", b"\x80\x02}q\x00.")
    said = refused(written(tmp_path / "adapter_model.bin", held.getvalue()), tmp_path, UnknownFormatError)
    assert "torch.save() writes" in said and "unzip" not in said


@pytest.mark.parametrize("suffix", ["sqlite", "json", "json.gz", "nsys-rep"])
def test_an_empty_file_is_said_to_be_empty(suffix: str, tmp_path: Path) -> None:
    assert "is empty" in refused(written(tmp_path / f"run.{suffix}", b""), tmp_path, CorruptInputError)


def test_text_is_no_trace_whatever_its_name(tmp_path: Path) -> None:
    assert "neither" in refused(written(tmp_path / "run.sqlite", b"hello"), tmp_path, UnknownFormatError)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "no such file: " in refused(tmp_path / "nowhere.sqlite", tmp_path, InputError)


def test_an_empty_folder_says_what_would_be_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert "folder without traces" in refused(tmp_path / "run", tmp_path, InputError)


def test_a_sweep_is_said_to_be_one(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    for name in ("rank=4", "rank=8"):
        (folder / name).mkdir(parents=True)
    (folder / "sweep.json").write_text("{}")
    assert "is a sweep; its runs hold no traces" in refused(folder, tmp_path, InputError)
    (folder / "sweep.html").write_text("")
    for name in ("rank=4", "rank=8"):
        written(folder / name / "trace.json", b"{}")
    said = refused(folder, tmp_path, InputError)
    assert f"is a sweep; its page is {folder / 'sweep.html'}; give one of its runs, as {folder / 'rank=4'}" in said


def test_an_export_cut_off_in_the_middle_says_how_much_is_there(sqlite: Path, tmp_path: Path) -> None:
    whole = sqlite.read_bytes()
    said = refused(written(tmp_path / "cut.sqlite", whole[:20_000]), tmp_path, CorruptInputError)
    assert f"20000 of {len(whole)} bytes" in said


def test_an_export_with_damaged_pages_is_refused(sqlite: Path, tmp_path: Path) -> None:
    damaged = bytearray(sqlite.read_bytes())
    damaged[8192:12288] = b"\xff" * 4096
    refused(written(tmp_path / "damaged.sqlite", bytes(damaged)), tmp_path, CorruptInputError)


def test_an_export_that_is_still_written_is_refused(sqlite: Path, tmp_path: Path) -> None:
    written(sqlite.with_name("run.sqlite-journal"), b"x")
    assert "not finished" in refused(sqlite, tmp_path, CorruptInputError)


def test_another_sqlite_database_is_no_export(tmp_path: Path) -> None:
    edited(tmp_path / "other.sqlite", "create table a (x)")
    assert "not one that" in refused(tmp_path / "other.sqlite", tmp_path, UnknownFormatError)


@pytest.mark.parametrize(("value", "kind"), [("'abc'", "text"), ("1.5", "real"), ("x'00'", "blob")])
def test_a_time_of_the_wrong_type_is_named(sqlite: Path, tmp_path: Path, value: str, kind: str) -> None:
    for row in ("min", "max"):  # in the first batch, where the type is inferred, and behind it
        edited(
            sqlite,
            f"update CUPTI_ACTIVITY_KIND_KERNEL set start = {value} "
            f"where rowid = (select {row}(rowid) from CUPTI_ACTIVITY_KIND_KERNEL)",
        )
    said = refused(sqlite, tmp_path, CorruptInputError)
    assert f"column start of table CUPTI_ACTIVITY_KIND_KERNEL holds {kind}" in said


def test_a_number_that_is_too_large_for_its_column_is_named(sqlite: Path, tmp_path: Path) -> None:
    edited(sqlite, f"update CUPTI_ACTIVITY_KIND_KERNEL set deviceId = {2**40} where rowid = 3")
    said = refused(sqlite, tmp_path, CorruptInputError)
    assert "out of range" in said
    assert "device_id" in said


def test_a_table_without_a_needed_column_is_named(sqlite: Path, tmp_path: Path) -> None:
    edited(sqlite, "alter table CUPTI_ACTIVITY_KIND_KERNEL drop column start")
    assert "no column start" in refused(sqlite, tmp_path, CorruptInputError)


@pytest.mark.parametrize("table", ["KERNEL", "RUNTIME", "MEMCPY", "MEMSET"])
def test_a_missing_table_is_no_error(sqlite: Path, tmp_path: Path, table: str) -> None:
    edited(sqlite, f"drop table CUPTI_ACTIVITY_KIND_{table}")
    missing = facts(sqlite, tmp_path, "missing")
    assert (f"CUPTI_ACTIVITY_KIND_{table}" in missing) == (table in ("KERNEL", "RUNTIME"))


def test_without_nvtx_all_work_is_unattributed(sqlite: Path, tmp_path: Path) -> None:
    edited(sqlite, "drop table NVTX_EVENTS")
    with opened(sqlite, db=tmp_path / "x.duckdb") as database:
        total = database.rows("select sum(kernel_ns) from kernel_summary")
        assert database.rows("select sum(kernel_ns) from unattributed") == total
        assert database.view("range_summary").is_empty()


def test_rows_without_an_end_are_counted_and_ranges_without_one_are_closed(sqlite: Path, tmp_path: Path) -> None:
    edited(
        sqlite,
        "update CUPTI_ACTIVITY_KIND_KERNEL set end = null where rowid < 3",
        "update CUPTI_ACTIVITY_KIND_RUNTIME set end = start - 1 where rowid = 7",
        "update NVTX_EVENTS set end = null where rowid < 4",
    )
    lost = facts(sqlite, tmp_path, "lost")
    assert lost["CUPTI_ACTIVITY_KIND_KERNEL"][0] == "2"
    assert lost["CUPTI_ACTIVITY_KIND_RUNTIME"][0] == "1"
    assert facts(sqlite, tmp_path, "holds")["ranges without an end"][0] == "3"


def test_negative_times_give_the_same_durations(sqlite: Path, synthetic_trace: Make, tmp_path: Path) -> None:
    tables = ("KERNEL", "RUNTIME", "MEMCPY", "MEMSET")
    shift = "set start = start - 5000000, end = end - 5000000"
    edited(sqlite, *(f"update CUPTI_ACTIVITY_KIND_{t} {shift}" for t in tables), f"update NVTX_EVENTS {shift}")
    with (
        opened(sqlite, db=tmp_path / "a.duckdb") as shifted,
        opened(synthetic_trace("nsys"), db=tmp_path / "b.duckdb") as plain,
    ):
        assert shifted.view("range_summary").equals(plain.view("range_summary"))
        assert shifted.rows("select min(start_ns) < 0 from range_instance") == [(True,)]


def test_text_that_is_not_utf8_is_replaced_and_counted(sqlite: Path, tmp_path: Path) -> None:
    edited(
        sqlite,
        "update NVTX_EVENTS set text = cast(x'ff61' as text), textId = null where rowid = 3",
        "update StringIds set value = cast(x'fe62' as text) where value like 'ampere_sgemm_128x64_tn'",
    )
    lost = facts(sqlite, tmp_path, "lost")
    assert lost["NVTX_EVENTS text"][0] == lost["StringIds text"][0] == "1"
    with opened(sqlite, db=tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*) from kernel_summary where kernel_name = '\ufffdb'") == [(1,)]


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.first(3)
def test_a_truncated_trace_gives_what_is_whole(trace: bytes, tmp_path: Path, kept: float, packed: bool) -> None:
    content = gzip.compress(trace) if packed else trace
    path = written(tmp_path / "cut.json", content[: int(len(content) * kept)])
    lost = facts(path, tmp_path, "lost")
    why, how_much = lost["end of the file"]
    assert "cut off" in why or "ends in the middle" in why
    assert int(how_much.split()[1]) > 10


def test_a_trace_cut_off_behind_its_last_event_loses_nothing(trace: bytes, tmp_path: Path) -> None:
    events = trace[: trace.rindex(b"]")].rstrip()
    path = written(tmp_path / "cut.json", events)
    with (
        opened(path, db=tmp_path / "a.duckdb") as cut,
        opened(written(tmp_path / "whole.json", trace), db=tmp_path / "b.duckdb") as whole,
    ):
        assert cut.view("range_summary").equals(whole.view("range_summary"))


@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.slow
def test_a_gzip_stream_that_is_cut_off_is_not_blamed_on_the_recording(
    share: float, trace: bytes, tmp_path: Path
) -> None:
    packed = gzip.compress(trace)
    path = written(tmp_path / "cut.json.gz", packed[: int(share * len(packed))])
    lost = facts(path, tmp_path, "lost")
    assert set(lost) == {"end of the file"}, "the event in which it ends is no other loss"
    assert lost["end of the file"][0] == "the gzip stream is cut off"
    for _, note in facts(path, tmp_path, "missing").values():
        assert "activities" not in note
    said = refused(written(tmp_path / "begun.json.gz", packed[:12]), tmp_path, CorruptInputError)
    assert "holds nothing" in said


@pytest.mark.slow
def test_names_with_unescaped_quotes_cost_only_their_event(trace: bytes, tmp_path: Path) -> None:
    before = json.loads(trace)
    number = next(i for i, e in enumerate(before["traceEvents"]) if e["name"] == "ampere_sgemm_128x64_tn")
    before["traceEvents"][number]["name"] = "QUOTE"
    broken = json.dumps(before, indent=1).replace("QUOTE", 'a "b" c')
    path = written(tmp_path / "quotes.json", broken.encode())
    assert facts(path, tmp_path, "lost")["events that are not valid JSON"][0] == "1"
    with opened(path, db=tmp_path / "x.duckdb") as database:
        kernels = sum(e.get("cat") == "kernel" for e in before["traceEvents"])
        assert database.rows("select sum(kernel_cnt) from kernel_summary") == [(kernels - 1,)]


@pytest.mark.parametrize(
    "content",
    [b"{}", b"[]", b'{"traceEvents": []}', b'{"traceEvents": [ {"ph": no', b"[1, 2, 3]", b'{"a": [1'],
)
@pytest.mark.slow
def test_json_without_events_is_refused(content: bytes, tmp_path: Path) -> None:
    refused(written(tmp_path / "run.json", content), tmp_path, InputError)


def test_events_of_foreign_shapes_are_counted_not_read(trace: bytes, tmp_path: Path) -> None:
    events = json.loads(trace)["traceEvents"]
    odd = [
        7,
        None,
        {"ph": "X", "cat": "kernel"},
        {"ph": "X", "cat": "kernel", "ts": "soon", "dur": 1},
        {"args": 7},
    ]
    path = written(tmp_path / "odd.json", json.dumps([*odd, *events]).encode())
    lost = facts(path, tmp_path, "lost")
    assert lost["events kernel"][0] == "2"
    assert lost["entries that are not events"][0] == "3"


@pytest.mark.parametrize(
    "about",
    [
        {"distributedInfo": {"rank": "zero", "world_size": [1]}},
        {"distributedInfo": 7, "deviceProperties": "none"},
        {"deviceProperties": [7, {"id": "a"}, {"id": 1 << 70, "name": {"x": 1}}]},
        {"baseTimeNanoseconds": "yesterday", "schemaVersion": {"a": 1}},
    ],
)
@pytest.mark.first(2)
@pytest.mark.slow
def test_metadata_of_foreign_types_is_left_out(about: dict[str, object], trace: bytes, tmp_path: Path) -> None:
    content = {**about, "traceEvents": json.loads(trace)["traceEvents"]}
    with opened(written(tmp_path / "x.json", json.dumps(content).encode()), db=tmp_path / "x.duckdb") as found:
        assert found.rows("select rank, world_size, origin_ns from source") == [(None, None, None)]


def test_a_memory_event_that_cannot_be_read_costs_only_itself(trace: bytes, tmp_path: Path) -> None:
    events = json.loads(trace)["traceEvents"]
    memory = {"ph": "i", "name": "[memory]", "pid": 1, "ts": 5, "args": {"Bytes": 8, "Addr": (1 << 64) - 1}}
    broken = memory | {"args": {"Bytes": "many"}}
    path = written(tmp_path / "x.json", json.dumps([memory, broken, *events]).encode())
    with opened(path, db=tmp_path / "x.duckdb") as found:
        assert found.rows("select bytes, address from memory_event") == [(8, None)]
        kernels = sum(e.get("cat") == "kernel" for e in events)
        assert found.rows("select sum(kernel_cnt) from kernel_summary") == [(kernels,)]


def test_nsys_metadata_of_foreign_types_is_left_out(sqlite: Path, tmp_path: Path) -> None:
    edited(
        sqlite,
        "update TARGET_INFO_SESSION_START_TIME set utcEpochNs = 'never'",
        "update TARGET_INFO_GPU set id = 'a', cuDevice = 'b', totalMemory = 'c'",
        "update ThreadNames set globalTid = 'main'",
        "insert into NVTX_EVENTS (start, eventType, text, globalTid, domainId) values (1, 75, 'd', 'x', 'y')",
    )
    with opened(sqlite, db=tmp_path / "x.duckdb") as found:
        assert found.rows("select origin_ns from source") == [(None,)]
        assert found.rows("select count(*) from thread where name is not null") == [(0,)]


def test_gpus_of_old_exports_have_names(sqlite: Path, tmp_path: Path) -> None:
    edited(sqlite, "alter table TARGET_INFO_GPU rename column id to deviceId")
    with opened(sqlite, db=tmp_path / "x.duckdb") as found:
        assert found.rows("select name from device") == [("Synthetic GPU",)]


def test_a_table_of_warnings_that_cannot_be_read_costs_the_warnings(sqlite: Path, tmp_path: Path) -> None:
    edited(sqlite, "create table DIAGNOSTIC_EVENT (severity integer, text text primary key) without rowid",
           "insert into DIAGNOSTIC_EVENT values (2, 'of CUDA')")  # fmt: skip
    with opened(sqlite, db=tmp_path / "x.duckdb") as found:
        assert found.rows("select value from source_fact where item = 'nsys warning'") == [("of CUDA",)]


@pytest.mark.slow
def test_what_nsys_said_stands_where_cuda_is_missing(
    sqlite: Path, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    said = "Installed CUDA driver version (13.1) is not supported by this build of Nsight Systems."
    edited(
        sqlite,
        "create table DIAGNOSTIC_EVENT (timestamp integer, severity integer, text text)",
        f"insert into DIAGNOSTIC_EVENT values (1, 1, 'CUDA is fine'), (2, 2, '{said}'), (3, 3, 'a disk is slow')",
    )
    assert "nsys:" not in run_command("summary", sqlite).out
    edited(
        sqlite,
        *(f"drop table {name}" for name in (
            "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
            "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS",
        )),
    )  # fmt: skip
    told = " ".join(run_command("summary", sqlite).out.split())
    assert f"nsys: {said}" in told and "record with a newer nsys" in told
    assert "fine" not in told and "disk" not in told


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    assert "damaged" in refused(written(tmp_path / "x.json.gz", b"\x1f\x8bgarbage"), tmp_path, CorruptInputError)


def test_a_bomb_does_not_fill_the_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.json.gz", "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents": [')
        for _ in range(40):
            file.write(b" " * (5 << 20))
    refused(tmp_path / "bomb.json.gz", tmp_path, InputError)


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lorabench", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=120, **options,
    )  # fmt: skip


def test_the_command_line_prints_one_line_and_an_exit_code(tmp_path: Path) -> None:
    done = run("analyze", tmp_path / "none.sqlite", "-o", tmp_path / "r.csv")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_inputs_are_never_written(sqlite: Path, tmp_path: Path) -> None:
    sqlite.chmod(0o444)
    folder = tmp_path / "locked"
    folder.mkdir()
    shutil.move(sqlite, folder / "run.sqlite")
    before = (folder / "run.sqlite").read_bytes(), (folder / "run.sqlite").stat().st_mtime_ns
    folder.chmod(0o555)
    try:
        assert run("analyze", folder / "run.sqlite", "-o", tmp_path / "r.csv").returncode == 0
        assert [p.name for p in folder.iterdir()] == ["run.sqlite"]
    finally:
        folder.chmod(0o755)
    assert before == ((folder / "run.sqlite").read_bytes(), (folder / "run.sqlite").stat().st_mtime_ns)


def test_an_input_is_never_the_output(sqlite: Path) -> None:
    before = sqlite.read_bytes()
    assert run("analyze", sqlite, "--db", sqlite, "-o", sqlite.with_name("r.csv")).returncode == 2
    assert sqlite.read_bytes() == before


def test_a_foreign_file_is_never_replaced_by_a_database(sqlite: Path, tmp_path: Path) -> None:
    precious = written(tmp_path / "r.duckdb", b"my thesis")
    done = run("analyze", sqlite, "-o", precious, "--force")
    assert done.returncode == 5 and "exists and is not" in done.stderr
    assert precious.read_bytes() == b"my thesis"


def test_a_file_without_permission_is_named(sqlite: Path, tmp_path: Path) -> None:
    sqlite.chmod(0)
    mine = os.geteuid()
    os.seteuid(65534 if mine == 0 else mine)  # root may read everything
    try:
        with pytest.raises(InputError, match="Permission denied"):
            opened(sqlite, db=tmp_path / "never.duckdb")
    finally:
        os.seteuid(mine)


def test_names_never_become_sql_paths_or_markup(sqlite: Path, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>'; drop table gpu_op; --\"../../x\n[bold]"
    with closing(sqlite3.connect(sqlite)) as file, file:
        file.execute("update StringIds set value = ? where value = 'ampere_sgemm_128x64_tn'", [name])
        file.execute("update NVTX_EVENTS set text = '=cmd()', textId = null where rowid = 1")
    before = set(tmp_path.iterdir())
    assert run("analyze", sqlite, "-o", tmp_path / "out").returncode == 0
    assert set(tmp_path.iterdir()) - before == {tmp_path / "out"}
    with opened(sqlite, db=tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*) from kernel_summary where kernel_name = ?", name) == [(1,)]
    shown = run("analyze", sqlite, "--report", "kernel_summary")
    assert "<script>" in shown.stdout
    safe = run("analyze", sqlite, "-o", tmp_path / "safe.csv", "--escape-formulas")
    assert safe.returncode == 0 and "'=cmd()" in (tmp_path / "safe.csv").read_text()


def test_a_page_is_not_written_under_the_name_of_a_table(run_command: Callable[..., Ended], tmp_path: Path) -> None:
    said = run_command("report", ROOT / "fixtures" / "lora-run.sqlite", "-o", tmp_path / "page.csv", code=2)
    assert "this is a page, name it .html" in said.err and "lorabench analyze INPUT -o page.csv" in said.err
    assert not (tmp_path / "page.csv").exists()
