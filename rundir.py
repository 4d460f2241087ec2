"""The run directory: what `collect` leaves and `analyze` and `compare` find. docs/run-directory.md has its files.

Invariant: a directory under its own name is finished, whether the run went well or not; its manifest says which.
Until then it is a hidden one beside it, and nothing that was there before is touched.
"""

import hashlib
import json
import math
import os
import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .errors import InputError, OutputError, UsageError
from .small_files import parse_json, read_text

FORMAT: Final = 1
# From each earlier format of a manifest the step to the next one: a manifest is read through all that it lacks.
_UPGRADES: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
MANIFEST: Final = "manifest.json"
SUMMARY: Final = "summary.json"
STEPS: Final = "steps.csv"
RANGES: Final = "ranges.csv"
EPOCHS: Final = "epoch_results.csv"  # of a task in epochs
STATS: Final = "stats.json"  # of --trainer sft: what trainers print at their end
LEDGER: Final = "ledger{}.csv"  # of the memory pass; in process mode one for each adapter
LOGS: Final = "logs"
MEMORY_TRACES: Final = "memory*.json.gz"  # of the memory pass, one for each cycle
MEMORY_TIMELINE: Final = "memory_timeline{}.html"  # a page of each, where it is asked for; no file of the run either
PAGE: Final = "report.html"  # written behind the run, so no file of it
SWEEP: Final = "sweep.json"  # of a folder of runs: what was asked, and the runs
# Of the same steps by different passes, the one that disturbs them least first.
RECORDINGS: Final = ("run.sqlite", "trace.json.gz", "memory.json.gz", "snapshot.pickle")
# Without GPU work nsys has ranges alone, and opening them in each module disturbs a CPU most.
RECORDINGS_OF_CPU: Final = ("trace.json.gz", "run.sqlite", "memory.json.gz", "snapshot.pickle")

OK: Final = "ok"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
OOM: Final = "oom"
SKIPPED: Final = "skipped"  # of a pass that cannot run here

_WHOSE = re.compile(r"-(?:rank|adapter_|process)\d+(?=[.-])")  # of several processes that each left a file
# in SUMMARY: of the timing pass, in which no profiler is attached
STEP_MEDIAN: Final = ("step_wall_ns", "p50")
STEP_MEAN: Final = ("step_wall_ns", "mean")
STEP_LONGEST: Final = ("step_wall_ns", "max")
STEP_WAITED: Final = ("loader", "waited_ns")
STEP_WAITING: Final = ("loader", "step_ns")  # of the steps that wait so long, none that evaluates
WAITING_RANK: Final = ("loader", "rank")
STEP_TOKENS: Final = ("padding", "token_cnt")  # of attention masks, as the next two
STEP_REAL_TOKENS: Final = ("padding", "real_token_cnt")
STEP_LONGEST_TOKENS: Final = ("padding", "longest_token_cnt")
_IS_TRACE = re.compile(
    r"\.(sqlite|nsys-rep|qdstrm|json|pickle)(\.(gz|zst|xz|bz2|lz4|zip))?$"
    r"|(snapshot|memory)[^/]*\.pkl(\.gz)?$",  # other pickles are called .pkl more often than torch's snapshots
    re.IGNORECASE,
)


def recording(name: str) -> str:
    """What recording of a run a file is: its name without that of the process that left it."""
    return _WHOSE.sub("", name)


def traces(directory: Path) -> list[Path]:
    """Files of a folder that may be traces, by name, in name order; hidden files and subfolders are left out.

    Packed ones are among them, as who reads them says what unpacks them.
    """
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_file()
        and _IS_TRACE.search(path.name)
        and path.name not in (MANIFEST, SUMMARY, SWEEP, STATS)
        and not path.name.endswith(".raw.json.gz")  # torch's memory timeline: read beside its trace
        and not path.name.startswith(".")
    )


def belongings(directory: Path) -> list[Path]:
    """Files of a folder that reading a trace of it looks at: traces, what torch puts beside them, and a run's own."""
    own = [MANIFEST, SUMMARY, STEPS, RANGES, SWEEP]
    patterns = ("*.raw.json.gz", LEDGER.format("*"))
    listed = [directory / name for name in own] + [path for pattern in patterns for path in directory.glob(pattern)]
    return [*traces(directory), *(path for path in listed if path.is_file())]


