"""torch.profiler's trace as a file: packed and checked in pieces, so that its size costs disk and no memory.

torch packs line by line (half a minute for what takes seconds), and parsing a trace whole takes ten times its size.
"""

import errno
import gzip
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

_BLOCK = 8 << 20
_OPENING = b'"traceEvents": ['
_BETWEEN = b"\n  },"  # behind each event of a trace that torch wrote; what is nested in one is indented more


def export(profiler: Any, path: Path) -> None:
    """Write the profiler's trace as .json.gz."""
    with tempfile.NamedTemporaryFile("w+b", suffix=".json") as plain:
        profiler.export_chrome_trace(plain.name)
        _require_room(Path(plain.name))
        with Path(plain.name).open("rb") as source, gzip.open(path, "wb", compresslevel=6) as packed:
            shutil.copyfileobj(source, packed, _BLOCK)


def _require_room(plain: Path) -> None:
    """torch says nothing when its file does not fit: it is empty then, or the next byte does not fit either."""
    with plain.open("ab") as file:
        if file.tell() == 0:
            raise OSError(errno.ENOSPC, "torch.profiler could not write its trace", str(plain))
        file.write(b"\n")


def problem(path: Path) -> str | None:
    """What is wrong with the JSON of a .json.gz, None if nothing is."""
    try:
        with gzip.open(path) as file:
            for piece in _pieces(file):
                orjson.loads(piece)
    except (OSError, EOFError, orjson.JSONDecodeError) as error:
        return str(error)
    return None


def _pieces(file: gzip.GzipFile) -> Iterator[bytes]:
    """A trace as texts that are JSON where it is: runs of events, and what is around them."""
    text = file.read(_BLOCK)
    place = text.find(_OPENING)
    if place < 0:  # not as torch writes it
        yield text + file.read()
        return
    events = place + len(_OPENING)
    head, text = text[:events], text[events:]
    while more := file.read(_BLOCK):
        text += more
        cut = text.rfind(_BETWEEN) + len(_BETWEEN)
        if cut >= len(_BETWEEN):
            yield b"[" + text[: cut - 1] + b"]"
            text = text[cut:]
    yield head + text
