"""Reads the small text files that lie beside traces or that a user names: never a pipe that waits, never a huge one."""

import json
import stat
from pathlib import Path
from typing import Any

_MOST_BYTES = 64 << 20


def read_text(path: Path) -> str:
    """The text of a regular file. Raises OSError for anything else and what cannot be read, ValueError for no UTF-8."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is not a regular file", str(path))
    if status.st_size > _MOST_BYTES:
        raise OSError(0, f"it has more than {_MOST_BYTES >> 20} MiB", str(path))
    return path.read_text("utf-8")


def parse_json(text: str) -> Any:
    """The value that a JSON text holds. Raises ValueError for anything wrong with it, whatever Python makes of that."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
