"""Inputs that lie elsewhere (s3://, gs://, hdfs://, file:// …): found and copied here by fsspec, an extra.

A trace is read more than once and a SQLite file at any place, so it is copied first, one for each that is being read;
the copy goes when it has been read. What lies beside a trace stays where it is.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import InputError, ToolError
from .folder import Task

_PIECE_BYTES = 8 << 20
_ATTEMPTS, _PAUSE_S = 3, 0.5
_STAMPS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created", "generation")
_PATTERN = set("*?[")


def is_url(text: str) -> bool:
    """Whether an input is named by a URL."""
    return "://" in text


def find(url: str) -> list[tuple[str, int, str]]:
    """(URL, bytes, stamp) of the files that a URL names, in the order of their names.

    Raises ToolError when a package is missing, InputError when nothing is there or nobody answers.
    """
    system, path = _open(url)
    try:
        if set(path) & _PATTERN:
            found = system.glob(path, detail=True)
        else:
            info = system.info(path)
            is_folder = info.get("type") == "directory"
            found = {entry["name"]: entry for entry in system.ls(path, detail=True)} if is_folder else {path: info}
    except FileNotFoundError as error:
        raise InputError(f"no such file: {url}") from error
    except Exception as error:  # of whatever library speaks the protocol
        raise InputError(f"cannot list {url}: {_said(error)}") from error
    files = [
        (str(system.unstrip_protocol(name)), int(info.get("size") or 0), _stamp(info))
        for name, info in sorted(found.items())
        if info.get("type") != "directory"
    ]
    if not files:
        raise InputError(f"no file matches {url}")
    return files


@contextmanager
def here(task: Task) -> Iterator[Path]:
    """The path of an input on this machine, that of a copy while the block is open if it lies elsewhere.

    Raises InputError when it cannot be copied.
    """
    if not task.is_remote:
        yield Path(task.file)
        return
    with tempfile.TemporaryDirectory(prefix="lorabench-input-") as scratch:
        path = Path(scratch) / task.name
        _copy(task, path)
        yield path


def _copy(task: Task, path: Path) -> None:
    free = shutil.disk_usage(path.parent).free
    if task.size_bytes > free:
        raise InputError(
            f"{task.location} has {task.size_bytes / 1e6:,.0f} MB and {path.parent.parent} room for {free / 1e6:,.0f}; "
            "name another place in TMPDIR"
        )
    system, name = _open(task.location)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with system.open(name, "rb") as source, path.open("wb") as copy:
                shutil.copyfileobj(source, copy, _PIECE_BYTES)
            if (size := path.stat().st_size) != task.size_bytes:
                raise InputError(f"{task.location} ended after {size:,} of {task.size_bytes:,} bytes")
            return
        except (FileNotFoundError, PermissionError) as error:
            raise InputError(f"cannot read {task.location}: {_said(error)}") from error
        except Exception as error:  # of whatever library speaks the protocol
            if attempt == _ATTEMPTS:
                raise InputError(f"cannot read {task.location}: {_said(error)}") from error
            time.sleep(_PAUSE_S * attempt)


def _open(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it."""
    try:
        import fsspec
    except ImportError as error:
        raise ToolError(f"{url} needs fsspec: pip install 'lorabench[cloud]'") from error
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise ToolError(f"{url} needs a package that is not installed: {_said(error)}") from error
    except Exception as error:  # no such protocol, no credentials
        raise InputError(f"cannot open {url}: {_said(error)}") from error
    return system, str(path)


def _stamp(info: dict[str, Any]) -> str:
    """What changes with the content of a file, as far as its file system says."""
    return next((str(info[name]) for name in _STAMPS if info.get(name) is not None), "")


def _said(error: BaseException) -> str:
    """The first line of what a library says, with what it is if that says nothing."""
    text = (str(error).strip().splitlines() or [""])[0]
    return text if len(text) > 3 and not text.isdigit() else f"{type(error).__name__} {text}".strip()
