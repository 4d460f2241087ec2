"""Job folders of earlier versions: what each input hands on is made anew of what is kept of it.

    its part is there             ─► read through the steps of store/upgrades ─┐
    else the input is as it was   ─► read again                                ├─► result of this version ─► merging
    else its result stays as it is, and it is named                            ┘

Each result is replaced at once, so whoever is killed has lost nothing, and whoever comes next goes on. `merge` does so
in the folder itself; who only reads in a folder of links in the cache: like a database, a job is not changed by that.
"""

import dataclasses
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import InputError, LorabenchError, OutputError
from ...progress import Progress
from ..parts import worker_cnt
from ..read.exports import Exports
from ..store import cache
from ..store.jobs import made_by
from . import folder, merging, named, running
from .executors import Executor
from .folder import Task
from .merging import Entry

_WORTH_WORKERS = 8  # upgrading one input takes as long as starting a process
_LINKED = (*folder.FORMER, folder.LARGE, folder.RESULT, folder.PART, folder.PROBLEM)


def upgrade(job: Path, progress: Progress, said: Path | None = None) -> dict[str, str]:
    """Make results of earlier versions anew; why some cannot be, by the names of their folders.

    said: the job of which this one is a copy in the cache; then no input elsewhere is asked for, because a folder may
    come from somebody else. Raises InputError for a job with results of a newer version.
    """
    listed = list(merging.entries(job))
    _require_none_newer(listed, said or job)
    settings = folder.settings_of(job).text
    left = [one for one in listed if one.made_by not in ("", folder.versions()) and one.settings == settings]
    with_part = [_of_part(one, settings) for one in left if (one.folder / folder.PART).is_file()]
    problems = {one.folder.name: "its part.duckdb is not there" for one in left}
    if with_part:
        count = worker_cnt(len(with_part)) if len(with_part) >= _WORTH_WORKERS else 0
        problems = _still(problems, running.run(Executor(worker_cnt=count or None), with_part, progress))
    left = [one for one in left if one.folder.name in problems]
    if left:
        problems = _read_again(left, settings, job, progress, problems, said)
    return {name: f"it was read by another version of lorabench; {why}" for name, why in problems.items()}


def require_none_newer(job: Path) -> None:
    """Raise InputError for a job with results of a newer version."""
    _require_none_newer(merging.entries(job), job)


def _require_none_newer(listed: Iterable[Entry], job: Path) -> None:
    for one in listed:
        if folder.is_newer(one.made_by):
            raise InputError(f"{job} holds results of a newer version of lorabench ({one.name}); update lorabench")


def _of_part(entry: Entry, settings: str) -> Task:
    place = str(entry.folder)
    assert entry.size_bytes is not None  # who made it is known, so its header could be read
    return Task(entry.location, entry.size_bytes, entry.stamp, place, settings=settings, is_upgrade=True)


def _still(problems: dict[str, str], outcomes: running.Outcomes) -> dict[str, str]:
    """The problems of inputs that are left, with what these outcomes say of them."""
    found = dict(problems)
    for task, outcome in outcomes.items():
        name = Path(task.folder).name
        if outcome.what != "lost":
            del found[name]
        else:
            found[name] = outcome.text if task.is_upgrade else f"{found[name]}, and {outcome.text}"
    return found


def _read_again(
    entries: Sequence[Entry], settings: str, job: Path, progress: Progress, problems: dict[str, str], said: Path | None
) -> dict[str, str]:
    """Read the inputs of these results again where they are as they were; what is wrong with the others."""
    found, tasks = dict(problems), []
    with Exports(progress) as exports:
        for entry in entries:
            if entry.is_remote and said is not None:
                found[entry.folder.name] += f": lorabench merge {said} reads {entry.location} again"
                continue
            try:
                task = _same(entry, settings, job, exports)
            except LorabenchError as error:
                found[entry.folder.name] += f", and {error}"
                continue
            if task is None:
                found[entry.folder.name] += f", and {_advice(entry, said or job)}"
            else:
                tasks.append(named.exported(task, exports))
        return _still(found, running.run(Executor(), tasks, progress)) if tasks else found


def _same(entry: Entry, settings: str, job: Path, exports: Exports) -> Task | None:
    """The input that a result was made of, as one to read; None where it is not what it was.

    Raises InputError or ToolError for one that cannot be looked at.
    """
    if not entry.is_remote and not entry.file.exists():
        return None
    place = entry.location if entry.is_remote else str(entry.file)
    for task in named.tasks([place], job, settings, exports):
        if (task.location, task.size_bytes, task.stamp) == (entry.location, entry.size_bytes, entry.stamp):
            return dataclasses.replace(task, folder=str(entry.folder))
    return None


def _advice(entry: Entry, said: Path) -> str:
    if entry.is_remote or entry.file.exists():
        place = entry.location if entry.is_remote else entry.file
        return f"{place} changed since: lorabench analyze {shlex.quote(str(place))} -o {said}"
    return (
        f"{entry.file} is not there: put it back and merge again, or remove {folder.INPUTS}/{entry.folder.name} "
        f"and analyze the file where it is now, with -o {said}"
    )


def readable(job: Path, progress: Progress) -> Path:
    """The folder to read a merged job from: itself, or where an earlier version made it, one in the cache.

    Raises InputError for a job of a newer version, and for one of which nothing is left to upgrade.
    """
    version = made_by(job / folder.DATABASE)
    if version == folder.versions():
        return job
    if folder.is_newer(version):
        raise InputError(f"{job} was merged by a newer version of lorabench; update lorabench")
    if not (job / folder.INPUTS).is_dir():
        raise InputError(
            f"{job} was made by an earlier version of lorabench, and its folder {folder.INPUTS} is not there: "
            f"lorabench analyze TRACE... -o {job}"
        )
    place = cache.job_folder_of(job, (folder.versions(), _state(job)))
    if not (place / folder.DATABASE).is_file():
        _link(job, place)
        merging.merge(place, progress, upgrade(place, progress, job), job)
        cache.trim(keep=place)
    cache.used(place)
    return place


def _state(job: Path) -> list[tuple[str, tuple[int | None, ...]]]:
    """What changes with what is kept of a job's inputs."""
    names = (folder.FORMER[0], folder.RESULT, folder.PART, folder.PROBLEM)
    return [(path.name, tuple(_changed_ns(path / name) for name in names)) for path in folder.inputs_in(job)]


def _changed_ns(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return None


def _link(job: Path, place: Path) -> None:
    """Make a job folder of links to what is kept in another one; what was made anew in it stays."""
    try:
        for path in folder.inputs_in(job):
            (place / folder.INPUTS / path.name).mkdir(parents=True, exist_ok=True)
            for name in _LINKED:
                _link_file(path / name, place / folder.INPUTS / path.name / name)
        _link_file(job / folder.MARK, place / folder.MARK)
    except OSError as error:
        raise OutputError(f"cannot write {place}: {error.strerror}") from error


def _link_file(path: Path, link: Path) -> None:
    if path.is_file():
        with suppress(FileExistsError):
            link.symlink_to(path.resolve())
