"""Writes some tables of a database to a small file: with small blocks, and without views, which take 5 MB."""

from collections.abc import Iterable
from pathlib import Path

from ... import unfinished
from ...errors import OutputError
from ...sql import literal, quoted
from .database import Database
from .limits import CANNOT_WRITE, first_line

_BLOCK_BYTES = 16_384


def write(database: Database, path: Path, tables: Iterable[str]) -> None:
    """Write these tables, and what says which lorabench made them. Raises OutputError when the disk refuses."""
    partial = unfinished.beside(path)
    run = database.connection.execute
    try:
        run(f"attach {literal(str(partial.absolute()))} as compact (block_size {_BLOCK_BYTES})")
        try:
            for name in (*tables, "lorabench"):
                run(f"create table compact.main.{quoted(name)} as from main.{quoted(name)}")
            run("checkpoint compact")
        finally:
            run("detach compact")
        partial.replace(path)
    except CANNOT_WRITE as error:
        raise OutputError(f"cannot write {path}: {first_line(error)}") from error
    finally:
        for left in (partial, partial.with_name(partial.name + ".wal")):
            left.unlink(missing_ok=True)
