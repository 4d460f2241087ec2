"""What was computed of a database of the cache: small tables and the answer, in a folder beside it.

A finished database never changes, and what is asked of it first is asked again: `summary` after `analyze`, then
`query run.sqlite finding`, then the page. All of it may be deleted at any time.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import sql, unfinished

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX = ".duckdb.results"
_LARGEST_BYTES = 1 << 20  # what is larger has a row for each operation, and takes as long to read as to compute
_PACKAGE = Path(__file__).resolve().parents[2]


class Remembered:
    """Results of one database, used again while its inputs, its settings and lorabench itself are the same."""

    def __init__(self, database: Path, made_of: object):
        """`made_of` says what the database was made of, as its repr."""
        self._folder = folder_of(database)
        self._made_of = made_of

    @cached_property
    def _key(self) -> str:
        return hashlib.sha256(repr((_code(), sql.fingerprint(), self._made_of)).encode()).hexdigest()[:16]

    def table(self, name: str, make: "Callable[[], pa.Table]") -> "pa.Table":
        """The rows that `make` returns, of a process before if it left them."""
        import pyarrow as pa

        path = self._folder / f"{name}-{self._key}.arrow"
        with suppress(OSError, pa.ArrowException):  # not there, or damaged: it is made again
            return pa.ipc.open_stream(path.read_bytes()).read_all()
        made = make()
        if made.nbytes <= _LARGEST_BYTES:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, made.schema) as writer:
                writer.write_table(made)
            _write(path, sink.getvalue())
        return made

    def document(self, name: str, make: Callable[[], Any]) -> Any:
        """The same of what JSON can hold."""
        path = self._folder / f"{name}-{self._key}.json"
        with suppress(OSError, ValueError):
            return json.loads(path.read_bytes())
        made = make()
        _write(path, json.dumps(made).encode())
        return made


def folder_of(database: Path) -> Path:
    """Where the results of a database are kept."""
    return database.with_name(f"{database.stem}{SUFFIX}")


def forget(database: Path) -> None:
    """Remove the results of a database."""
    shutil.rmtree(folder_of(database), ignore_errors=True)


def _write(path: Path, content: Any) -> None:
    """A file that is whole or not there; a cache that is full or that nobody may write is no reason to fail."""
    new = None
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        new = unfinished.beside(path)
        new.write_bytes(content)
        new.replace(path)
    except OSError:
        if new is not None:
            new.unlink(missing_ok=True)


@cache
def _code() -> list[tuple[str, int, int]]:
    """What changes with lorabench's own code: its files, their sizes and times."""
    found = [path for part in ("analyze", "reports") for path in _PACKAGE.glob(f"{part}/**/*.py")]
    return sorted((str(path), (status := path.stat()).st_size, status.st_mtime_ns) for path in found)
