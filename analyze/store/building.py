"""Builds a database: created once by an ingest, read many times after.

Invariant: a database is complete or absent. It is built under a temporary name beside its destination and renamed
when everything, the checks included, has passed; an interrupted build leaves an earlier database as it was.
"""

import shutil
from collections.abc import Iterator
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
def building(path: Path, settings: Settings | None = None, *, is_described: bool = False) -> Iterator[Database]:
    """A new database to fill, with all tables and views; it takes its name `path` when the block ends well, and
    vanishes when it does not. Where it `is_described`, comments in it say what each table, view and column is.

    Raises OutputError when the folder cannot be written or the disk is full.
    """
    partial = unfinished.beside(path)
    database = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        config = SETTINGS | {"memory_limit": COMPLETE_MEMORY}
        database = Database(blank.create(partial, cache.folder_or_none(), config, is_described=is_described), partial)
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


def replace(new: Database, name: str, rows: "pa.Table", *, is_described: bool = False) -> None:
    """Put a table of these rows in the place of a view, or into the table of that name, for good.

    Where it `is_described`, comments say what the table and each column is.
    """
    run = new.connection.execute
    ((catalog,),) = new.rows("select current_database()")
    place = f"{quoted(catalog)}.main.{quoted(name)}"  # what is filled has the same name in another catalog
    new.connection.register("handed", rows)
    if name in views.known():
        ((columns,),) = new.rows(
            "select string_agg(format('\"{0}\"::{1} as \"{0}\"', column_name, data_type), ', ' order by column_index) "
            "from duckdb_columns() where database_name = ? and schema_name = 'main' and table_name = ?",
            catalog, name,
        )  # fmt: skip
        run(f"drop view {place}")
        run(f"create table {place} as select {columns} from handed")
        for comment in blank.comments("table", views.known()[name], place) if is_described else ():
            run(comment)
    else:
        run(f"insert into {place} by name select * from handed")
    new.connection.unregister("handed")
    new.give([name])
