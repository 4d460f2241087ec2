"""The DuckDB file: created once by an ingest, read many times after.

Invariant: a database is complete or absent. It is built under a temporary name beside its destination and renamed
when everything, the checks included, has passed; an interrupted build leaves an earlier database as it was.
"""

import os
import re
import shutil
import tempfile
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from .. import sql, unfinished
from ..errors import CorruptInputError, InputError, OutputError, UnknownFormatError, UsageError
from ..sql import literal, quoted
from . import blank, cache, views
from .settings import Settings

if TYPE_CHECKING:
    import polars

_T = TypeVar("_T")
SCHEMA_VERSION = 7
# DuckDB spills what does not fit. While a file is read, a piece of it must fit in full; while the model is completed
# little is needed beside its arrays; to sort and take medians of the rows, more. Medians do not spill: a statement that
# needs more still gets most of the machine's memory, unless somebody asked for a limit.
_INGEST_MEMORY = os.environ.get("LORABENCH_INGEST_MEMORY")
_READ_MEMORY = _INGEST_MEMORY or "384MB"
_COMPLETE_MEMORY = _INGEST_MEMORY or "192MB"
_QUERY_MEMORY_ASKED = os.environ.get("LORABENCH_QUERY_MEMORY")
QUERY_MEMORY = _QUERY_MEMORY_ASKED or "1500MB"

# Nothing is ever downloaded or loaded from outside the package.
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # duckdb 2.0.0 fails with it on unions of large views ("dict-surviving join: build pipeline is not single-source")
    "disabled_optimizers": "projection_pullup",
}


# What DuckDB raises on a full disk, depending on whether a row group, the log or the checkpoint was being written.
_CANNOT_WRITE = (duckdb.IOException, duckdb.FatalException, duckdb.TransactionException, OSError)


