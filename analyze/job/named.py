"""The inputs that words of a command line name: files, folders, patterns and URLs, each process of a report apart."""

import dataclasses
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...errors import InputError
from ..read import inputs
from ..read.exports import Exports
from ..read.inputs import Input
from . import folder, remote
from .folder import Task

_PATTERN = set("*?[")


def tasks(named: Sequence[str], job: Path, settings: str, exports: Exports) -> list[Task]:
    """The inputs that words of a command line name, each once, in the same order wherever it is given.

    Raises InputError when a word names nothing.
    """
    found: list[Task] = []
    items: list[Input] = []
    for word in named:
        if remote.is_url(word) and not word.startswith("file://"):
            found += [Task(location, size, stamp, "") for location, size, stamp in remote.find(word)]
        else:
            items += _behind(word, exports)
    found += [
        Task(
            str(item.path.parent.resolve() / item.path.name) + (f"#{item.whose}" if item.whose else ""),
            item.size_bytes, str(item.mtime_ns), "", problem=item.problem, process=item.process, whose=item.whose,
            export=str(item.export or ""),
        )
        for item in inputs.told_apart(items)
    ]  # fmt: skip
    by_location = {task.location: task for task in found}
    return [
        dataclasses.replace(by_location[location], folder=folder.folder_of(job, location), settings=settings)
        for location in sorted(by_location)
    ]


def _behind(word: str, exports: Exports) -> list[Input]:
    """The inputs on this machine behind one word."""
    path = unquote(urlsplit(word).path) if remote.is_url(word) else word
    names = [path]
    if set(path) & _PATTERN and not Path(path).exists():
        names = sorted(glob(path, recursive=True))  # noqa: PTH207 (of a pattern that may be absolute)
        if not names:
            raise InputError(f"no file matches {word}")
    return [item for name in names for item in inputs.listed(Path(name), exports)]


def exported(task: Task, exports: Exports) -> Task:
    """The same, with an export where it is one process of a report: others read the same one."""
    if task.process is None:
        return task
    item = inputs.of_process(inputs.recognise(Path(task.file)), task.process, task.whose)
    (item,) = inputs.with_exports([item], exports)
    return dataclasses.replace(task, export=str(item.export or ""))
