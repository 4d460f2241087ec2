"""Finds and runs the programs of NVIDIA Nsight Systems. Knows nothing of what is recorded."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from .errors import ToolError

TIMEOUT_S = 3600
VARIABLE = "LORABENCH_NSYS"
# Nsight Compute, which comes with the CUDA toolkit and its images, has a whole Nsight Systems inside.
_HOMES = (
    "/opt/nvidia/nsight-systems*",
    "/usr/lib/nsight-systems",
    "/opt/nvidia/nsight-compute",
    "/usr/local/cuda/nsight*",
)
# What files of nsys 2022.4 and 2023.4 begin with; nothing documents it.
_STREAM = b"NVIDIA Nsight Systems Stream"
_TITLE_BYTES = 128


def find() -> str | None:
    """The path of the nsys to use, None without one: $LORABENCH_NSYS ("" for none), PATH, the usual folders."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return shutil.which(chosen)
    return shutil.which("nsys") or _installed("nsys")


def _installed(program: str) -> str | None:
    """Where a program of Nsight Systems lies that is not on the PATH; of several the last by name, the newest."""
    found = (p for home in _HOMES for p in sorted(Path("/").glob(f"{home[1:]}/**/{program}"), reverse=True))
    return next((str(p) for p in found if p.is_file() and os.access(p, os.X_OK)), None)


def version(nsys: str) -> tuple[int, ...]:
    """The version of an nsys as numbers, (2024, 2, 3); empty when it does not say."""
    try:
        done = subprocess.run([nsys, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part) for part in match.groups() if part) if match else ()


def is_report(head: bytes) -> bool:
    """Whether a file that begins so is a report (.nsys-rep, .qdrep) or a stream (.qdstrm) of nsys."""
    return b"NVIDIA Tegra Profiler Report" in head[:_TITLE_BYTES] or _STREAM in head[:_TITLE_BYTES]


def is_stream(path: Path) -> bool:
    """Whether a file is what nsys records before it makes a report of it."""
    return _STREAM in _title(path) or path.suffix == ".qdstrm"


def made_by(path: Path) -> tuple[int, ...]:
    """The version of the nsys that made a report or a stream; empty for older ones, which do not say."""
    match = re.search(rb"(?:Report|Stream) (20\d\d)[@.](\d+)[@.](\d+)", _title(path))
    return tuple(map(int, match.groups())) if match else ()


def _title(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_TITLE_BYTES)


def export(nsys: str, report: Path, target: Path) -> None:
    """Write a report as sqlite. Raises ToolError when nsys fails, as with reports of a newer one."""
    blobs = ["--include-blobs", "true"] if _knows_blobs(nsys) else []
    _run(nsys, "export", "--type", "sqlite", "--force-overwrite", "true", *blobs, "--output", target, report)
    if not target.exists():
        raise ToolError(f"nsys export wrote nothing for {report}; open the report once in the nsys that made it")


def _knows_blobs(nsys: str) -> bool:
    """Whether an nsys can export binary values, as NCCL's payloads; it leaves them out unless asked."""
    try:
        done = subprocess.run([nsys, "export", "--help"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "--include-blobs" in done.stdout + done.stderr


def import_stream(stream: Path, target: Path) -> None:
    """Make a report of a .qdstrm, which nsys leaves where it cannot find its own importer.

    Raises ToolError when there is no importer or it fails.
    """
    importer = shutil.which("QdstrmImporter") or _installed("QdstrmImporter")
    if importer is None:
        raise ToolError(f"{stream} needs QdstrmImporter, which comes with Nsight Systems; it was not found here")
    _run(importer, "--input-file", stream, "--output-file", target)


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{words[0]} did not finish within {TIMEOUT_S} s") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()
        raise ToolError(f"{Path(words[0]).name} failed with exit code {done.returncode}; it said: {said[-1]}")