class Database:
    """An open lorabench database. Use as a context manager, or call close()."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, path: Path, scratch: Path | None = None, *, can_grow: bool = False
    ):
        """`scratch` is a folder that does not exist, the only place where DuckDB may make files.

        With `can_grow` a statement that runs out of DuckDB's memory is tried again with more.
        """
        self.connection = connection
        self.path = path
        self._scratch = scratch
        self._can_grow = can_grow
        _opened.add(self)

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file."""
        self.connection.close()
        _opened.discard(self)

    def view(self, name: str) -> "polars.DataFrame":
        """All rows of a public view as a polars DataFrame.

        Raises UsageError when there is no such view.
        """
        return self.query(f"select * from {quoted(self.public_view(name))}")

    def query(self, statement: str) -> "polars.DataFrame":
        """The result of a select as a polars DataFrame; values of types that polars lacks (intervals) are texts.

        Raises UsageError with DuckDB's words when it fails.
        """
        from polars.exceptions import PolarsError

        try:
            _require_one_select(self.connection, statement)
            frame: polars.DataFrame = self._roomy(lambda: _of_known_types(self.connection.sql(statement)).pl())
        except duckdb.PermissionException as error:
            raise UsageError(
                f"the query failed: queries cannot access other files ({_first_line(error)}); "
                "write what a select returns (--csv, --json)"
            ) from error
        except duckdb.Error as error:
            raise UsageError(f"the query failed: {_with_hint(error)}") from error
        except PolarsError as error:
            raise UsageError(f"the query's result cannot be shown: {_first_line(error)}") from error
        return frame

    def public_view(self, name: str) -> str:
        """The name itself when it is a public view; raises UsageError with names like it."""
        return sql.public_view(name).name

    @contextmanager
    def room_to_read(self) -> Iterator[None]:
        """While open, DuckDB has the memory that a file takes to read; that of the rest is set when all went well."""
        self.connection.execute(f"set memory_limit = {literal(_READ_MEMORY)}")
        yield
        self.connection.execute(f"set memory_limit = {literal(_COMPLETE_MEMORY)}")

    def _roomy(self, act: Callable[[], _T]) -> _T:
        """What `act` returns; tried again with most of the machine's memory where DuckDB's share does not suffice."""
        try:
            return act()
        except duckdb.OutOfMemoryException:
            if not self._can_grow:
                raise
            self._can_grow = False
            self.connection.execute("reset memory_limit")  # DuckDB's default knows the limits of a container
            return act()

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a query of lorabench's own, as tuples.

        Raises CorruptInputError for what the database holds and no view can compute with, OutputError when memory or
        disk do not suffice.
        """
        with self._explained("what is asked for"):
            return self._roomy(lambda: self.connection.execute(statement, parameters).fetchall())

    def dicts(self, statement: str) -> list[dict[str, Any]]:
        """The same as dicts by the names of the columns."""
        with self._explained("what is asked for"):
            cursor = self._roomy(lambda: self.connection.execute(statement))
            names = [str(column[0]) for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    @contextmanager
    def _explained(self, what: object) -> Iterator[None]:
        """DuckDB's errors as lorabench's."""
        try:
            yield
        except duckdb.PermissionException as error:  # none of our views reads a file
            raise CorruptInputError(f"{self.path} has a view that reaches for a file: {_first_line(error)}") from error
        except duckdb.OutOfMemoryException as error:
            raise OutputError(
                f"{what} needs more memory than DuckDB may have: {_first_line(error)}; "
                "allow more with LORABENCH_QUERY_MEMORY"
            ) from error
        except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException) as error:
            raise CorruptInputError(f"{self.path} holds what cannot be right: {_first_line(error)}") from error

    @contextmanager
    def computing_once(self, asked: Collection[str]) -> Iterator[None]:
        """While open, what the views asked for read more than once is a temporary table in the place of the view."""
        _, needs = views.needed()
        reached = views.reached(asked)
        read = Counter(asked) + Counter(name for reader in reached for name in needs[reader])
        kept = [
            file.name
            for file in views.in_order()
            if file.name in reached and read[file.name] > 1 and file.folder != sql.MACROS
        ]
        try:
            for name in kept:
                with suppress(CorruptInputError):  # who reads the view will say so; the others need not suffer
                    self.rows(f"create temp table {quoted(name)} as from main.{quoted(name)}")
            yield
        except _CANNOT_WRITE as error:
            raise OutputError(f"not enough disk space for temporary results: {_first_line(error)}") from error
        finally:
            for name in kept:
                self.connection.execute(f"drop table if exists temp.{quoted(name)}")

    def copy(self, statement: str, path: Path, options: str) -> None:
        """Write the rows of a select to a file, in the folder that the database was opened to write into.

        The file is complete or as it was. Raises OutputError when the disk refuses, and what rows() raises.
        """
        if self._scratch is None:
            raise ValueError("the database was not opened to write files")
        made = self._scratch.absolute() / "rows"  # the name of `path` may be one that DuckDB cannot spell
        command = f"copy ({statement}) to {literal(str(made))} ({options})"
        try:
            self._scratch.mkdir(parents=True)
            with self._explained(path):
                self._roomy(lambda: self.connection.execute(command))
            partial = unfinished.beside(path)
            shutil.move(made, partial)
            partial.replace(path)
        except _CANNOT_WRITE as error:
            raise OutputError(f"cannot write {path}: {_first_line(error)}") from error
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)


_opened: "weakref.WeakSet[Database]" = weakref.WeakSet()


def open_database(path: Path, writes_into: Path | None = None, *, is_own: bool = False) -> Database:
    """Open a finished database, read-only.

    Unless `is_own` it may be somebody else's, and its views are SQL: only its tables are used, under views of ours, and
    statements get no more memory than LORABENCH_QUERY_MEMORY. DuckDB opens no other file in either case; copy() makes
    files in the folder `writes_into`, through one of its own there.

    Raises InputError when it cannot be read, UnknownFormatError when it is not one of lorabench's.
    """
    try:
        connection = _connect_afresh(path) if is_own else _connect_to_tables(path)
    except duckdb.Error as error:
        raise CorruptInputError(f"cannot open {path} as a DuckDB database: {_first_line(error)}") from error
    scratch = None
    if writes_into is not None:
        scratch = _scratch_beside(writes_into)
        connection.execute("set allowed_directories = ?", [[f"{scratch.absolute()}{os.sep}"]])
    connection.execute("set enable_external_access = false")
    database = Database(connection, path, scratch, can_grow=is_own and not _QUERY_MEMORY_ASKED)
    try:
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
    config = _SETTINGS | {"memory_limit": QUERY_MEMORY}
    if not any(database.path.absolute() == path.absolute() for database in _opened):
        return duckdb.connect(str(path.absolute()), read_only=True, config=config)
    link = unfinished.beside(path, "open")
    try:
        link.hardlink_to(path)
        return duckdb.connect(str(link.absolute()), read_only=True, config=config)
    except OSError as error:
        raise OutputError(f"{path} is open in this process, and cannot be opened again: close it first") from error
    finally:
        link.unlink(missing_ok=True)


def _scratch_beside(folder: Path) -> Path:
    """Where DuckDB makes a file that will be moved into a folder: in it, so that the move is one step."""
    try:
        str(folder.absolute()).encode("utf-8")
    except UnicodeEncodeError:
        folder = Path(tempfile.gettempdir())  # bytes that are no text cannot be said in SQL
    return unfinished.beside(folder / "rows")


_THEIRS = "theirs"


def _connect_to_tables(path: Path) -> duckdb.DuckDBPyConnection:
    """A connection to a database in memory with our views over the tables of a file; other views of it follow behind.

    Raises UnknownFormatError for a file without these tables.
    """
    spill = Path(tempfile.gettempdir()) / f"lorabench-spill-{uuid.uuid4().hex[:8]}"
    config = _SETTINGS | {"memory_limit": QUERY_MEMORY, "temp_directory": str(spill)}
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.execute(f"attach {literal(str(path.absolute()))} as {_THEIRS} (read_only)")
        tables = {table.name: {column.name for column in table.columns} for table in sql.in_folder(sql.TABLES)}
        tables["lorabench"] = {"schema_version", "sql", "settings"}
        _require_tables(connection, path, tables)
        connection.execute("begin")
        for name in tables:
            connection.execute(f"create view {quoted(name)} as from {_THEIRS}.main.{quoted(name)}")
        for statement in blank.views_and_functions():
            connection.execute(statement)
        connection.execute("commit")
        connection.execute(f"set search_path = 'memory.main,{_THEIRS}.main'")
    except BaseException:
        connection.close()
        raise
    return connection


def _require_tables(connection: duckdb.DuckDBPyConnection, path: Path, tables: dict[str, set[str]]) -> None:
    """Raise UnknownFormatError unless the attached file is lorabench's, InputError unless tables have the columns."""
    found: dict[str, set[str]] = {}
    rows = connection.execute(
        "select table_name, column_name from duckdb_columns() join duckdb_tables() "
        "using (database_name, schema_name, table_name) where database_name = ? and schema_name = 'main'",
        [_THEIRS],
    ).fetchall()
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    if not found.keys() & {"lorabench"}:
        raise UnknownFormatError(f"{path} is a DuckDB database, but not one that lorabench made")
    for name, columns in tables.items():
        if not columns <= found.get(name, set()):
            raise InputError(
                f"{path} was made by another version of lorabench, or changed since: its table {name} is another one; "
                "run `lorabench analyze` on its input again"
            )


