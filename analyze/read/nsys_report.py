"""Turns an nsys report (.nsys-rep, .qdrep, .qdstrm) into a sqlite export, with the nsys that is installed."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ... import nsys
from ...errors import ToolError


@contextmanager
def exported(report: Path) -> Iterator[Path]:
    """The path of a sqlite export of a report, in a folder that is removed afterwards.

    Raises ToolError when nsys is missing, too old for the report or fails.
    """
    with tempfile.TemporaryDirectory(prefix="lorabench-export-") as folder:
        target = Path(folder) / f"{report.stem}.sqlite"
        found = nsys.find()
        if found is None:
            raise ToolError(
                f"{report} is an nsys report and nsys is not installed here; install Nsight Systems, or export it "
                f"where it is: nsys export --type sqlite {report.name}"
            )
        try:
            source = report
            if nsys.is_stream(report):
                source = Path(folder) / f"{report.stem}.nsys-rep"
                nsys.import_stream(report, source)
            nsys.export(found, source, target)
        except ToolError as error:
            raise ToolError(_why(report, found, error)) from error
        yield target


def _why(report: Path, tool: str, error: ToolError) -> str:
    """What is wrong with a report that the installed nsys does not export, and what to do."""
    theirs, ours = nsys.made_by(report), nsys.version(tool)
    newer, older = (".".join(map(str, version)) for version in (theirs, ours))
    there = f"export it where it was made (nsys export --type sqlite {report.name})"
    other = f"or name a newer nsys in ${nsys.VARIABLE}"
    if theirs > ours:
        return f"{report} was made by nsys {newer}, the one here is {older}; {there}, {other}"
    return f"{report} cannot be exported: {error}; it is damaged, or newer than the nsys here ({older}): {there}"
