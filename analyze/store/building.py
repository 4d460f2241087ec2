"""Builds a database: created once by an ingest, read many times after.

Invariant: a database is complete or absent. It is built under a temporary name beside its destination and renamed
when everything, the checks included, has passed; an interrupted build leaves an earlier database as it was.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from ... import sql, unfinished
from ...errors import OutputError
from ...sql import literal, quoted
from . import blank, cache, views
from .database import Database
from .limits import CANNOT_WRITE, COMPLETE_MEMORY, SETTINGS, first_line
from .settings import Settings
from .upgrades import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def building(
    path: Path, settings: Settings | None = None, shape: blank.Shape = blank.Shape.WHOLE
) -> Iterator[Database]:
    """A new database to fill, with all tables and the views of its shape; it takes its name `path` when the block ends
    well, and vanishes when it does not.

    Raises OutputError when the folder cannot be written or the disk is full.
    """
    partial = unfinished.beside(path)
    database = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        config = SETTINGS | {"memory_limit": COMPLETE_MEMORY}
        database = Database(blank.create(partial, cache.folder_or_none(), config, shape), partial)
        _begin(database, settings or Settings())
        yield database
        database.connection.execute("checkpoint")  # closing would only try, and hide a full disk
        database.close()
        partial.replace(path)
    except duckdb.OutOfMemoryException as error:
        raise OutputError(
            f"filling {path} needs more memory than DuckDB may have: {first_line(error)}; "
            "allow more with LORABENCH_INGEST_MEMORY"
        ) from error
    except CANNOT_WRITE as error:
        raise OutputError(f"cannot write {path}: {first_line(error)}") from error
    finally:
        if database is not None:
            database.close()
        for left in (partial, partial.with_name(partial.name + ".wal")):
            if left.exists():
                left.unlink()
        shutil.rmtree(partial.with_name(partial.name + ".tmp"), ignore_errors=True)


def _begin(database: Database, settings: Settings) -> None:
    """Write down what makes a database one of these inputs, this lorabench and these settings."""
    database.connection.execute("begin")
    database.connection.execute(
        f"create table lorabench as select {SCHEMA_VERSION} as schema_version, {literal(sql.fingerprint())} as sql, "
        f"{literal(settings.fingerprint)} as settings"
    )
    settings.apply(database.connection)
    database.connection.execute("commit")


def tables_for_views(new: Database, names: Sequence[str], *, is_described: bool = False) -> None:
    """Empty tables in the place of views, with their columns; with comments where they are to be `is_described`."""
    catalog = _catalog(new)
    types: dict[str, list[str]] = {}
    for view, column, kind in new.rows(
        "select table_name, column_name, data_type from duckdb_columns() where schema_name = 'main' "
        "and database_name = ? order by column_index",
        catalog,
    ):
        types.setdefault(view, []).append(f"{quoted(column)} {kind}")
    for name in names:
        place = f"{quoted(catalog)}.main.{quoted(name)}"
        new.connection.execute(f"drop view {place}")
        new.connection.execute(f"create table {place} ({', '.join(types[name])})")
        for comment in blank.comments("table", views.known()[name], place) if is_described else ():
            new.connection.execute(comment)
    new.give(names)


def insert(new: Database, name: str, rows: "pa.Table") -> None:
    """Put rows into a table of the file, whatever stands before it in the connection."""
    if rows.num_rows:
        new.connection.register("handed", rows)
        new.connection.execute(f"insert into {quoted(_catalog(new))}.main.{quoted(name)} by name select * from handed")
        new.connection.unregister("handed")


def _catalog(new: Database) -> str:
    ((name,),) = new.rows("select current_database()")
    return str(name)