def _require_this_version(database: Database) -> None:
    """Raise UnknownFormatError for what lorabench did not make, InputError for what another version of it made."""
    try:
        ((version,),) = database.rows("select schema_version from lorabench")
    except (duckdb.Error, ValueError) as error:
        raise UnknownFormatError(f"{database.path} is a DuckDB database, but not one that lorabench made") from error
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{database.path} was made by another version of lorabench (schema {version}, this one writes "
            f"{SCHEMA_VERSION}); run `lorabench analyze` on its input again"
        )


def sources_of(path: Path, settings: Settings) -> list[tuple[Any, ...]] | None:
    """(name, size, mtime, reader version) of the inputs that a database holds; None when there is no such file.

    Empty for a database that another lorabench made, with other tables or views, or that has other settings. Raises
    OutputError for a file that lorabench did not make, so that it is never replaced, except in the cache.
    """
    if not path.exists():
        return None
    try:
        with open_database(path, is_own=True) as database:
            return database.rows(
                "select name, size_bytes, mtime_ns, reader_version from source, lorabench where sql = ? "
                "and settings = ? order by source_id",
                sql.fingerprint(),
                settings.fingerprint,
            )
    except (CorruptInputError, UnknownFormatError) as error:
        if cache.holds(path):
            return []
        raise OutputError(
            f"{path} is in the way and no lorabench database; move it or choose --db ({error})"
        ) from error
    except InputError:
        return []


@contextmanager
def building(path: Path, settings: Settings | None = None) -> Iterator[Database]:
    """A new database to fill, with all tables and views; it takes its name `path` when the block ends well, and
    vanishes when it does not.

    Raises OutputError when the folder cannot be written or the disk is full.
    """
    partial = unfinished.beside(path)
    database = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        config = _SETTINGS | {"memory_limit": _COMPLETE_MEMORY}
        database = Database(blank.create(partial, cache.folder_or_none(), config), partial)
        _begin(database, settings or Settings())
        yield database
        database.connection.execute("checkpoint")  # closing would only try, and hide a full disk
        database.close()
        partial.replace(path)
    except duckdb.OutOfMemoryException as error:
        raise OutputError(
            f"filling {path} needs more memory than DuckDB may have: {_first_line(error)}; "
            "allow more with LORABENCH_INGEST_MEMORY"
        ) from error
    except _CANNOT_WRITE as error:
        raise OutputError(f"cannot write {path}: {_first_line(error)}") from error
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


# What is not data: it would change the process, or DuckDB's settings.
_CONFIGURES = re.compile(r"\b(enable|disable|truncate|load|checkpoint|force_checkpoint)_?\w*\s*\(", re.IGNORECASE)
_UNKNOWN_TO_POLARS = re.compile("INTERVAL|BIT|UNION|VARIANT|DATE|TIME")


def _require_one_select(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Raise UsageError unless a text is one statement that returns rows and does nothing else."""
    kinds = [found.type for found in connection.extract_statements(statement)]
    if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.EXPLAIN]) or _CONFIGURES.search(statement):
        raise UsageError("a query is one select (or: from VIEW, describe VIEW, show tables, explain …)")


def _of_known_types(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The relation with texts in the place of values that polars has no type for."""
    types = [str(type_) for type_ in relation.types]
    if not any(map(_UNKNOWN_TO_POLARS.search, types)):
        return relation
    columns = [
        f"#{place}{'::varchar' if _UNKNOWN_TO_POLARS.search(type_) else ''} as {quoted(name)}"
        for place, (name, type_) in enumerate(zip(relation.columns, types, strict=True), start=1)
    ]
    return relation.project(", ".join(columns))


def _with_hint(error: BaseException) -> str:
    """The first line of what DuckDB says, and the names that it suggests."""
    hint = re.search(r"Did you mean[^\n]*|Candidate bindings:[^\n]*", str(error))
    return " ".join([_first_line(error), *([hint[0]] if hint and hint[0] not in _first_line(error) else [])])


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
