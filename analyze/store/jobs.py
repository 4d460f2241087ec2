"""Opens the database of a job: rows that inputs handed on, under our views; and the part of one input beside them."""

import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from ... import sql
from ...errors import CorruptInputError, InputError, UnknownFormatError, UsageError
from ...sql import literal, quoted
from ...vocabulary import WHOLE_FILE
from . import blank, cache, upgrades
from .database import Database
from .limits import QUERY_MEMORY, SETTINGS, first_line
from .opening import scratch_beside, tables_of
from .upgrades import SCHEMA_VERSION

_JOB, _PART = "job", "part"
_SETTINGS = ("threshold", "kernel_class_rule", "device_peak", "memory_category")  # tables that a part does not change


@dataclass(frozen=True)
class JobInput:
    """An input of a job, by the number that it has in its database."""

    source_id: int
    location: str
    folder: str
    result_ns: int | None  # when its result was written; None without one
    rank: int | None
    problem: str | None  # why it is not among the inputs that are compared


def require_no_job(database: Database, what: str) -> None:
    """Raise UsageError for the database of a job: what reads every event of a rank is asked of its part."""
    if database.rows(f"select 1 from duckdb_databases() where database_name = {literal(_JOB)}"):
        raise UsageError(
            f"{what} reads every event of a rank: give the part.duckdb of one, below inputs/ in the job folder"
        )


def job_inputs(path: Path) -> list[JobInput]:
    """The inputs that the database of a job was made of. Raises InputError for a file that is none of this version."""
    with _reading(path) as connection:
        _require_this_version(connection, path)
        _require_tables(connection, path, None, ("job_input", "source", "source_fact"))
        rows = connection.execute(
            """select source_id, location, folder, result_ns, source.rank, lost.value
            from job_input
            join source using (source_id)
            left join source_fact as lost
                on lost.source_id = job_input.source_id and lost.section = 'lost' and lost.item = ?
            order by source_id""",
            [WHOLE_FILE],
        ).fetchall()
    return [JobInput(*row) for row in rows]


def made_by(path: Path) -> str:
    """Which lorabench made the database of a job: its schema, SQL and version of what inputs hand on, as A/B/C.

    Raises InputError for a file that is none.
    """
    with _reading(path) as connection:
        schema_version, fingerprint = _version(connection, path)
        _require_tables(connection, path, None, ("job_input",))
        try:
            found = connection.execute("select any_value(versions) from job_input").fetchall()
        except duckdb.Error:  # versions before this one said no more
            found = []
    return str(found[0][0]) if found else f"{schema_version}/{fingerprint}/0"


