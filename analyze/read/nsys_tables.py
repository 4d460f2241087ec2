"""The rows of one exported file: small tables through sqlite3, large ones from their pages.

Invariants: the file is opened read-only and immutable, so neither it nor its folder changes. As many rows are read as
SQLite counts, or the tally says how many are missing. Texts take no more memory than the file's size allows. Columns
are selected by name and missing ones become NULL, because tables and columns differ between all versions of nsys.
"""

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from ...errors import CorruptInputError
from ..store import arrow_functions as arrow
from .nsys_processes import PROCESS_MASK
from .sqlite_pages import Column, Pages, UnusualError

WHAT_TO_DO = "export it again with `nsys export --type sqlite`"
_ROWS_AT_ONCE = 65_536
_TEXT_AT_ONCE = 16 << 20  # bytes
_LONGEST_TEXT = 32 << 20
# Texts of a file are no longer than the file, unless columns are computed or have a default.
_TEXT_FLOOR, _TEXT_RATIO = 64 << 20, 4
_INT, _TEXT = pa.int64(), pa.string()


@dataclass(frozen=True)
class Table:
    """What to read of a table: columns of integers that it must and may have, columns of texts, which rows."""

    name: str
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    only: tuple[str, tuple[int, ...]] | None = None

    @property
    def integers(self) -> tuple[str, ...]:
        """All columns of integers."""
        return (*self.needed, *self.optional)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, those of integers first."""
        return (*self.integers, *self.texts)


@dataclass
class Tally:
    """What passed through while a table was read."""

    rows: int = 0
    others: int = 0  # rows of other processes than the one that is read
    not_utf8: int = 0
    missing: int = 0  # rows that SQLite counts and does not give


def guarded(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The same connection, safe for files of others: nothing in their schema runs, and no text is endless."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
    connection.execute("pragma trusted_schema = off")
    return connection


class Export:
    """Read-only access to one exported file: to all of it, or to what one process left (nsys' number for it)."""

    def __init__(self, path: Path, process: int | None = None):
        self.path, self.process = path, process
        self.uri = f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"
        self._text_left = _TEXT_FLOOR + _TEXT_RATIO * path.stat().st_size
        self._sizes: dict[str, int] = {}
        self.columns, self._layouts = self._read_schema()

    def _read_schema(self) -> tuple[dict[str, dict[str, str]], dict[str, "_Layout"]]:
        """Of every table the column names, by lower-case name with the spelling that the file uses, and the layout."""
        rows = self.select(
            "select t.name, t.rootpage, c.cid, c.name, c.type, c.dflt_value, c.pk, c.hidden "
            "from sqlite_master as t join pragma_table_xinfo(t.name) as c where t.type = 'table'"
        )
        keys = self.select(
            "select t.name from sqlite_master as t join pragma_index_list(t.name) as i "
            "where t.type = 'table' and i.origin = 'pk'"
        )
        columns: dict[str, dict[str, str]] = {}
        layouts = {}
        for (name, root), group in groupby(rows, key=lambda row: row[:2]):
            found = [_Declared(*row[2:]) for row in group]
            columns[name] = {c.name.lower(): c.name for c in found}
            layouts[name] = _Layout.of(root, found, has_key_of_its_own=(name,) in keys)
        return columns, layouts

    def _connected(self) -> "closing[sqlite3.Connection]":
        """A connection that gives texts as UTF-8 bytes, whatever the file's encoding, and no endless ones.

        Threads may take turns with it: one reads, and another closes it after an error.
        """
        connection = guarded(sqlite3.connect(self.uri, uri=True, check_same_thread=False))
        connection.text_factory = bytes
        return closing(connection)

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a small query; text that is not UTF-8 is decoded with replacement."""
        try:
            with self._connected() as connection:
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
                return connection.execute(statement).fetchall()
        except sqlite3.Error as error:
            raise CorruptInputError(f"{self.path} is damaged: {error}; {WHAT_TO_DO}") from error

    def size(self, table: str) -> int:
        """Number of rows, counted once."""
        if table not in self._sizes:
            ((self._sizes[table],),) = self.select(f'select count(*) from "{table}" not indexed')
        return self._sizes[table]

    def batches(self, table: Table, tally: Tally) -> Iterator[pa.RecordBatch]:
        """The table's columns as Arrow batches: integers and texts, NULL for columns that the file lacks.

        The column `position` numbers the rows. Raises CorruptInputError for a needed column that is missing or a
        value that is no integer.
        """
        for column in table.needed:
            if column.lower() not in self.columns[table.name]:
                raise CorruptInputError(f"{self.path}: table {table.name} has no column {column}; {WHAT_TO_DO}")
        types = [*(_INT for _ in table.integers), *(_TEXT for _ in table.texts)]
        try:
            for piece in self._pieces(table, tally):
                columns = [_typed(array, type_, tally) for array, type_ in zip(piece, types, strict=True)]
                read = tally.rows + tally.others
                columns.append(pa.array(np.arange(read, read + len(columns[0]))))
                own = self._own(table, columns)
                tally.rows += len(own[0])
                tally.others += len(columns[0]) - len(own[0])
                yield pa.record_batch(own, [*table.columns, "position"])
        except (sqlite3.Error, ValueError) as error:
            raise CorruptInputError(self._explain(table, str(error))) from error

    def _own(self, table: Table, columns: list[pa.Array]) -> list[pa.Array]:
        """Those rows that are of the process, or say none."""
        whose = next((name for name in ("globalPid", "globalTid") if name in table.columns), None)
        if self.process is None or whose is None:
            return columns
        column = columns[table.columns.index(whose)]
        numbers = arrow.filled(column, self.process).to_numpy()
        chosen = pa.array(numbers & PROCESS_MASK == self.process)
        return [arrow.chosen(one, chosen) for one in columns]

    def _pieces(self, table: Table, tally: Tally) -> Iterator[list[pa.Array]]:
        """The columns some rows at a time: from the pages, and through SQLite what is unusual there."""
        after, seen, is_usual = None, 0, False
        try:
            layout = self._layouts[table.name]
            columns = layout.find(table, self.columns[table.name])
            is_usual = True
            with Pages(self.path) as pages:
                for piece in pages.read(layout.root, list(columns.values())):
                    if piece.columns is None:
                        is_usual = False
                        yield from self._select(table, after, piece.last)
                    else:
                        found = dict(zip(columns, piece.columns, strict=True))
                        count = len(piece.columns[0])
                        seen += count
                        yield _only(table, [found.get(c, pa.nulls(count)) for c in table.columns])
                    after = piece.last
        except UnusualError:
            is_usual = False
            yield from self._select(table, after, None)
        if is_usual:
            tally.missing = self.size(table.name) - seen
        else:
            where = f" where {self._wanted(table)}" if table.only else ""
            ((count,),) = self.select(f'select count(*) from "{table.name}" not indexed{where}')
            tally.missing = count - tally.rows - tally.others
        if tally.missing < 0:
            raise ValueError("damaged pages give rows twice")

    def _wanted(self, table: Table) -> str:
        """The condition of the rows that a table is read for."""
        name, values = table.only or ("", ())
        return f'"{self.columns[table.name][name.lower()]}" in {values}'

    def _select(self, table: Table, after: int | None, until: int | None) -> Iterator[list[pa.Array]]:
        """The same through SQLite, of the rows after one rowid and up to another."""
        has = self.columns[table.name]
        chosen = [_chosen(has, c, '"{}"') for c in table.integers]
        chosen += [_chosen(has, c, 'cast("{}" as text)') for c in table.texts]
        # a sign before the rowid: all rows are looked at, since damaged pages may lead a search astray
        where = [f"+rowid > {after}"] if after is not None else []
        where += [f"+rowid <= {until}"] if until is not None else []
        # here and not by _only(): other rows may hold what they like
        where += [self._wanted(table)] if table.only else []
        statement = f'select {", ".join(chosen)} from "{table.name}" not indexed where {" and ".join(where) or "true"}'
        with self._connected() as connection:
            rows = connection.execute(statement)
            while some := self._some(rows, len(table.integers)):
                values = list(zip(*some, strict=True))
                yield [_whole_numbers(column) for column in values[: len(table.integers)]] + [
                    pa.array(column, pa.binary()) for column in values[len(table.integers) :]
                ]

    def _some(self, rows: sqlite3.Cursor, texts_from: int) -> list[tuple[Any, ...]]:
        """The next rows: so many, or fewer with long texts. Raises ValueError when texts are longer than the file."""
        some, length = [], 0
        for row in islice(rows, _ROWS_AT_ONCE):
            some.append(row)
            length += sum(len(text) for text in row[texts_from:] if text is not None)
            if length > _TEXT_AT_ONCE:
                break
        self._text_left -= length
        if self._text_left < 0:
            raise ValueError("its texts are computed, and many times longer than the file")
        return some

    def _explain(self, table: Table, error: str) -> str:
        """Which cell broke the read: the first column that holds something other than integers and NULL."""
        has = self.columns[table.name]
        for column in (c for c in table.integers if c.lower() in has):
            found = self.select(
                f'select typeof("{column}"), count(*) from "{table.name}" '
                f"where typeof(\"{column}\") not in ('integer', 'null') group by 1"
            )
            for kind, count in found:
                return (
                    f"{self.path}: column {column} of table {table.name} holds {kind} instead of integers in "
                    f"{count} rows; the file was edited or damaged, {WHAT_TO_DO}"
                )
        return f"{self.path}: table {table.name} cannot be read: {error.splitlines()[0]}; {WHAT_TO_DO}"


class _Declared(NamedTuple):
    """A column as its table declares it."""

    place: int
    name: str
    type: str
    default: str | None
    key: int
    hidden: int


@dataclass(frozen=True)
class _Layout:
    """Where a table lies in the file and how to read its columns, by lower-case name.

    A column is left out when a row's own value is not the answer: it has a default for rows that were written before
    it, its type says that integers are floats, or columns are computed.
    """

    root: int
    columns: dict[str, Column]

    @classmethod
    def of(cls, root: int, found: "list[_Declared]", *, has_key_of_its_own: bool) -> "_Layout":
        columns = {}
        keys = sum(c.key > 0 for c in found)
        for c in found:
            type_ = c.type.upper()
            # https://www.sqlite.org/lang_createtable.html, 5: such a key is the rowid, and its column empty
            is_rowid = c.key > 0 and keys == 1 and type_ == "INTEGER" and not has_key_of_its_own
            if c.default is None and ("TEXT" in type_ or "INT" in type_):
                columns[c.name.lower()] = Column(c.place, "TEXT" in type_, is_rowid)
        is_plain = not any(c.hidden or c.name.lower() == "rowid" for c in found)
        return cls(root, columns if is_plain else {})

    def find(self, table: Table, has: Collection[str]) -> dict[str, Column]:
        """Those of a table's columns that the file has. Raises UnusualError when one was left out."""
        present = {name: self.columns.get(name.lower()) for name in table.columns if name.lower() in has}
        columns = {name: column for name, column in present.items() if column is not None}
        if len(columns) < len(present) or any(c.is_text != (n in table.texts) for n, c in columns.items()):
            raise UnusualError
        return columns


def _only(table: Table, columns: list[pa.Array]) -> list[pa.Array]:
    """Those rows of all columns that the table is read for."""
    if not table.only:
        return columns
    name, values = table.only
    chosen = arrow.is_in(columns[table.columns.index(name)], values, _INT)
    return [arrow.chosen(column, chosen) for column in columns]


def _chosen(has: dict[str, str], column: str, expression: str) -> str:
    """A select item: the column in the file's own spelling, or NULL where the file has no such column."""
    spelled = has.get(column.lower())
    return f'{expression.format(spelled) if spelled else "null"} as "{column}"'


def _whole_numbers(column: tuple[object, ...]) -> pa.Array:
    if not {type(value) for value in column} <= {int, type(None)}:
        raise ValueError("values that are no integers")
    return pa.array(column, _INT)


def _typed(array: pa.Array, to: pa.DataType, tally: Tally) -> pa.Array:
    """An Arrow column as integers or as texts; bytes that are not UTF-8 are replaced, and counted."""
    if array.type == to:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), to)
    try:
        return arrow.cast(array, to)
    except pa.ArrowInvalid:
        texts = [None if v is None else v.decode("utf-8", "replace") for v in array.to_pylist()]
        tally.not_utf8 += sum(t is not None and "\ufffd" in t for t in texts)
        return pa.array(texts, to)
