"""An nsys export of several processes as an export for each of them: of one report of a whole node its ranks.

    node.sqlite                      DIR/rank0.sqlite   process 4711, first GPU 0
      process 4711, GPU 0    ──►     DIR/rank1.sqlite   process 4712, first GPU 1
      process 4712, GPU 1
      process 4700, no GPU           (left out: the launcher, workers that load data)

Tables of events say the process in globalTid or globalPid (its number, 24 bits further left; a thread's number in the
lowest 24), tables about the target in processId or pid. What says no process is every rank's.
"""

import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from ... import unfinished
from ...errors import CorruptInputError, InputError, OutputError
from ...progress import Progress
from . import nsys_metrics, nsys_report
from .inputs import Kind, recognise, spare
from .nsys_processes import PROCESS_MASK, WORK, Process, apart, gpus, in_ranks, meeting, statement_of_counts, with_work
from .nsys_sqlite import checked
from .nsys_tables import WHAT_TO_DO, Export, guarded


def split(report: Path, folder: Path, progress: Progress, *, force: bool = False) -> list[tuple[Path, Process]]:
    """Write an export for each process with GPU work, in order of their devices; returns the files.

    report: an nsys report or its export. Raises InputError for what is neither and for one with less than two such
    processes, ToolError when it cannot be exported, CorruptInputError for one that is damaged, OutputError when a file
    cannot be written or is there already and not `force`d.
    """
    if report.is_dir():
        raise InputError(f"{report} is a folder; name one nsys report")
    kind = recognise(report).kind
    if kind is Kind.NSYS_SQLITE:
        return _split(report, checked(report), folder, progress, force)
    if kind is not Kind.NSYS_REPORT:
        raise InputError(f"{report} is not an nsys report but a {kind.value}: it is of one process already")
    progress.step("nsys export")
    with nsys_report.exported(report) as path:
        return _split(report, checked(path), folder, progress, force)


def _split(report: Path, export: Export, folder: Path, progress: Progress, force: bool) -> list[tuple[Path, Process]]:
    found = _processes(export)
    if len(found) < 2:
        what = "one process has" if found else "no process has"
        raise InputError(f"{report}: {what} GPU work, so there is nothing to split; analyze it as it is")
    made = [(folder / f"{process.called}.sqlite", process) for process in found]
    spare([export.path], *(target for target, _ in made))
    shared = _shared(export) if nsys_metrics.TABLE in export.columns else set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = [target.name for target, _ in made if target.exists()]
        if there and not force:
            raise OutputError(f"{folder} has {', '.join(there[:3])} already; choose another place for -o, or --force")
        for target, process in made:
            progress.step(f"process {process.pid}", len(export.columns))
            _write(export, target, process, shared, progress)
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return made


def _processes(export: Export) -> list[Process]:
    """Those with GPU work: as they are read in one file, else in the order of their devices."""
    tables = _tables(export)
    if not tables:
        return []
    if found := apart(export.path):
        return found
    with closing(guarded(sqlite3.connect(export.uri, uri=True))) as connection:
        met = meeting(connection)
    return in_ranks(export.path, with_work(export.select(statement_of_counts(tables)), {}), met)


def _shared(export: Export) -> set[int]:
    """nsys' numbers of the GPUs on which several processes work."""
    with closing(guarded(sqlite3.connect(export.uri, uri=True))) as connection:
        found = with_work(export.select(statement_of_counts(_tables(export))), gpus(connection))
    return {gpu for one in found for other in found if one is not other for gpu in one.gpus & other.gpus}


def _tables(export: Export) -> list[str]:
    """Those of work that say of which process it is."""
    return [name for name in WORK if {"globalpid", "deviceid"} <= export.columns.get(name, {}).keys()]


def _write(export: Export, path: Path, process: Process, shared: Collection[int], progress: Progress) -> None:
    """Copy what is of one process, and what says none; the file is there when it is whole.

    shared: GPUs of several processes, whose counters are of none.
    """
    partial = unfinished.beside(path)
    try:
        with closing(guarded(sqlite3.connect(partial, isolation_level=None, uri=True))) as target:
            target.execute("pragma journal_mode = off")
            target.execute("pragma synchronous = off")
            target.execute("attach ? as export", [export.uri])
            target.execute("begin")
            for name, columns in export.columns.items():
                table = _quoted(name)
                chosen = _chosen(columns, process)
                if name == nsys_metrics.TABLE and "typeid" in columns and shared:
                    chosen = (
                        f"{_quoted(columns['typeid'])} & {nsys_metrics.GPU_MASK} not in ({', '.join(map(str, shared))})"
                    )
                target.execute(f"create table main.{table} as select * from export.{table} where {chosen}")
                progress.advance(1)
            target.execute("commit")
        partial.replace(path)
    except sqlite3.Error as error:
        raise CorruptInputError(f"{export.path} cannot be split: {error}; {WHAT_TO_DO}") from error
    finally:
        partial.unlink(missing_ok=True)


def _chosen(columns: dict[str, str], process: Process) -> str:
    """Which rows of a table are a process's: by the first column that says it."""
    for name in ("globalpid", "globaltid"):
        if name in columns:
            column = _quoted(columns[name])
            return f"{column} is null or {column} & {PROCESS_MASK} = {process.global_id}"
    if own := next((columns[name] for name in ("processid", "pid") if name in columns), None):
        column = _quoted(own)
        return f"{column} is null or {column} = {process.pid}"
    return "true"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
