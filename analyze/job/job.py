"""What is done with a job: read its inputs, put them together, open it."""

import dataclasses
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ... import sql
from ...errors import InputError, UsageError
from ...progress import Progress, Silent
from ...sql import quoted
from .. import fillers
from ..ranks import alike
from ..read import inputs
from ..read.exports import Exports
from ..read.inputs import Input
from ..store.database import Database
from ..store.jobs import JobInput, job_inputs, open_job
from ..store.settings import Settings
from . import folder, handed, merging, remote, running
from .executors import Executor
from .folder import Task, Wanted
from .unit import is_finished

if TYPE_CHECKING:
    import pyarrow as pa

_PATTERN = set("*?[")
_TABLES = (*handed.TABLES, *handed.MATCHED, *handed.CONSTANT)  # of its database


@dataclass(frozen=True)
class Done:
    """What became of the inputs that were to be read here, of so many in all."""

    outcomes: running.Outcomes
    input_cnt: int

    def count(self, what: str) -> int:
        """How many inputs were 'read', 'found' or 'lost'."""
        return sum(outcome.what == what for outcome in self.outcomes.values())

    @property
    def lost(self) -> list[tuple[Task, str]]:
        """The inputs without a result, and why."""
        return [(task, outcome.text) for task, outcome in self.outcomes.items() if outcome.what == "lost"]


def read(
    named: Sequence[str],
    job: Path,
    executor: Executor,
    *,
    force: bool = False,
    progress: Progress | None = None,
    settings: Settings | None = None,
) -> Done:
    """Let an executor read the inputs of a job that are not finished yet.

    Raises InputError for an input that is not there, OutputError for a folder that cannot be written.
    """
    text, progress = (settings or Settings()).text, progress or Silent()
    with Exports(progress) as exports:
        found = tasks(named, job, text, exports)
        folder.make(job, text)
        _drop_former(found, job)
        own = executor.share(found)
        if executor.kind != "dask":
            own = [task if is_finished(task) and not force else _exported(task, exports) for task in own]
        return Done(running.run(executor, own, progress, force=force), len(found))


def _exported(task: Task, exports: Exports) -> Task:
    """The same, with an export where it is one process of a report: others read the same one."""
    if task.process is None:
        return task
    item = inputs.of_process(inputs.recognise(Path(task.file)), task.process, task.whose)
    (item,) = inputs.with_exports([item], exports)
    return dataclasses.replace(task, export=str(item.export or ""))


def tasks(named: Sequence[str], job: Path, settings: str, exports: Exports) -> list[Task]:
    """The inputs that words of a command line name, each once, in the same order wherever it is given.

    Raises InputError when a word names nothing.
    """
    found: list[Task] = []
    items: list[Input] = []
    for word in named:
        if remote.is_url(word) and not word.startswith("file://"):
            found += [Task(location, size, stamp, "") for location, size, stamp in remote.find(word)]
        else:
            items += _behind(word, exports)
    found += [
        Task(
            str(item.path.parent.resolve() / item.path.name) + (f"#{item.whose}" if item.whose else ""),
            item.size_bytes, str(item.mtime_ns), "", problem=item.problem, process=item.process, whose=item.whose,
            export=str(item.export or ""),
        )
        for item in inputs.told_apart(items)
    ]  # fmt: skip
    by_location = {task.location: task for task in found}
    return [
        dataclasses.replace(by_location[location], folder=folder.folder_of(job, location), settings=settings)
        for location in sorted(by_location)
    ]


def _behind(word: str, exports: Exports) -> list[Input]:
    """The inputs on this machine behind one word."""
    path = unquote(urlsplit(word).path) if remote.is_url(word) else word
    names = [path]
    if set(path) & _PATTERN and not Path(path).exists():
        names = sorted(glob(path, recursive=True))  # noqa: PTH207 (of a pattern that may be absolute)
        if not names:
            raise InputError(f"no file matches {word}")
    return [item for name in names for item in inputs.listed(Path(name), exports)]


