"""Which processes of an nsys file are inputs of their own, noted in the cache: who asks again need not look again.

To look through an export of a million kernels takes a third of a second, to export a report seconds to minutes.
"""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ... import unfinished
from ..store import cache
from .nsys_processes import Process

_VERSION = 1  # raised when the same file is told apart differently


def processes(path: Path, find: Callable[[], list[Process]]) -> list[Process]:
    """What `find` returns of a file, or returned when it was as it is now. Raises what it raises."""
    folder = cache.folder_or_none()
    if folder is None:
        return find()
    note = folder / f"{key(path)}{cache.PROCESSES}"
    with suppress(OSError, ValueError, TypeError, KeyError):  # not there, or no longer what was written
        found = [_process(row) for row in json.loads(note.read_text("utf-8"))]
        os.utime(note)  # it goes when nobody has used it for a month
        return found
    found = find()
    text = json.dumps([asdict(process) | {"gpus": sorted(process.gpus)} for process in found])
    with suppress(OSError):
        partial = unfinished.beside(note)
        partial.write_text(text, "utf-8")
        partial.replace(note)
    return found


def key(path: Path) -> str:
    """What a file is called here: another one in its place has another time of change, whatever time it was given."""
    status = path.stat()
    known = (_VERSION, path.resolve(), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return hashlib.sha256(repr(known).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _process(row: dict[str, Any]) -> Process:
    """A row of a note. Raises KeyError, TypeError for what is none."""
    return Process(**{field.name: row[field.name] for field in fields(Process)} | {"gpus": frozenset(row["gpus"])})
