"""Turns an nsys report (.nsys-rep, .qdrep, .qdstrm) into a sqlite export, with the nsys that is installed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ... import nsys
from ...errors import ToolError
from ...progress import Progress
from . import noted
from .nsys_processes import Process, apart

_left: set[Path] = set()  # exports that this process left for those who read


@contextmanager
def exported(report: Path) -> Iterator[Path]:
    """The path of a sqlite export of a report: one that was left, or in a folder that is removed afterwards.

    Raises ToolError when nsys is missing, too old for the report or fails.
    """
    left = noted.left_export(report)
    if left is not None:
        yield left
        return
    with tempfile.TemporaryDirectory(prefix="lorabench-export-") as folder:
        yield _export(report, Path(folder))


def processes(report: Path, progress: Progress) -> list[Process]:
    """The processes that are inputs of their own, none where the report is one input or cannot be exported: whoever
    reads it says why.

    The export that is made to find out is left for those who read, until release().
    """
    with suppress(ToolError, OSError):
        return noted.processes(report, lambda: _look(report, progress))
    return []


def release() -> None:
    """Remove the exports that this process left."""
    while _left:
        _left.pop().unlink(missing_ok=True)


def leave(report: Path, progress: Progress) -> Path | None:
    """Export a report for all that read it until release(), unless that was done; None where there is no room for it.

    Raises what exported() raises.
    """
    place = noted.left_export(report) or noted.place_for_export(report)
    if place is None or place.exists():
        return place
    progress.step("nsys export")
    folder = place.with_suffix(".partial")
    folder.mkdir(mode=0o700)
    try:
        _export(report, folder).replace(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _left.add(place)
    return place


def _look(report: Path, progress: Progress) -> list[Process]:
    place = leave(report, progress)
    if place is not None:
        return apart(place)
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
