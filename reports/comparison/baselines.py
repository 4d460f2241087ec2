"""Inputs kept under a name, to compare later ones with: `lorabench compare @NAME RUN`.

A baseline is a folder with what comparing needs and nothing else: of a run directory its manifest, summary and steps,
of traces the database that they were read into. The inputs themselves may change or go. It lies in the user's data
folder ($XDG_DATA_HOME/lorabench/baselines, else ~/.local/share), is complete under its name or absent, and stays until
it is removed.
"""

import json
import os
import re
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ... import rundir, unfinished
from ...analyze.pipeline import analyze
from ...errors import InputError, OutputError, UsageError
from ...progress import Progress
from ...small_files import parse_json, read_text

MARK = "@"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ABOUT, _DATABASE = "baseline.json", "traces.duckdb"
_FORMAT = 1


@dataclass(frozen=True)
class Baseline:
    """A baseline as it is listed."""

    name: str
    input: str
    saved: str
    holds: str
    size_bytes: int


def folder() -> Path:
    """Where baselines lie; it need not be there."""
    chosen = os.environ.get("XDG_DATA_HOME")
    try:
        data = Path(chosen) if chosen and Path(chosen).is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError as error:  # a user without a home
        raise OutputError("no folder for baselines: name one in XDG_DATA_HOME") from error
    return data / "lorabench" / "baselines"


def resolved(path: Path) -> Path:
    """The folder of a baseline for @NAME, any other path as it is. Raises UsageError for a name that is not there."""
    if not str(path).startswith(MARK):
        return path
    name = plain(str(path))
    try:
        return _existing(name)
    except UsageError as error:
        raise UsageError(f"{error}; keep one with `lorabench baseline save {name} INPUT`") from error


def plain(name: str) -> str:
    """A name as it is kept, with or without the @ that it is used with."""
    return name.removeprefix(MARK)


def title(path: Path) -> str | None:
    """@NAME for the folder of a baseline, None for any other path."""
    return f"{MARK}{path.name}" if path.parent == folder() and (path / _ABOUT).is_file() else None


def readable(path: Path) -> Path:
    """What `analyze` reads for an input: of a baseline its database. Raises InputError for one that has no traces."""
    if title(path) is None:
        return path
    database = path / _DATABASE
    if not database.is_file():
        raise InputError(f"baseline {path.name} holds no traces; compare it by what the run measured (--by summary)")
    return database


def is_without_traces(path: Path) -> bool:
    """Whether an input has measurements alone."""
    if title(path) is not None:
        return not (path / _DATABASE).is_file()
    return path.is_dir() and not rundir.traces(path)


def save(name: str, source: Path, force: bool, progress: Progress) -> Path:
    """Keep what comparing needs of an input under a name. Raises UsageError for a bad name or one that is taken."""
    name, source = plain(name), resolved(source)
    place = folder() / _checked(name)
    if place.exists() and not force:
        raise UsageError(f"there is a baseline {name}; replace it with --force, or choose another name")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = unfinished.beside(place)
        partial.mkdir()
    except OSError as error:
        raise OutputError(f"cannot make {place}: {error.strerror}") from error
    try:
        about = {"format": _FORMAT, "input": source.resolve().name} | _filled(partial, source, progress)
        about["saved"] = datetime.now().isoformat(" ", "seconds")
        (partial / _ABOUT).write_text(json.dumps(about, indent=2) + "\n", "utf-8")
        _put_in_place(partial, place)
    except OSError as error:
        raise OutputError(f"cannot write the baseline {name}: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return place


def listed() -> list[Baseline]:
    """All baselines by name."""
    found = []
    for path in sorted(folder().glob(f"*/{_ABOUT}")):
        if path.parent.name.startswith("."):
            continue
        try:
            about = parse_json(read_text(path))
            size = sum(file.stat().st_size for file in path.parent.iterdir())
        except (OSError, ValueError):
            continue  # removed meanwhile, or somebody else's
        if isinstance(about, dict):
            source, saved, holds = (str(about.get(key, "")) for key in ("input", "saved", "holds"))
            found.append(Baseline(path.parent.name, source, saved, holds, size))
    return found


def remove(name: str) -> None:
    """Remove a baseline. Raises UsageError when there is none of that name."""
    place = _existing(plain(name))
    try:
        gone = unfinished.beside(place)
        place.rename(gone)  # it is gone at once, or not at all
        shutil.rmtree(gone)
    except OSError as error:
        raise OutputError(f"cannot remove the baseline {name}: {error.strerror}") from error


def _filled(partial: Path, source: Path, progress: Progress) -> dict[str, Any]:
    """Copy what comparing needs; returns what that is, and of a baseline what it was made of."""
    if title(source) is not None:
        shutil.copytree(source, partial, dirs_exist_ok=True)
        return {key: parse_json(read_text(source / _ABOUT))[key] for key in ("input", "holds")}
    holds = []
    if (source / rundir.SUMMARY).is_file():
        rundir.read_summary(source)  # a damaged one is said now
        for name in (rundir.MANIFEST, rundir.SUMMARY, rundir.STEPS):
            if (source / name).is_file():
                shutil.copyfile(source / name, partial / name)
        holds.append("measurements")
    if not holds or rundir.traces(source):
        with analyze([source], progress=progress) as database:
            shutil.copyfile(database.path, partial / _DATABASE)
        holds.append("traces")
    return {"holds": " and ".join(holds)}


def _put_in_place(partial: Path, place: Path) -> None:
    if place.exists():
        old = unfinished.beside(place)
        place.rename(old)
        partial.rename(place)
        shutil.rmtree(old)
    else:
        partial.rename(place)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name for a baseline: letters, digits, '.', '_' and '-', up to 64 of them")
    return name


def _existing(name: str) -> Path:
    place = folder() / _checked(name)
    if not (place / _ABOUT).is_file():
        names = ", ".join(found.name for found in listed()) or "none"
        raise UsageError(f"no such baseline: {name}; saved: {names}")
    return place
