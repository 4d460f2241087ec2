"""An open database: rows of its tables and views, as tuples, dicts, polars DataFrames and files."""

import re
import shutil
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from ... import sql, unfinished
from ...errors import CorruptInputError, OutputError, UsageError
from ...sql import literal, quoted
from . import views
from .limits import CANNOT_SPILL, CANNOT_WRITE, first_line
from .remembered import Remembered

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars
    import pyarrow as pa

_T = TypeVar("_T")


class Database:
    """An open lorabench database. Use as a context manager, or call close()."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        path: Path,
        scratch: Path | None = None,
        *,
        can_grow: bool = False,
        is_small: bool = False,
        given: Collection[str] = (),
        elsewhere: Mapping[str, str] | None = None,
        remembered: Remembered | None = None,
    ):
        """`scratch` is a folder that does not exist, the only place where DuckDB may make files.

        With `can_grow` a statement that runs out of DuckDB's memory is tried again with more. Of one that `is_small`
        statements take longer to plan than their rows to copy. Views that are `given`
        are there as rows; of tables and views whose rows are `elsewhere` it says where. What of its results is
        `remembered` is not computed again.
        """
        self.connection = connection
        self.path = path
        self._scratch = scratch
        self._can_grow = can_grow
        self._is_small = is_small
        self._given = frozenset(given)
        self._elsewhere = dict(elsewhere or {})
        self._remembered = remembered
        self.notes: list[str] = []  # what a person should know of it
        self._fillers: dict[str, Callable[[], pa.Table]] = {}
        self._filled: set[str] = set()
        self._made: set[str] = set()  # of these the ones whose rows are made without their statements
        self._kept: set[str] = set()  # views that are temporary tables while something is computed
        self._looked_up: dict[str, Any] = {}
        OPENED.add(self)

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def give(self, views: Collection[str]) -> None:
        """Take the rows of these views as they are: tables stand in their place."""
        self._given |= frozenset(views)

    @property
    def given(self) -> frozenset[str]:
        """The views that are there as rows."""
        return self._given

    def writes_to(self, scratch: Path) -> None:
        """Let copy() make files, through a folder that does not exist."""
        self._scratch = scratch

    def close(self) -> None:
        """Release the file."""
        self.connection.close()
        OPENED.discard(self)

    def filling(
        self, fillers: "Mapping[str, Callable[[], pa.Table]]", by_statement: Collection[str] = (), *, once: bool = False
    ) -> None:
        """Let statements that read these tables or views see what the functions return, called when that is asked for.

        The tables and views of the file stay as they are. The functions of views that are `by_statement` ask what their
        statements ask (rows_of); others make the rows without it. With `once` a process before may have called them.
        """
        remembered = self._remembered if once else None
        for name, make in fillers.items():
            self._fillers[name] = make if remembered is None else partial(remembered.table, name, make)
        self._made = (self._made - fillers.keys()) | (fillers.keys() - set(by_statement))

    def once(self, name: str, make: Callable[[], _T]) -> _T:
        """What `make` returns, which JSON can hold, or what it returned to a process before this one."""
        return make() if self._remembered is None else self._remembered.document(name, make)

    def looked_up(self, what: str, look: Callable[[], _T]) -> _T:
        """What `look` returns of a finished database, asked once in this process."""
        if what not in self._looked_up:
            self._looked_up[what] = look()
        found: _T = self._looked_up[what]
        return found

    def rows_of(self, view: str) -> "pa.Table":
        """The rows of a view of the file, views that it reads more than once computed once."""
        self._filled_for(views.known()[view].statement)
        with self.computing_once((view,)), self._explained(view):
            return self._arrow(f"from main.{quoted(view)}", is_small=True)

    def rows_of_rules(self, view: str) -> "pa.Table":
        """The same of a view of rules that says its columns, without asking the rules that find nothing.

        To plan these takes longer than to see that.
        """
        guards = {rule.name: rule.only_with for rule in views.rules_of(view)}
        with self.computing_once(statement=";".join(guards.values())), self._explained(view):
            chosen = [name for name, guard in guards.items() if not guard or self.rows(f"{guard} limit 1")]
            if not chosen:
                return self.no_rows_of(view)
            statement = views.of_chosen_rules(view, chosen)
            self._filled_for(statement)
            with self.computing_once(statement=statement):
                return self._arrow(statement, is_small=True)

    def no_rows_of(self, view: str) -> "pa.Table":
        """A table with the view's columns, for what is known to be empty without asking."""
        columns = ", ".join(f"null::{c.sql_type} as {quoted(c.name)}" for c in views.known()[view].columns)
        return self.connection.sql(f"select {columns} where false").to_arrow_table()

    def _filled_for(self, statement: str) -> None:
        """Make the rows that a statement reads, if they take so long that they are made for those who ask alone."""
        if not self._fillers:
            return
        words = views.read_by(statement, self._filled | self._fillers.keys())
        for table in [name for name in self._fillers if name in words]:
            fill = self._fillers.pop(table, None)
            if fill is None:  # another one has asked for it
                continue
            self._filled.add(table)
            try:
                self.connection.register(table, fill())
            except BaseException:  # as when it was interrupted: who asks again gets it made again
                self._filled.discard(table)
                self._fillers[table] = fill
                raise

    def table(self, statement: str) -> "pa.Table":
        """The rows of a query of lorabench's own as an Arrow table."""
        self._filled_for(statement)
        with self._explained("what is asked for"):
            return self._arrow(statement)

    def _arrow(self, statement: str, *, is_small: bool = False) -> "pa.Table":
        """The rows of a statement. A relation plans it twice, and spares a copy of the rows if they are not few."""
        if not (is_small or self._is_small):
            return self._roomy(lambda: self.connection.sql(statement).to_arrow_table())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Arrow output on a DB-API result")
            return self._roomy(lambda: self.connection.execute(statement).to_arrow_table())

    def has(self, view: str) -> bool:
        """Whether the rows of a view are here."""
        return view not in self._elsewhere

    def _require_here(self, statement: str) -> None:
        """Raise UsageError, saying where they are, for a statement that reads rows that are elsewhere."""
        for name in re.findall(r"\b(?:from|join|describe|summarize)\s+\"?(\w+)", statement, re.IGNORECASE):
            if name in self._elsewhere:
                raise UsageError(self._elsewhere[name])

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

        self._require_here(statement)
        self._filled_for(statement)
        try:
            _require_one_select(self.connection, statement)
            frame: polars.DataFrame = _narrow(self._roomy(lambda: _of_known_types(self.connection.sql(statement)).pl()))
        except duckdb.PermissionException as error:
            raise UsageError(
                f"the query failed: queries cannot access other files ({first_line(error)}); "
                "write what a select returns (--csv, --json)"
            ) from error
        except duckdb.Error as error:
            raise UsageError(f"the query failed: {_with_hint(error)}") from error
        except PolarsError as error:
            raise UsageError(f"the query's result cannot be shown: {first_line(error)}") from error
        return frame

    def public_view(self, name: str) -> str:
        """The name itself when it is a public view; raises UsageError with names like it."""
        return sql.public_view(name).name

    def limit_memory(self, limit: str) -> None:
        """Let DuckDB have so much from now on; with each change it gives back all that is free, arrays' memory too."""
        self.connection.execute(f"set memory_limit = {literal(limit)}")

    def _roomy(self, act: Callable[[], _T]) -> _T:
        """What `act` returns; tried again with most of the machine's memory where DuckDB's share does not suffice.

        What DuckDB makes of an interrupt is one again.
        """
        try:
            return act()
        except (RuntimeError, duckdb.InterruptException, duckdb.InvalidInputException) as error:
            if not _is_interrupt(error):
                raise
            raise KeyboardInterrupt from error
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
        self._filled_for(statement)
        with self._explained("what is asked for"):
            return self._roomy(lambda: self.connection.execute(statement, parameters).fetchall())

    def dicts(self, statement: str) -> list[dict[str, Any]]:
        """The same as dicts by the names of the columns."""
        self._filled_for(statement)
        with self._explained("what is asked for"):
            cursor = self._roomy(lambda: self.connection.execute(statement))
            names = [str(column[0]) for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def columns(self, statement: str, by: str | None = None) -> "dict[str, npt.NDArray[Any]]":
        """The same as numpy arrays by the names of the columns; texts are objects, NULL is NaN or undefined.

        In order of the column `by`: tables hold their rows in order of the key, so that is looked at and seldom done.
        """
        self._filled_for(statement)
        with self._explained("what is asked for"):
            found = self._arrow(statement)
        made = {name: found.column(name).to_numpy() for name in found.column_names}
        if by is not None and (made[by][1:] < made[by][:-1]).any():
            order = made[by].argsort(kind="stable")
            return {name: column[order] for name, column in made.items()}
        return made

    @contextmanager
    def _explained(self, what: object) -> Iterator[None]:
        """DuckDB's errors as lorabench's."""
        try:
            yield
        except duckdb.PermissionException as error:  # none of our views reads a file
            raise CorruptInputError(f"{self.path} has a view that reaches for a file: {first_line(error)}") from error
        except duckdb.OutOfMemoryException as error:
            raise OutputError(
                f"{what} needs more memory than DuckDB may have: {first_line(error)}; "
                "allow more with LORABENCH_QUERY_MEMORY"
            ) from error
        except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException) as error:
            raise CorruptInputError(f"{self.path} holds what cannot be right: {first_line(error)}") from error
        except duckdb.Error as error:
            if "Corrupt database" not in str(error):  # a checksum that does not match has no type of its own
                raise
            raise CorruptInputError(f"{self.path} is damaged: {first_line(error)}") from error

    @contextmanager
    def computing_once(self, asked: Collection[str] = (), statement: str = "") -> Iterator[None]:
        """While open, what is read more than once is a temporary table in the place of a view: by the views asked for,
        each of which is read itself, and by a statement.

        What only views read whose rows are made without their statements is not among them.
        """
        given = self._given | self._made | self._filled.difference(asked)
        read = Counter(asked) + views.readings_of(statement)
        reached = views.reached(read, given)
        read += views.readings(reached - given)
        kept = [
            file.name
            for file in views.in_order(reached)
            if read[file.name] > 1
            and file.name not in views.READ_THROUGH
            and file.folder != sql.MACROS
            and file.name not in self._filled | self._fillers.keys() | self._kept | self._given
        ]
        try:
            for name in kept:
                self._kept.add(name)
                with suppress(CorruptInputError):  # who reads the view will say so; the others need not suffer
                    self.rows(f"create temp table {quoted(name)} as from main.{quoted(name)}")
            yield
        except CANNOT_SPILL as error:
            raise OutputError(f"not enough disk space for temporary results: {first_line(error)}") from error
        finally:
            for name in kept:
                self._kept.discard(name)
                self.connection.execute(f"drop table if exists temp.{quoted(name)}")

    def copy(self, statement: str, path: Path, options: str) -> None:
        """Write the rows of a select to a file, in the folder that the database was opened to write into.

        The file is complete or as it was. Raises OutputError when the disk refuses, and what rows() raises.
        """
        if self._scratch is None:
            raise ValueError("the database was not opened to write files")
        self._require_here(statement)
        self._filled_for(statement)
        made = self._scratch.absolute() / "rows"  # the name of `path` may be one that DuckDB cannot spell
        command = f"copy ({statement}) to {literal(str(made))} ({options})"
        try:
            self._scratch.mkdir(parents=True)
            with self._explained(path):
                self._roomy(lambda: self.connection.execute(command))
            place = unfinished.end_of_links(path)
            partial = unfinished.beside(place)
            shutil.move(made, partial)
            partial.replace(place)
        except CANNOT_WRITE as error:
            said = first_line(error).replace(str(made), str(path)).replace(str(self._scratch), str(path.parent))
            raise OutputError(f"cannot write {path}: {said}") from error
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)


