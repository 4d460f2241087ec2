"""Opens finished databases, read-only: our own as they are, somebody else's by their tables alone."""

import os
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from ... import sql, unfinished
from ...errors import CorruptInputError, InputError, OutputError, UnknownFormatError
from ...sql import literal, quoted
from . import blank, cache, upgrades
from .database import OPENED, Database
from .limits import QUERY_MEMORY, QUERY_MEMORY_ASKED, SETTINGS, SMALL_BYTES, first_line
from .remembered import Remembered
from .settings import Settings


def open_database(
    path: Path, writes_into: Path | None = None, *, is_own: bool = False, can_grow: bool = False,
    remembered: Remembered | None = None,
) -> Database:  # fmt: skip
    """Open a finished database, read-only.

    Unless `is_own` it may be somebody else's, and its views are SQL: only its tables are used, under views of ours, and
    statements get no more memory than LORABENCH_QUERY_MEMORY, unless they are all ours (`can_grow`). DuckDB opens no
    other file in either case; copy() makes files in the folder `writes_into`, through one of its own there.

    Raises InputError when it cannot be read, UnknownFormatError when it is not one of lorabench's.
    """
    try:
        connection = _connect_afresh(path) if is_own else _connect_to_tables(path)
    except duckdb.Error as error:
        raise CorruptInputError(f"cannot open {path} as a DuckDB database: {first_line(error)}") from error
    scratch = None
    if writes_into is not None:
        scratch = scratch_beside(writes_into)
        connection.execute("set allowed_directories = ?", [[f"{scratch.absolute()}{os.sep}"]])
    connection.execute("set enable_external_access = false")
    database = Database(
        connection, path, scratch, can_grow=(is_own or can_grow) and not QUERY_MEMORY_ASKED,
        is_small=_is_small(path), remembered=remembered,
    )  # fmt: skip
    try:
        if is_own:
            _require_this_version(database)
    except InputError:
        database.close()
        raise
    return database


