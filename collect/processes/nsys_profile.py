"""A command under `nsys profile`: found, version-checked, watched, exported, made fit to be shared."""

import re
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ... import nsys
from ...errors import ToolError
from .supervision import Ended, kill_mentioning, run

OLDEST = (2020, 3)
_TELLS_NODES = (2022, 4)  # the first version that was seen to know the option
_RANGES = (59, 60, 70, 71)  # nsys' numbers of push/pop and start/end ranges
_ATTEMPTS = 3
# What nsys says when it lost its own agent, which happens on busy machines: on a line alone, where a command that says
# the same has a traceback around it.
_LOST_AGENT = re.compile(
    r"^(?:Connection reset by peer|Broken pipe|End of file|.*Local Endpoint is not available.*|.*ProcessWaiter.*)$",
    re.M,
)
# What an export says of the machine, its environment and its processes.
_PRIVATE_TABLES = ("TARGET_INFO_SYSTEM_ENV", "PROCESSES", "ProcessStreams")
_REFERS_TO_TEXT = re.compile("(name|nameid|textid|stringid|symbol|module)$", re.IGNORECASE)
_PRIVATE_NAMES = ("%HOST%", "%USER%", "%COMMAND%", "%PATH%", "%ARGUMENT%", "%WORKING%", "%ENVIRONMENT%", "%HOME%")


@dataclass(frozen=True)
class Report:
    """What nsys left: the report, its export, and how the command ended."""

    ended: Ended
    report: Path | None
    exported: Path | None


def usable() -> str:
    """The nsys to use. Raises ToolError that says what to do when there is none or it is too old."""
    found = nsys.find()
    if found is None:
        raise ToolError("nsys is not installed; install Nsight Systems to record with it")
    version = nsys.version(found)
    if version < OLDEST:
        shown = ".".join(map(str, version)) or "of unknown version"
        raise ToolError(f"nsys {shown} is too old; install {'.'.join(map(str, OLDEST))} or later")
    return found


def profile(
    command: list[str], environment: dict[str, str], stem: Path, log: Path, timeout_s: float,
    heard: Callable[[str], None], has_capture: bool, shown: Callable[[bool, bytes], None] | None = None,
) -> Report:  # fmt: skip
    """Run a command under nsys and leave STEM.nsys-rep and STEM.sqlite.

    has_capture: record only what lies between cudaProfilerStart and cudaProfilerStop, which nsys sees on a GPU alone.
    Raises ToolError when nsys is missing, too old, or leaves no report.
    """
    tool = usable()
    # by default a CUDA graph is one thing without kernels
    of_graphs = ["--cuda-graph-trace=node"] if nsys.version(tool) >= _TELLS_NODES else []
    ended = Ended(1, False, "")
    for _ in range(_ATTEMPTS):
        before = log.stat().st_size if log.exists() else 0
        session = f"lorabench-{uuid.uuid4().hex[:12]}"
        words = [
            tool, "profile", f"--session-new={session}", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none",
            "--force-overwrite=true", "--wait=primary", "--output", str(stem),
        ]  # fmt: skip
        words += of_graphs
        if has_capture:
            words += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
        try:
            ended = run([*words, *command], environment, log, timeout_s, heard, shown)
        finally:
            kill_mentioning(session)
        report = _report(stem)
        has_lost = report is None and _lost_agent(ended, log, before)
        if not has_lost:
            break
    if has_lost:
        raise ToolError("nsys lost its own agent, as it does on busy machines; run this pass again")
    if report is None:
        return Report(ended, None, None)
    exported = stem.with_suffix(".sqlite")
    nsys.export(tool, report, exported)
    make_private(exported)
    return Report(ended, report, exported)


def _lost_agent(ended: Ended, log: Path, before: int) -> bool:
    """Whether nsys failed, and not the command, by what the log says behind so many bytes."""
    said = log.read_bytes()[before:].decode("utf-8", errors="replace") if ended.code > 0 and not ended.timed_out else ""
    return _LOST_AGENT.search(said) is not None


def _report(stem: Path) -> Path | None:
    """The report that nsys left; a stream that it could not import is imported here."""
    stream, report = stem.with_suffix(".qdstrm"), stem.with_suffix(".nsys-rep")
    if not report.exists() and stream.exists():
        nsys.import_stream(stream, report)
        stream.unlink()
    return report if report.exists() else None


def has_events(exported: Path) -> bool:
    """Whether an export holds ranges or CUDA activity: nsys writes no table without rows."""
    with closing(sqlite3.connect(exported)) as file:
        names = [str(name) for (name,) in file.execute("select name from sqlite_master where type = 'table'")]
        wanted = [f'"{name}"' for name in names if name.startswith("CUPTI_ACTIVITY_KIND_")]
        if "NVTX_EVENTS" in names:  # which also has a row for each library that was ready to open some
            wanted.append(f"NVTX_EVENTS where eventType in {_RANGES}")
        return any(file.execute(f"select 1 from {rows} limit 1").fetchone() for rows in wanted)


def make_private(path: Path) -> None:
    """Take out of an export what names the machine, its environment, its processes and its users.

    nsys records the environment and the threads of every process that it may look at, not only of its own. What is left
    are the strings that events refer to and the threads that have events. The report itself cannot be changed.
    """
    with closing(sqlite3.connect(path)) as file:
        columns = {
            str(table): [str(row[1]) for row in file.execute(f'pragma table_info("{table}")')]
            for (table,) in file.execute("select name from sqlite_master where type = 'table'").fetchall()
        }
        for table in columns.keys() & set(_PRIVATE_TABLES):
            file.execute(f'drop table "{table}"')
            del columns[table]
        for table, names in columns.items():
            if "META_DATA" in table or table == "TARGET_INFO_SYSTEM_INFO":
                conditions = " or ".join("upper(name) like ?" for _ in _PRIVATE_NAMES)
                if "name" in names:
                    file.execute(f'delete from "{table}" where {conditions}', _PRIVATE_NAMES)
        _keep_own_threads(file, columns)
        _keep_used_strings(file, columns)
        file.commit()
        file.execute("vacuum")


def _keep_own_threads(file: sqlite3.Connection, columns: dict[str, list[str]]) -> None:
    events = [t for t, names in columns.items() if "globalTid" in names and t != "ThreadNames"]
    if "ThreadNames" in columns:
        own = " union ".join(f'select globalTid from "{t}"' for t in events) or "select null"
        file.execute(f"delete from ThreadNames where globalTid not in ({own}) or globalTid is null")


def _keep_used_strings(file: sqlite3.Connection, columns: dict[str, list[str]]) -> None:
    if "StringIds" not in columns:
        return
    file.execute("create temp table used (id integer primary key)")
    for table, names in columns.items():
        for name in names:
            if table != "StringIds" and _REFERS_TO_TEXT.search(name):
                file.execute(
                    f'insert or ignore into used select "{name}" from "{table}" where typeof("{name}") = \'integer\''
                )
    file.execute("delete from StringIds where id not in (select id from used)")