def _drop_former(tasks: Sequence[Task], job: Path) -> None:
    """Remove what is left of these files' other inputs: a file that was one input may be several processes now."""
    files, named = {task.file for task in tasks}, {task.location for task in tasks}
    for entry in merging.entries(job):
        is_of_these = entry.location in files or entry.location.rpartition("#")[0] in files
        if is_of_these and entry.location not in named:
            shutil.rmtree(entry.folder, ignore_errors=True)


def merge(job: Path, progress: Progress | None = None, *, force: bool = False) -> merging.Merged:
    """Put together what is there, unless that has been done. Raises InputError for what is no job or holds nothing."""
    if not job.exists():
        raise InputError(f"no such folder: {job}")
    if not folder.is_job(job):
        raise InputError(f"{job} is not a job folder; `lorabench analyze INPUT... -o JOB/ --workers N` makes one")
    if not force:
        with suppress(InputError):
            known = job_inputs(job / folder.DATABASE)
            if merging.is_current(job, known):
                lost = tuple(known_input.location for known_input in known if known_input.result_ns is None)
                return merging.Merged(len(known) - len(lost), len(lost))
    return merging.merge(job, progress or Silent())


def opened(job: Path, wanted: Wanted, writes_into: Path | None = None) -> Database:
    """Open a job that is merged. Raises InputError for one that is not, and for a part that is not there."""
    path = job / folder.DATABASE
    if not path.is_file():
        raise InputError(f"{job} is not merged yet: lorabench merge {job}")
    known = job_inputs(path)
    part = None
    if wanted.rank is not None:
        part = _part_of(job, known, wanted.rank)
    elif wanted.is_first:
        part = next((_part(job, one) for one in known if _part(job, one)[0].is_file()), None)
    given = (*handed.VIEWS, *handed.MERGED)
    database = open_job(path, _TABLES, given, part, _elsewhere(job), writes_into)
    results = [
        (one.source_id, job / folder.INPUTS / one.folder / folder.LARGE) for one in known if one.result_ns is not None
    ]
    database.give(handed.LARGE)
    database.filling({view: partial(_large, database, results, view) for view in handed.LARGE})
    database.filling({"_replayed_rank": partial(alike.rows, database)})
    if part is not None:
        fillers.fill(database, without=("followed_rule", "replayed_step", "predicted_change", "_finding"))
    if not merging.is_current(job, known):
        database.notes.append(f"{job} holds newer results than it was merged of: lorabench merge {job}")
    return database


def _large(database: Database, results: Sequence[tuple[int, Path]], view: str) -> "pa.Table":
    return merging.large(results, view, database.connection.sql(f"from main.{quoted(view)} limit 0").to_arrow_table())


def _part_of(job: Path, known: Sequence[JobInput], rank: int) -> tuple[Path, int]:
    """The part of a rank. Raises UsageError for a rank that is not there, InputError for a part that is not there."""
    of_rank = [one for one in known if one.rank == rank and one.result_ns is not None]
    if not of_rank:
        ranks = sorted({one.rank for one in known if one.rank is not None})
        raise UsageError(f"{job} has no rank {rank}; it has {f'{ranks[0]} to {ranks[-1]}' if ranks else 'none'}")
    path, source_id = _part(job, of_rank[0])
    if not path.is_file():
        raise InputError(f"{path} is not there any more; read {of_rank[0].location} itself")
    return path, source_id


def _part(job: Path, one: JobInput) -> tuple[Path, int]:
    return job / folder.INPUTS / one.folder / folder.PART, one.source_id


def _elsewhere(job: Path) -> dict[str, str]:
    """What is said of tables and views that have a row for each event: they are in the parts."""
    tables = {file.name for file in sql.in_folder(sql.TABLES)} - {*_TABLES}
    return {
        name: f"{name} has a row for each event, which stays with its rank: add --rank N (in Python open(…, rank=N))"
        for name in (*handed.ROW_LEVEL, *tables)
    }
