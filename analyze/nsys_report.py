"""Turns an nsys report (.nsys-rep, .qdrep, .qdstrm) into a sqlite export, with the nsys that is installed."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ToolError

TIMEOUT_S = 3600
_IMPORTERS = ("/opt/nvidia/nsight-systems*/**/QdstrmImporter", "/usr/lib/nsight-systems/**/QdstrmImporter")


@contextmanager
def exported(report: Path) -> Iterator[Path]:
    """The path of a sqlite export of a report, in a folder that is removed afterwards.

    Raises ToolError when nsys is missing, too old for the report or fails.
    """
    with tempfile.TemporaryDirectory(prefix="lorabench-export-") as folder:
        target = Path(folder) / f"{report.stem}.sqlite"
        source = _imported(report, Path(folder)) if report.suffix == ".qdstrm" else report
        _run(
            _nsys(report),
            "export",
            "--type",
            "sqlite",
            "--force-overwrite",
            "true",
            "--output",
            target,
            source,
        )
        if not target.exists():
            raise ToolError(f"nsys export wrote nothing for {report}; open the report once in the nsys that made it")
        yield target


def _nsys(report: Path) -> str:
    found = shutil.which("nsys")
    if found is None:
        raise ToolError(
            f"{report} is an nsys report and nsys is not installed here; install Nsight Systems, or export it where it "
            f"is: nsys export --type sqlite {report.name}"
        )
    return found


def _imported(stream: Path, folder: Path) -> Path:
    """A .qdstrm is what nsys leaves when it cannot find its importer; run the importer by hand."""
    importer = shutil.which("QdstrmImporter") or next(
        (str(p) for pattern in _IMPORTERS for p in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)),
        None,
    )
    if importer is None:
        raise ToolError(f"{stream} needs QdstrmImporter, which comes with Nsight Systems; it was not found here")
    target = folder / f"{stream.stem}.nsys-rep"
    _run(importer, "--input-file", stream, "--output-file", target)
    return target


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{words[0]} did not finish within {TIMEOUT_S} s") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()
        raise ToolError(f"{Path(words[0]).name} failed with exit code {done.returncode}; it said: {said[-1]}")
