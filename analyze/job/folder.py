"""The folder of a job: what lies where, and what is known of an input before it is read.

    job/
      job.json                             says that it is one, and what was asked
      inputs/rank17.json.gz-3f9a2c1b/      one input: its name, and where it lies
        result.arrows.xz                   what it hands on; there when the input is finished
        large.arrows.xz                    views of which a rank has many rows, for who asks for them
        part.duckdb                        all of it, for views with a row for each operation
        problem.json                       instead of a result: why there is none
      job.duckdb                           all results together, made by `lorabench merge`

Invariant: every file is complete or absent, so processes that do the same at once cost time and nothing else. A folder
has the name of its input and not of its rank: which rank it is is known when it has been read, and two may be the same.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import sql, unfinished
from ...errors import InputError, OutputError
from ...small_files import parse_json, read_text
from ..read.identity import READER_VERSIONS
from ..store.settings import Settings
from ..store.upgrades import SCHEMA_VERSION
from . import handed

MARK, DATABASE = "job.json", "job.duckdb"
RESULT, LARGE, PART, PROBLEM = "result.arrows.xz", "large.arrows.xz", "part.duckdb", "problem.json"
FORMER = ("result.arrows.zst", "large.arrows.zst")  # what earlier versions called a result and its large views
INPUTS = "inputs"
FORMAT = 1
_NAME = re.compile(r"[^\w.+=-]+")
_MOST_CHARACTERS = 80


@dataclass(frozen=True)
class Wanted:
    """Whose rows views with a row for each operation have: those of a rank, or of the one to look at first."""

    rank: int | None = None
    is_first: bool = False  # the first one of those whose parts are there


@dataclass(frozen=True)
class Task:
    """One input to read: what tells whether it has changed, and the folder of what it leaves."""

    location: str  # an absolute path, or a URL; of one process of several in a file with #rank0 behind it
    size_bytes: int
    stamp: str  # changes with the content: time of modification, entity tag
    folder: str
    settings: str = ""  # as JSON
    problem: str = ""  # why it cannot be read at all
    process: int | None = None  # that is read of several, see Input
    whose: str = ""
    export: str = ""  # of an nsys report here, while it is read
    is_upgrade: bool = False  # its result is made anew of its part, and the input is not read

    @property
    def file(self) -> str:
        """The path or URL of the file that holds it."""
        return self.location.removesuffix(f"#{self.whose}") if self.whose else self.location

    @property
    def name(self) -> str:
        """The name of the file, and of several processes in it which."""
        return self.location.rsplit("/", 1)[-1]

    @property
    def is_remote(self) -> bool:
        """Whether it must be copied here before it is read."""
        return "://" in self.location

    @property
    def identity(self) -> dict[str, Any]:
        """What a result must have been made of to count as this input's."""
        return {
            "location": self.location,
            "size_bytes": self.size_bytes,
            "stamp": self.stamp,
            "settings": self.settings,
            "versions": versions(),
        }

    def path(self, name: str) -> Path:
        """A file of its folder."""
        return Path(self.folder) / name


def versions() -> str:
    """Changes with everything that results are made by."""
    return f"{SCHEMA_VERSION}/{sql.fingerprint()}/{handed.VERSION}"


def is_of_same(header: dict[str, Any], task: Task) -> bool:
    """Whether a result, of whichever version, was made of this very content."""
    return (header.get("size_bytes"), header.get("stamp")) == (task.size_bytes, task.stamp)


def is_newer(made_by: str) -> bool:
    """Whether it is a later version than this one that says of itself what versions() says."""
    found = re.fullmatch(r"(\d+)/\w*/(\d+)", made_by)
    return found is not None and (int(found[1]) > SCHEMA_VERSION or int(found[2]) > handed.VERSION)


def inputs_in(job: Path) -> list[Path]:
    """The folders of its inputs; none where they are gone, and the database is all there is."""
    try:
        return sorted((job / INPUTS).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def result_of(path: Path) -> Path:
    """Where the result in an input's folder lies, whichever version made it."""
    former = path / FORMER[0]
    return former if not (path / RESULT).exists() and former.exists() else path / RESULT


def folder_of(job: Path, location: str) -> str:
    """The folder of an input's results."""
    name = _NAME.sub("_", location.rsplit("/", 1)[-1])[:_MOST_CHARACTERS]
    return str(
        job.absolute() / INPUTS / f"{name}-{hashlib.sha256(location.encode('utf-8', 'replace')).hexdigest()[:8]}"
    )


def is_job(path: Path) -> bool:
    """Whether a path is the folder of a job."""
    try:
        return (path / MARK).is_file()
    except OSError:  # nobody may look there: whoever reads it says so
        return False


def make(job: Path, settings: str) -> None:
    """Make the folder, or go on in it. Raises OutputError when it cannot be written or was made with other settings."""
    try:
        # Another process may be making it, too, or was killed as it did. The mark is the first file, and is looked
        # for after all else, so what lies there without it is somebody's own.
        lying = list(job.iterdir()) if job.exists() else []
        if not is_job(job) and any(unfinished.becomes(path) != MARK for path in lying):
            raise OutputError(f"{job} is not empty and not a job folder; choose another place for -o")
        if not is_job(job):
            _write(job / MARK, {"lorabench_job": FORMAT, "settings": settings})
        (job / INPUTS).mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write the job folder {job}: {error.strerror}") from error
    if _settings(job) != settings:
        raise OutputError(f"{job} was begun with other thresholds or kernel classes; choose another place for -o")


def settings_of(job: Path) -> Settings:
    """The thresholds and rules that a job was begun with."""
    return Settings.of_text(_settings(job))


def _settings(job: Path) -> str:
    try:
        found = parse_json(read_text(job / MARK))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {job / MARK}: {error}") from error
    number = found.get("lorabench_job") if isinstance(found, dict) else None
    if number != FORMAT:
        is_later = isinstance(number, int) and number > FORMAT
        advice = "update lorabench" if is_later else "analyze into a new folder"
        raise InputError(f"{job / MARK} has format {number}; this lorabench reads format {FORMAT}; {advice}")
    return str(found.get("settings", ""))


def known_problem(task: Task) -> dict[str, Any] | None:
    """Why an earlier attempt at this very input failed."""
    try:
        found = parse_json(read_text(task.path(PROBLEM)))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("identity") != _attempt(task):
        return None
    return found


def note_problem(task: Task, text: str, *, is_final: bool, attempt_cnt: int = 0) -> None:
    """Write down why an input has no result."""
    found = {"text": text, "is_final": is_final, "attempt_cnt": attempt_cnt, "identity": _attempt(task)}
    _write(task.path(PROBLEM), found)


def _attempt(task: Task) -> dict[str, Any]:
    """What an attempt was at: another content, or what another reader may read, is tried again."""
    return task.identity | {"readers": {kind.name: version for kind, version in READER_VERSIONS.items()}}


def _write(path: Path, content: dict[str, Any]) -> None:
    partial = unfinished.beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(content), "utf-8")
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