@contextmanager
def _reading(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        with duckdb.connect(str(path.absolute()), read_only=True, config=SETTINGS) as connection:
            yield connection
    except duckdb.Error as error:
        raise CorruptInputError(f"cannot open {path} as the database of a job: {first_line(error)}") from error


def open_job(
    path: Path,
    tables: Collection[str],
    given: Collection[str],
    part: tuple[Path, int] | None = None,
    elsewhere: Mapping[str, str] | None = None,
    writes_into: Path | None = None,
) -> Database:
    """Open a job's database, read-only: these tables and the rows of these views are its own, views are ours.

    With a part, tables with a row for each event are those of that input. Raises InputError for a database of another
    version, CorruptInputError for a file that is none.
    """
    spill = Path(tempfile.gettempdir()) / f"lorabench-spill-{uuid.uuid4().hex[:8]}"
    config = SETTINGS | {"memory_limit": QUERY_MEMORY, "temp_directory": str(spill)}
    connection = duckdb.connect(":memory:", config=config)
    scratch = None
    try:
        connection.execute(f"attach {literal(str(path.absolute()))} as {_JOB} (read_only)")
        _require_this_version(connection, path, _JOB)
        blank.fill(connection, cache.folder_or_none())
        _put_over(connection, path, tables, given)
        database = Database(connection, path, given=given, elsewhere=None if part else elsewhere)
        if part is not None:
            _attach(database, *part, tables)
        if writes_into is not None:
            scratch = scratch_beside(writes_into)
            connection.execute("set allowed_directories = ?", [[f"{scratch.absolute()}/"]])
            database.writes_to(scratch)
        connection.execute("set enable_external_access = false")
    except duckdb.Error as error:
        connection.close()
        raise CorruptInputError(f"cannot open {path} as the database of a job: {first_line(error)}") from error
    except BaseException:
        connection.close()
        raise
    return database


def _require_this_version(connection: duckdb.DuckDBPyConnection, path: Path, attached: str | None = None) -> None:
    if _version(connection, path, attached) != (SCHEMA_VERSION, sql.fingerprint()):
        raise InputError(f"{path} was made by another version of lorabench: lorabench merge {path.parent}")


def _require_tables(
    connection: duckdb.DuckDBPyConnection, path: Path, attached: str | None, names: Collection[str]
) -> None:
    """Raise CorruptInputError where what rows are taken from is no table: a view could be anything."""
    if missing := sorted(set(names) - tables_of(connection, attached)):
        raise CorruptInputError(f"{path} has no table {missing[0]}: lorabench did not make it, or it was changed")


def _version(connection: duckdb.DuckDBPyConnection, path: Path, attached: str | None = None) -> tuple[int, str]:
    """Schema and SQL of the database that was opened, or attached under a name."""
    foreign = UnknownFormatError(f"{path} is a DuckDB database, but not one that lorabench made")
    if "lorabench" not in tables_of(connection, attached):
        raise foreign
    place = f"{attached}.main.lorabench" if attached else "lorabench"
    try:
        ((number, fingerprint),) = connection.execute(f"select schema_version, sql from {place}").fetchall()
    except (duckdb.Error, ValueError) as error:
        raise foreign from error
    return number, fingerprint


def _put_over(
    connection: duckdb.DuckDBPyConnection, path: Path, tables: Collection[str], given: Collection[str]
) -> None:
    """Views of the job's rows in the place of our empty tables and of views that are given."""
    _require_tables(connection, path, _JOB, (*tables, *given, "job_input", "lorabench"))
    connection.execute("begin")
    for name in tables:
        connection.execute(f"drop table {quoted(name)}")
    for name in given:
        connection.execute(f"drop view {quoted(name)}")
    for name in (*tables, *given, "job_input"):
        connection.execute(f"create view {quoted(name)} as from {_JOB}.main.{quoted(name)}")
    connection.execute(f"create view lorabench as from {_JOB}.main.lorabench")
    connection.execute("commit")


@contextmanager
def overlaid(database: Database, part: Path, source_id: int, tables: Collection[str]) -> Iterator[None]:
    """While open, tables that are not among these have the rows of one input's part.

    Raises FileNotFoundError for a part that is not there, InputError for one that cannot be read.
    """
    names = _attach(database, part, source_id, tables)
    try:
        yield
    finally:
        for name in names:
            database.connection.execute(f"drop view temp.{quoted(name)}")
        database.connection.execute(f"detach {_PART}")


def _attach(database: Database, part: Path, source_id: int, tables: Collection[str]) -> list[str]:
    if not part.exists():
        raise FileNotFoundError(part)
    run = database.connection.execute
    made = []
    try:
        run(f"attach {literal(str(part.absolute()))} as {_PART} (read_only)")
        every = sql.in_folder(sql.TABLES)
        version, _ = _version(database.connection, part, _PART)
        theirs = upgrades.relations(version, [file.name for file in every], f"{_PART}.main", part)
        files = [file for file in every if file.name not in tables and file.name not in _SETTINGS]
        unchanged = [file.name for file in files if theirs[file.name] == f"{_PART}.main.{quoted(file.name)}"]
        _require_tables(database.connection, part, _PART, unchanged)
        for file in files:
            columns = [column.name for column in file.columns]
            chosen = (f"{source_id} as source_id" if name == "source_id" else quoted(name) for name in columns)
            run(f"create temp view {quoted(file.name)} as select {', '.join(chosen)} from {theirs[file.name]}")
            made.append(file.name)
    except duckdb.Error as error:
        raise CorruptInputError(f"cannot read the part {part}: {first_line(error)}") from error
    return made