OPENED: "weakref.WeakSet[Database]" = weakref.WeakSet()


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


def _narrow(frame: "polars.DataFrame") -> "polars.DataFrame":
    """The frame with sums of integers, which have 128 bits, as 64 where they fit."""
    import polars

    wide = [
        name for name, kind in frame.schema.items()
        if kind == polars.Int128 or (isinstance(kind, polars.Decimal) and not kind.scale)
    ]  # fmt: skip
    narrow = frame.with_columns(polars.col(name).cast(polars.Int64, strict=False) for name in wide)
    fits = [name for name in wide if narrow[name].null_count() == frame[name].null_count()]
    return frame.with_columns(narrow[name] for name in fits)


def _is_interrupt(error: Exception) -> bool:
    """Whether an error is what DuckDB makes of KeyboardInterrupt, while it waits or while it calls us."""
    if isinstance(error, duckdb.InvalidInputException):
        return "KeyboardInterrupt" in str(error)
    return isinstance(error, duckdb.InterruptException) or "interrupted" in str(error)


def _with_hint(error: BaseException) -> str:
    """The first line of what DuckDB says, and the names that it suggests."""
    hint = re.search(r"Did you mean[^\n]*|Candidate bindings:[^\n]*", str(error))
    return " ".join([first_line(error), *([hint[0]] if hint and hint[0] not in first_line(error) else [])])