def _connect_afresh(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection to what lies at the path now.

    To a process that has a path open DuckDB gives the file that it opened then, although another has taken its place
    since; such a file is opened under a second name, which is gone at once.
    """
    config = SETTINGS | {"memory_limit": QUERY_MEMORY}
    if _is_small(path):
        config.setdefault("threads", 1)
    if not any(database.path.absolute() == path.absolute() for database in OPENED):
        return duckdb.connect(str(path.absolute()), read_only=True, config=config)
    link = unfinished.beside(path, "open")
    try:
        link.hardlink_to(path)
        return duckdb.connect(str(link.absolute()), read_only=True, config=config)
    except OSError as error:
        raise OutputError(f"{path} is open in this process, and cannot be opened again: close it first") from error
    finally:
        link.unlink(missing_ok=True)


def _is_small(path: Path) -> bool:
    return path.stat().st_size < SMALL_BYTES


def scratch_beside(folder: Path) -> Path:
    """Where DuckDB makes a file that will be moved into a folder: in it, so that the move is one step."""
    try:
        str(folder.absolute()).encode("utf-8")
    except UnicodeEncodeError:
        folder = Path(tempfile.gettempdir())  # bytes that are no text cannot be said in SQL
    return unfinished.beside(folder / "rows")


_THEIRS = "theirs"
_THEIRS_MAIN = f"{_THEIRS}.main"


def _connect_to_tables(path: Path) -> duckdb.DuckDBPyConnection:
    """A connection to a database in memory with our views over the tables of a file; other views of it follow behind.

    Raises UnknownFormatError for a file without these tables.
    """
    spill = Path(tempfile.gettempdir()) / f"lorabench-spill-{uuid.uuid4().hex[:8]}"
    config = SETTINGS | {"memory_limit": QUERY_MEMORY, "temp_directory": str(spill)}
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.execute(f"attach {literal(str(path.absolute()))} as {_THEIRS} (read_only)")
        tables = {table.name: [column.name for column in table.columns] for table in sql.in_folder(sql.TABLES)}
        theirs = tables_of(connection, _THEIRS)
        found = upgrades.relations(_version_of(connection, path, theirs), list(tables), _THEIRS_MAIN, path)
        blank.fill(connection, cache.folder_or_none())
        types = _column_types(connection)
        connection.execute("begin")
        for name, columns in tables.items():
            if name not in theirs and f"{_THEIRS_MAIN}.{quoted(name)}" in found[name]:
                raise _is_another(path, name)
            own = upgrades.OURS.get(name)
            connection.execute(f"alter table {name} rename to {own}" if own else f"drop table {quoted(name)}")
            _define(connection, path, name, f"select {', '.join(map(quoted, columns))} from {found[name]}")
        _define(connection, path, "lorabench", f"select schema_version, sql, settings from {_THEIRS_MAIN}.lorabench")
        for (table, _), _ in types.items() - _column_types(connection).items():
            raise _is_another(path, table)
        connection.execute("commit")
        connection.execute(f"set search_path = 'memory.main,{_THEIRS}.main'")
    except BaseException:
        connection.close()
        raise
    return connection


def _column_types(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], str]:
    """The type of each column of our tables, and of the views that take their place."""
    names = [table.name for table in sql.in_folder(sql.TABLES)]
    rows = connection.execute(
        "select table_name, column_name, data_type from duckdb_columns() where database_name = 'memory' "
        "and table_name in (select unnest(?))",
        [names],
    ).fetchall()
    return {(table, column): kind for table, column, kind in rows}


def _define(connection: duckdb.DuckDBPyConnection, path: Path, table: str, select: str) -> None:
    """A view in the place of a table. Raises InputError when the file has no table with these columns."""
    try:
        connection.execute(f"create view {quoted(table)} as {select}")
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        raise _is_another(path, table) from error


def _is_another(path: Path, table: str) -> InputError:
    return InputError(
        f"{path} was made by another version of lorabench, or changed since: its table {table} is another one; "
        "run `lorabench analyze` on its input again"
    )


def tables_of(connection: duckdb.DuckDBPyConnection, attached: str | None = None) -> set[str]:
    """The tables of an attached file, or of the one that was opened.

    A view of the same name could be anything, and is not asked.
    """
    statement = (
        "select table_name from duckdb_tables() "
        "where database_name = coalesce(?, current_database()) and schema_name = 'main'"
    )
    return {name for (name,) in connection.execute(statement, [attached]).fetchall()}


def _version_of(connection: duckdb.DuckDBPyConnection, path: Path, tables: set[str]) -> object:
    """The version of the attached file's tables. Raises UnknownFormatError unless lorabench made it."""
    if "lorabench" not in tables:
        raise UnknownFormatError(f"{path} is a DuckDB database, but not one that lorabench made")
    try:
        rows = connection.execute(f"select schema_version from {_THEIRS_MAIN}.lorabench").fetchall()
    except duckdb.BinderException:
        rows = []
    return rows[0][0] if len(rows) == 1 else None


def _require_this_version(database: Database) -> None:
    """Raise UnknownFormatError for what lorabench did not make, InputError for what another version of it made."""
    try:
        ((version,),) = database.rows("select schema_version from lorabench")
    except (duckdb.Error, ValueError) as error:
        raise UnknownFormatError(f"{database.path} is a DuckDB database, but not one that lorabench made") from error
    if version != upgrades.SCHEMA_VERSION:
        raise InputError(f"{database.path} was made by another version of lorabench (schema {version})")


def kept(
    path: Path, made_of: Sequence[tuple[Any, ...]], settings: Settings, writes_into: Path | None = None,
    remembered: Remembered | None = None,
) -> Database | None:  # fmt: skip
    """A database of ours that holds these inputs (name, size, mtime, reader version), as this lorabench reads them.

    None when there is none, or one of other inputs, settings, tables or views. Raises OutputError for a file that
    lorabench did not make, so that it is never replaced, except in the cache.
    """
    if not path.exists():
        return None
    database, is_current = None, False
    try:
        database = open_database(path, writes_into, is_own=True, remembered=remembered)
        found = database.rows(
            "select name, size_bytes, mtime_ns, reader_version from source, lorabench where sql = ? "
            "and settings = ? order by source_id",
            sql.fingerprint(),
            settings.fingerprint,
        )
        is_current = found == list(made_of)
    except (CorruptInputError, UnknownFormatError) as error:
        if not cache.holds(path):
            raise OutputError(
                f"{path} exists and is not a lorabench database; move it or choose --db ({error})"
            ) from error
    except InputError:  # another lorabench made it
        pass
    finally:
        if database is not None and not is_current:
            database.close()
    return database if is_current else None
