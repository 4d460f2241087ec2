"""Turns an nsys report (.nsys-rep, .qdrep, .qdstrm) into a sqlite export, with the nsys that is installed."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import nsys
from ..errors import ToolError


@contextmanager
def exported(report: Path) -> Iterator[Path]:
    """The path of a sqlite export of a report, in a folder that is removed afterwards.

    Raises ToolError when nsys is missing, too old for the report or fails.
    """
    with tempfile.TemporaryDirectory(prefix="lorabench-export-") as folder:
        target = Path(folder) / f"{report.stem}.sqlite"
        source = report
        if report.suffix == ".qdstrm":
            source = Path(folder) / f"{report.stem}.nsys-rep"
            nsys.import_stream(report, source)
        found = nsys.find()
        if found is None:
            raise ToolError(
                f"{report} is an nsys report and nsys is not installed here; install Nsight Systems, or export it "
                f"where it is: nsys export --type sqlite {report.name}"
            )
        nsys.export(found, source, target)
        yield target
