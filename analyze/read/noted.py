"""Which processes of an nsys file are inputs of their own, noted in the cache: who asks again need not look again.

To look through an export of a million kernels takes a third of a second, to export a report seconds to minutes. So the
export that was made to look at a report stays beside the note until it has been read, or whoever made it has ended.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from ... import unfinished
from ..store import cache
from .nsys_processes import Process

_EXPORT = "export"
_VERSION = 1  # raised when the same file is told apart differently


def processes(path: Path, find: Callable[[], list[Process]]) -> list[Process]:
    """What `find` returns of a file, or returned when it was as it is now. Raises what it raises."""
    note = _note(path)
    if note is not None:
        with suppress(OSError, ValueError, TypeError, KeyError):  # not there, or no longer what was written
            return [Process(**row | {"gpus": frozenset(row["gpus"])}) for row in json.loads(note.read_text("utf-8"))]
    found = find()
    if note is not None:
        text = json.dumps([asdict(process) | {"gpus": sorted(process.gpus)} for process in found])
        with suppress(OSError):
            partial = unfinished.beside(note)
            partial.write_text(text, "utf-8")
            partial.replace(note)
    return found


def place_for_export(report: Path) -> Path | None:
    """Where this process may leave an export of a report until it ends; None where no cache can be written."""
    note = _note(report)
    return None if note is None else unfinished.beside(note, _EXPORT)


def left_export(report: Path) -> Path | None:
    """The export of a report that was left, by this process or another one; None where there is none."""
    note = _note(report)
    return None if note is None else next(note.parent.glob(f".{note.name}.*.{_EXPORT}"), None)


def _note(path: Path) -> Path | None:
    """Named by the file, its size and its time."""
    folder = cache.folder_or_none()
    if folder is None:
        return None
    status = path.stat()
    known = (_VERSION, path.resolve(), status.st_size, status.st_mtime_ns)
    key = hashlib.sha256(repr(known).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return folder / f"{key}{cache.PROCESSES}"
