"""What is done with a job: read its inputs, put them together, open it."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ... import sql
from ...errors import InputError, UsageError
from ...progress import Progress, Silent
from ...sql import quoted
from .. import fillers
from ..ranks import alike
from ..read.exports import Exports
from ..store.database import Database
from ..store.jobs import JobInput, job_inputs, made_by, open_job
from ..store.settings import Settings
from . import folder, handed, merging, named, running, upgrading
from .executors import Executor
from .folder import Task, Wanted
from .unit import is_finished

if TYPE_CHECKING:
    import pyarrow as pa

_TABLES = (*handed.TABLES, *handed.MATCHED, *handed.CONSTANT)  # of its database


@dataclass(frozen=True)
class Done:
    """What became of the inputs that were to be read here, of so many in all."""

    outcomes: running.Outcomes
    input_cnt: int
    others: Sequence[merging.Entry] = ()  # what lies in the folder besides: inputs of earlier commands

    def count(self, what: str) -> int:
        """How many inputs were 'read', 'found' or 'lost'."""
        return sum(outcome.what == what for outcome in self.outcomes.values())

    @property
    def lost(self) -> list[tuple[Task, str]]:
        """The inputs without a result, and why."""
        return [(task, outcome.text) for task, outcome in self.outcomes.items() if outcome.what == "lost"]


def read(
    words: Sequence[str],
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
        found = named.tasks(words, job, text, exports)
        folder.make(job, text)
        if not force:
            upgrading.require_none_newer(job)
        _drop_former(found, job)
        own = executor.share(found)
        if executor.kind != "dask":
            own = [task if is_finished(task) and not force else named.exported(task, exports) for task in own]
        outcomes = running.run(executor, own, progress, force=force)
        locations = {task.location for task in found}
        others = [entry for entry in merging.entries(job) if entry.size_bytes is not None]
        return Done(outcomes, len(found), [entry for entry in others if entry.location not in locations])


def _drop_former(tasks: Sequence[Task], job: Path) -> None:
    """Remove what is left of these files' other inputs: a file that was one input may be several processes now."""
    files, locations = {task.file for task in tasks}, {task.location for task in tasks}
    for entry in merging.entries(job):
        is_of_these = entry.location in files or entry.location.rpartition("#")[0] in files
        if is_of_these and entry.location not in locations:
            shutil.rmtree(entry.folder, ignore_errors=True)


def merge(job: Path, progress: Progress | None = None, *, force: bool = False) -> merging.Merged:
    """Put together what is there, unless that has been done; results of earlier versions are upgraded first.

    Raises InputError for what is no job, holds nothing or is of a newer version.
    """
    if not job.exists():
        raise InputError(f"no such folder: {job}")
    if not folder.is_job(job):
        raise InputError(f"{job} is not a job folder; `lorabench analyze INPUT... -o JOB/ --workers N` makes one")
    progress = progress or Silent()
    problems = upgrading.upgrade(job, progress)
    if not force and (job / folder.DATABASE).is_file():
        with suppress(InputError):
            known = job_inputs(job / folder.DATABASE) if made_by(job / folder.DATABASE) == folder.versions() else []
            if known and merging.is_current(job, known):
                lost = [(one.location.rsplit("/", 1)[-1], one.problem) for one in known if one.problem is not None]
                return merging.Merged(len(known) - len(lost), tuple(lost))
    return merging.merge(job, progress, problems)


def opened(job: Path, wanted: Wanted, writes_into: Path | None = None, progress: Progress | None = None) -> Database:
    """Open a job that is merged; one of an earlier version is upgraded in the cache.

    Raises InputError for a job that is not merged, and for a part that is not there.
    """
    if not (job / folder.DATABASE).is_file():
        raise InputError(f"{job} is not merged yet: lorabench merge {job}")
    place = upgrading.readable(job, progress or Silent())
    path = place / folder.DATABASE
    known = job_inputs(path)
    part = None
    if wanted.rank is not None:
        part = _part_of(job, place, known, wanted.rank)
    elif wanted.is_first:
        part = next((_part(place, one) for one in known if _part(place, one)[0].is_file()), None)
    given = (*handed.VIEWS, *handed.MERGED)
    database = open_job(path, _TABLES, given, part, _elsewhere(job), writes_into)
    results = [
        (one.source_id, place / folder.INPUTS / one.folder / folder.LARGE) for one in known if one.problem is None
    ]
    database.give(handed.LARGE)
    database.filling({view: partial(_large, database, results, view) for view in handed.LARGE})
    database.filling({"_replayed_rank": partial(alike.rows, database)})
    if part is not None:
        fillers.fill(database, without=("followed_rule", "replayed_step", "predicted_change", "_finding"))
    if place != job:
        database.notes.append(
            f"{job} was made by an earlier version: it is read from the cache, upgraded; "
            f"to upgrade it for good: lorabench merge {job}"
        )
    elif not merging.is_current(job, known):
        database.notes.append(f"{job} {_newer(job)}")
    return database


def _newer(job: Path) -> str:
    return f"holds newer results than it was merged from: lorabench merge {job}"


def _large(database: Database, results: Sequence[tuple[int, Path]], view: str) -> "pa.Table":
    return merging.large(results, view, database.connection.sql(f"from main.{quoted(view)} limit 0").to_arrow_table())


def _part_of(job: Path, place: Path, known: Sequence[JobInput], rank: int) -> tuple[Path, int]:
    """The part of a rank. Raises UsageError for a rank that is not there, InputError for a part that is not there."""
    of_rank = [one for one in known if one.rank == rank and one.problem is None]
    if not of_rank:
        ranks = sorted({one.rank for one in known if one.rank is not None})
        is_whole = len(ranks) > 1 and ranks[-1] - ranks[0] == len(ranks) - 1
        said = f"{ranks[0]} to {ranks[-1]}" if is_whole else ", ".join(map(str, ranks)) or "none"
        newer = "" if merging.is_current(job, known) else f"; {_newer(job)}"
        raise UsageError(f"{job} has no rank {rank}; it has {said}{newer}")
    path, source_id = _part(place, of_rank[0])
    if not path.is_file():
        raise InputError(f"{_part(job, of_rank[0])[0]} is not there any more; read {of_rank[0].location} itself")
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
