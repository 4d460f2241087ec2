"""Turns an nsys report (.nsys-rep, .qdrep, .qdstrm) into a sqlite export, with the nsys that is installed."""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from ... import nsys
from ...errors import ToolError
from ...progress import Progress
from . import noted
from .nsys_processes import Process, apart

_PREFIX = "lorabench-export-"
_VARIABLE = "_LORABENCH_EXPORT_"  # before the key of a report: where processes that this one starts find its export
_left: dict[str, tuple["tempfile.TemporaryDirectory[str]", int]] = {}  # by variable, and for how many readings
_failed: dict[str, ToolError] = {}
_lock = threading.Lock()
_leaving: ContextVar[list[str] | None] = ContextVar("leaving", default=None)  # what is left for this reading


@contextmanager
def exports() -> Iterator[None]:
    """While open, an export of a report may be left for all that read it, also in processes that this one starts."""
    mine: list[str] = []
    token = _leaving.set(mine)
    try:
        yield
    finally:
        _leaving.reset(token)
        for variable in mine:
            _release(variable)


@contextmanager
def exported(report: Path) -> Iterator[Path]:
    """The path of a sqlite export of a report: one that was left, or in a folder that is removed afterwards.

    Raises ToolError when nsys is missing, too old for the report or fails.
    """
    variable = _VARIABLE + noted.key(report)
    left = os.environ.get(variable)
    if left is not None and Path(left).is_file():
        yield Path(left)
        return
    if variable in _failed:  # a moment ago
        raise _failed.pop(variable)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        yield _export(report, Path(folder))


def processes(report: Path, progress: Progress) -> list[Process]:
    """The processes that are inputs of their own, none where the report is one input or cannot be exported: whoever
    reads it says why.
    """
    with suppress(ToolError, OSError):
        return noted.processes(report, lambda: _look(report, progress))
    return []


def leave(report: Path, progress: Progress) -> None:
    """Export a report for all that read it while exports() is open, unless that was done; nothing without.

    Raises what exported() raises.
    """
    mine, variable = _leaving.get(), _VARIABLE + noted.key(report)
    if mine is None or variable in mine:
        return
    with _lock:
        folder, readings = _left.get(variable, (None, 0))
        if folder is not None:
            _left[variable] = folder, readings + 1
    if folder is None:
        progress.step("nsys export")
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        try:
            path = _export(report, Path(folder.name))
        except ToolError as error:
            folder.cleanup()
            _failed[variable] = error
            raise
        with _lock:
            _left[variable] = folder, 1
        os.environ[variable] = str(path)
    mine.append(variable)


def _release(variable: str) -> None:
    with _lock:
        folder, readings = _left[variable]
        if readings > 1:
            _left[variable] = folder, readings - 1
            return
        del _left[variable]
    os.environ.pop(variable, None)
    folder.cleanup()


def _look(report: Path, progress: Progress) -> list[Process]:
    leave(report, progress)
    with exported(report) as path:
        return apart(path)


def _export(report: Path, folder: Path) -> Path:
    """A sqlite export of a report in a folder. Raises ToolError when nsys is missing, too old for it or fails."""
    target = folder / f"{report.stem}.sqlite"
    found = nsys.find()
    if found is None:
        raise ToolError(
            f"{report} is an nsys report and nsys is not installed here; install Nsight Systems, or export it "
            f"where it is: nsys export --type sqlite {report.name}"
        )
    try:
        source = report
        if nsys.is_stream(report):
            source = folder / f"{report.stem}.nsys-rep"
            nsys.import_stream(report, source)
        nsys.export(found, source, target)
    except ToolError as error:
        raise ToolError(_why(report, found, error)) from error
    return target


def _why(report: Path, tool: str, error: ToolError) -> str:
    """What is wrong with a report that the installed nsys does not export, and what to do."""
    theirs, ours = nsys.made_by(report), nsys.version(tool)
    newer, older = (".".join(map(str, version)) for version in (theirs, ours))
    there = f"export it where it was made (nsys export --type sqlite {report.name})"
    other = f"or name a newer nsys in ${nsys.VARIABLE}"
    if theirs > ours:
        return f"{report} was made by nsys {newer}, the one here is {older}; {there}, {other}"
    return f"{report} cannot be exported: {error}; it is damaged, or newer than the nsys here ({older}): {there}"