class RunDirectory:
    """A run directory being written."""

    def __init__(self, path: Path, force: bool, words: tuple[str, str] = ("-o", "--force")):
        """Make the hidden directory. Raises UsageError when `path` exists and may not be replaced.

        `words`: what the caller calls the path and `force`.
        """
        self.path = path
        if path.exists() and not force:
            raise UsageError(f"{path} exists; choose another {words[0]}, or replace it with {words[1]}")
        if path.exists() and not (path / MANIFEST).is_file() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(
                f"{path} is not a run directory, so {words[1]} does not replace it; choose another {words[0]}"
            )
        if (path / SWEEP).is_file():
            raise UsageError(
                f"{path} holds the runs of a sweep, so {words[1]} does not replace it; choose another {words[0]}"
            )
        self.partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
        try:
            (self.partial / LOGS).mkdir(parents=True)
        except OSError as error:
            raise OutputError(f"cannot make {self.partial}: {error.strerror}") from error

    def write_json(self, name: str, value: object) -> None:
        """Write one file of the run."""
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        try:
            (self.partial / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {name} of {self.path}: {error.strerror}") from error

    def finish(self, manifest: dict[str, Any]) -> None:
        """List the files in the manifest, write it, and give the directory its name.

        Raises OutputError, which says where the run lies when that fails.
        """
        try:
            self._finish(manifest)
        except OutputError as error:
            raise OutputError(f"{error}; what there is of the run lies in {self.partial}") from error

    def _finish(self, manifest: dict[str, Any]) -> None:
        files = sorted(p for p in self.partial.rglob("*") if p.is_file())
        described = {p.relative_to(self.partial).as_posix(): _describe(p) for p in files}
        self.write_json(MANIFEST, {"format": FORMAT, **manifest, "files": described})
        try:
            if self.path.exists():
                old = self.partial.with_suffix(".old")
                self.path.rename(old)
                self.partial.rename(self.path)
                shutil.rmtree(old)
            else:
                self.partial.rename(self.path)
        except OSError as error:
            raise OutputError(f"cannot give the run its name {self.path}: {error.strerror}") from error

    def discard(self) -> None:
        """Remove the hidden directory, if it is still there."""
        shutil.rmtree(self.partial, ignore_errors=True)


def _describe(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a finished run. Raises InputError when there is none that this version can read."""
    return _read(directory, MANIFEST)


def read_summary(directory: Path) -> dict[str, Any]:
    """What the run measured. Raises InputError when there is none."""
    read_manifest(directory)
    return _read(directory, SUMMARY)


def number_at(document: Any, *path: str) -> float | None:
    """The number at a path into what such a file holds; None where there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    is_number = isinstance(document, int | float) and not isinstance(document, bool) and math.isfinite(document)
    return document if is_number else None


def read_stats(directory: Path) -> dict[str, Any]:
    """What stats.json says; nothing where there is none."""
    return _read(directory, STATS) if (directory / STATS).is_file() else {}


def read_sweep(folder: Path) -> dict[str, Any]:
    """What a sweep was asked for and the names of its runs. Raises InputError when the folder is none."""
    found = _read(folder, SWEEP)
    types = {"cells": list, "axes": dict, "settings": dict}
    if found.get("format") != FORMAT or not all(isinstance(found.get(name), kind) for name, kind in types.items()):
        raise InputError(f"{folder / SWEEP} is damaged, or of another version")
    return found


def _read(directory: Path, name: str) -> dict[str, Any]:
    path = directory / name
    try:
        value = parse_json(read_text(path))
    except FileNotFoundError as error:
        raise InputError(f"{directory} is not a run directory of `lorabench collect`: no {name}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged: it holds no object")
    return _upgraded(path, value) if name == MANIFEST else value


def _upgraded(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    found = manifest.get("format")
    while isinstance(found, int) and found in _UPGRADES:
        manifest, found = _UPGRADES[found](manifest) | {"format": found + 1}, found + 1
    if found != FORMAT:
        advice = "; update lorabench" if isinstance(found, int) and found > FORMAT else ""
        raise InputError(f"{path} has format {found}; this lorabench reads format {FORMAT}{advice}")
    return manifest
