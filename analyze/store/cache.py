"""The databases that are kept in the user's cache folder: one for each input and settings, shared by all commands.

Bounded: what was used longest ago goes when all together are too large, and what nobody used for a month. All of it
may be deleted at any time.
"""

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ... import unfinished
from ...errors import OutputError, UsageError
from . import blank, remembered
from .settings import Settings

_JOB = ".job"  # of job folders of earlier versions, upgraded
PROCESSES = ".processes"  # of notes which processes of an nsys file are inputs
SIZE_VARIABLE = "LORABENCH_CACHE_GB"
_DEFAULT_GB = 5.0
_KEPT_DAYS = 30
_DAY_S = 86_400


@dataclass(frozen=True)
class Entry:
    """A database in the cache, with what was computed of it and the parts of an unfinished one; or a job folder."""

    path: Path
    size_bytes: int
    used_s: float  # since 1970


def folder() -> Path:
    """The cache folder, made if it is not there: $XDG_CACHE_HOME/lorabench, ~/.cache/lorabench, else a temporary one.

    Raises OutputError when none can be written.
    """
    problem: OSError | RuntimeError | None = None
    for candidate in _candidates():
        try:
            made = candidate()
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(made, os.W_OK | os.X_OK) and made.is_dir():
                return made
        except (OSError, RuntimeError) as error:  # a user without a home
            problem = error
    raise OutputError(f"no cache folder can be written ({problem}); name one in XDG_CACHE_HOME, or choose --db")


def folder_or_none() -> Path | None:
    """The cache folder, None where none can be written."""
    try:
        return folder()
    except OutputError:
        return None


def _candidates() -> Iterator[Callable[[], Path]]:
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen:
        yield lambda: Path(chosen) / "lorabench"
    else:
        yield lambda: Path.home() / ".cache" / "lorabench"
    yield _temporary


def _temporary() -> Path:
    """A folder of the user's own among the temporary files. Raises OSError when somebody else made it."""
    path = Path(tempfile.gettempdir()) / f"lorabench-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        raise PermissionError(f"{path} belongs to somebody else")
    return path


def path_of(inputs: list[Path], settings: Settings | None = None) -> Path:
    """Where the database of these inputs with these settings is kept when nobody says."""
    settings = settings or Settings()
    places = (str(path.parent.resolve() / path.name) for path in inputs)  # the name is the input's in reports
    identity = "\0".join([settings.fingerprint, *places])
    return folder() / f"{hashlib.sha256(identity.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}.duckdb"


def job_folder_of(job: Path, made_of: object) -> Path:
    """Where a job folder is upgraded that stays as it is, as long as it is `made_of` the same."""
    identity = f"{job.resolve()}\0{made_of!r}"
    return folder() / f"{hashlib.sha256(identity.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}{_JOB}"


def holds(database: Path) -> bool:
    """Whether a database is one of the cache."""
    return database.parent == folder()


def used(database: Path) -> None:
    """Note that a database or job folder of the cache was used now."""
    os.utime(database)


def entries() -> list[Entry]:
    """All databases of the cache, the one used last first."""
    found = []
    for path in (*folder().glob("[0-9a-f]*.duckdb"), *folder().glob(f"[0-9a-f]*{_JOB}")):
        if path.name.startswith(blank.PREFIX):
            continue
        try:
            status = path.stat()
        except OSError:
            continue  # another process removed it meanwhile
        size = status.st_size + sum(map(_size, (path, _parts(path), remembered.folder_of(path))))
        found.append(Entry(path, size, status.st_mtime))
    return sorted(found, key=lambda entry: -entry.used_s)


def inputs_of(database: Path) -> list[str]:
    """The names of the inputs that a database holds; of one that another lorabench made, none."""
    import duckdb

    if database.suffix == _JOB:
        database = next(database.glob("*.duckdb"), database)
    try:
        with duckdb.connect(str(database.absolute()), read_only=True) as connection:
            rows = connection.execute("select name from source order by source_id").fetchall()
    except duckdb.Error:
        return []
    return [str(name) for (name,) in rows]


def trim(keep: Path | None = None) -> None:
    """Remove what is too old or too much, but not the database `keep`, and what dead processes left."""
    unfinished.remove_left(folder())
    left = _most_bytes()
    for entry in entries():
        left -= entry.size_bytes
        if entry.path != keep and (left < 0 or time.time() - entry.used_s > _KEPT_DAYS * _DAY_S):
            _remove(entry.path)
    for note in folder().glob(f"*{PROCESSES}"):
        with suppress(OSError):
            if time.time() - note.stat().st_mtime > _KEPT_DAYS * _DAY_S:
                note.unlink()


def clear() -> tuple[int, int]:
    """Remove everything; returns how many databases that were, and their bytes."""
    found = entries()
    for entry in found:
        _remove(entry.path)
    for path in (*folder().glob(f"{blank.PREFIX}*"), *folder().glob(f"*{PROCESSES}")):
        path.unlink(missing_ok=True)
    for path in folder().glob(f"*{remembered.SUFFIX}"):  # of a database that somebody removed by hand
        shutil.rmtree(path, ignore_errors=True)
    unfinished.remove_left(folder())
    return len(found), sum(entry.size_bytes for entry in found)


def _remove(path: Path) -> None:
    if path.suffix == _JOB:
        shutil.rmtree(path, ignore_errors=True)  # links, and what was made anew
        return
    path.unlink(missing_ok=True)  # who has it open reads on
    shutil.rmtree(_parts(path), ignore_errors=True)
    remembered.forget(path)


def _parts(path: Path) -> Path:
    return path.with_name(f"{path.name}.parts")


def _size(directory: Path) -> int:
    """What the files of a folder take; other processes write and remove some meanwhile."""
    total = 0
    for place, _, names in os.walk(directory):  # nothing where it is a file
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{place}{os.sep}{name}").st_size
    return total


def _most_bytes() -> float:
    text = os.environ.get(SIZE_VARIABLE)
    try:
        size = float(text) if text else _DEFAULT_GB
    except ValueError:
        size = -1.0
    if not 0 <= size < float("inf"):
        raise UsageError(f"{SIZE_VARIABLE}={text}: write a number of gigabytes, like 5")
    return size * 1e9
