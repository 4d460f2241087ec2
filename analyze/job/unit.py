"""The unit of work of a job: one input becomes its part and its result, whatever runs it and however often.

Run as a program it does so for each line of its standard input; its process is what dies when an input is poisonous.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ... import modules, sql, unfinished
from ...allocators import tune
from ...errors import CheckError, InputError, LorabenchError, OutputError, ToolError
from ...progress import Silent
from .. import fillers, ingest
from ..parts import stopped_by
from ..read import inputs
from ..read.inputs import Kind
from ..store import checks, compact
from ..store.building import building
from ..store.database import Database
from ..store.opening import open_database
from ..store.settings import Settings
from . import folder, handed, remote, result
from .folder import Task

_LARGE = 256 << 20  # of its content: a part of more is as large with large blocks
_MADE_OF = "select size_bytes, mtime_ns from source"
_READER = "reader"  # in a header: the kind of the source, and the version of its reader
_MOST_ATTEMPTS = 3  # at an input on which processes die, over all runs


@dataclass(frozen=True)
class Outcome:
    """What became of an input: 'read', 'found' (it was finished) or 'lost', with the reason."""

    what: str
    text: str = ""


def make(task: Task, path: Path) -> str | None:
    """Read one input into its part and write its result; what is wrong with it, None when nothing is.

    Raises OutputError when these cannot be written.
    """
    if task.is_upgrade:
        return _made_anew(task)
    whole = unfinished.beside(task.path(folder.PART), "open")
    try:
        item = inputs.recognise(path)
        if task.process is not None:
            item = inputs.of_process(item, task.process, task.whose)
        if Path(task.export).is_file():  # not so on other machines
            item = replace(item, export=Path(task.export))
        if item.kind is Kind.DATABASE:
            return f"{task.location} is a lorabench database; a job is made of traces"
        is_large = item.content_bytes > _LARGE
        with building(whole, Settings.of_text(task.settings)) as new:
            ingest.fill(new, 1, item, Silent())
            checks.run(new)
            if not is_large:
                compact.write(new, task.path(folder.PART), [table.name for table in sql.in_folder(sql.TABLES)])
        with fillers.fill(open_database(whole, is_own=True)) as database:
            if is_large:
                whole.replace(task.path(folder.PART))
            _hand_on(task, database)
    except (InputError, ToolError, CheckError) as error:
        return str(error).replace(str(path), task.location)
    finally:
        whole.unlink(missing_ok=True)
    return None


def _made_anew(task: Task) -> str | None:
    """Write its result anew of the part that another version left, which stays as it is; why that cannot be."""
    try:
        with fillers.fill(open_database(task.path(folder.PART), can_grow=True)) as database:
            of = [(size, task.stamp if task.is_remote else str(mtime_ns)) for size, mtime_ns in database.rows(_MADE_OF)]
            if of != [(task.size_bytes, task.stamp)]:  # another reading was killed before its result was written
                return f"{task.path(folder.PART)} is of other contents of the file"
            _hand_on(task, database)
    except (InputError, ToolError, CheckError, FileNotFoundError) as error:
        return str(error)
    return None


def _hand_on(task: Task, database: Database) -> None:
    """Write a result, and the large views before it: an input with a result is finished."""
    rows = dict(handed.rows(database))
    (reader,) = database.rows("select kind, reader_version from source")  # of a part perhaps an earlier one
    header = task.identity | {_READER: reader}
    result.write(task.path(folder.LARGE), header, rows, handed.LARGE)
    result.write(task.path(folder.RESULT), header, rows, (*handed.TABLES, *handed.VIEWS))
    for name in folder.FORMER:
        task.path(name).unlink(missing_ok=True)


def is_finished(task: Task) -> bool:
    """Whether there is a result of this very input, read as it would be read now."""
    header = result.header(task.path(folder.RESULT)) or {}
    kind, version = header.pop(_READER, ("", None))
    return header == task.identity and ingest.is_read_as_now(kind, version)


def complete(task: Task, worker: "Worker | None" = None, *, force: bool = False) -> Outcome:
    """Let an input be read, in a worker if there is one, unless it is finished or known to be bad."""
    if not force and is_finished(task):
        return Outcome("found")
    if task.is_upgrade:
        return _upgraded(task, worker)
    before = None if force else folder.known_problem(task)
    if before is not None and before.get("is_final"):
        return Outcome("lost", str(before["text"]))
    if task.problem:
        return _lost(task, task.problem, is_final=True)
    try:
        with remote.here(task) as path:
            return _tried(task, path, worker, int((before or {}).get("attempt_cnt", 0)))
    except InputError as error:  # it did not get here: it may the next time
        return _lost(task, str(error), is_final=False)


def _upgraded(task: Task, worker: "Worker | None") -> Outcome:
    """Have it made anew of its part; where that cannot be, nothing has changed."""
    for _ in range(2):  # a process may be killed for the memory that others take
        text, was_killed = _made(task, task.path(folder.PART), worker)
        if not was_killed:
            break
    return Outcome("read") if text is None else Outcome("lost", text)


def _made(task: Task, path: Path, worker: "Worker | None") -> tuple[str | None, bool]:
    return (make(task, path), False) if worker is None else worker.make(task, path)


def _tried(task: Task, path: Path, worker: "Worker | None", attempt_cnt: int) -> Outcome:
    """Read what is here: twice if the process dies, and never again when that happened too often."""
    text: str | None = ""
    for _ in range(2):
        text, was_killed = _made(task, path, worker)
        if text is None:
            task.path(folder.PROBLEM).unlink(missing_ok=True)
            return Outcome("read")
        if not was_killed:
            return _lost(task, text, is_final=True)
        attempt_cnt += 1
        if attempt_cnt >= _MOST_ATTEMPTS:
            return _lost(task, f"{text} ({attempt_cnt} times; --force tries again)", is_final=True)
    return _lost(task, str(text), is_final=False, attempt_cnt=attempt_cnt)


def _lost(task: Task, text: str, *, is_final: bool, attempt_cnt: int = 0) -> Outcome:
    if is_finished(task):  # by another process, meanwhile
        return Outcome("found")
    before = result.header(task.path(folder.RESULT))
    if before is not None and not folder.is_of_same(before, task):  # of an earlier content
        task.path(folder.RESULT).unlink(missing_ok=True)
    folder.note_problem(task, text, is_final=is_final, attempt_cnt=attempt_cnt)
    return Outcome("lost", text)


class Worker:
    """A process that makes one result after the other, started again when it died."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._complaints = tempfile.TemporaryFile("w+", errors="backslashreplace")  # noqa: SIM115 (closed with it)

    def make(self, task: Task, path: Path) -> tuple[str | None, bool]:
        """What make() says, and whether it is that the process was killed. Raises what make() raises."""
        process = self._started()
        try:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps({"task": asdict(task), "path": str(path)}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            return self._died()
        said: dict[str, Any] = json.loads(line)
        if "cannot_write" in said:
            raise OutputError(said["cannot_write"])
        return said["problem"], False

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        self._complaints.close()

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self._complaints.seek(0)
            self._complaints.truncate()
            self._process = subprocess.Popen(
                modules.command(f"{__package__}.unit"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                text=True,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for who started us, who stops us
            )
        return self._process

    def _died(self) -> tuple[str, bool]:
        assert self._process is not None
        code = self._process.wait()
        if code < 0:
            return stopped_by(-code), True
        self._complaints.seek(0)
        last = (self._complaints.read().strip().splitlines() or ["it said nothing"])[-1]
        return f"reading it ended with exit code {code}: {last}", False


def main() -> None:
    """Make what each line says; print what is wrong with it as JSON, null when nothing is."""
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            said: dict[str, Any] = {"problem": make(Task(**asked["task"]), Path(asked["path"]))}
        except OutputError as error:
            said = {"cannot_write": str(error)}
        except LorabenchError as error:
            said = {"problem": str(error)}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    tune()
    main()
