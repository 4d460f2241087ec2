"""Parses a Kineto trace piece by piece into tables that the staging files of a reader read.

Pieces of whole events go through one memory file, that DuckDB's own JSON reader parses into typed columns: the parser
runs at the speed of simdjson and no Python object is made for an event. Where a value has another type than it should
have, numbers are read as they are written and cast one by one; a piece that is not JSON is read event by event
(json_salvage.py). What cannot be read is counted, never dropped silently, and costs no more than itself: an argument
its event nothing, an event the others nothing.

The parser has a connection of its own, so that another thread can load a piece while the next one is parsed. There are
two tables for what is parsed, and pieces take turns:

    parser    piece 0 ► batch_0 | piece 1 ► batch_1 | piece 2 ► batch_0 | …
    reader                      | loads batch_0     | loads batch_1     | …
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from ... import sql
from ...sql import literal
from .json_pieces import Pieces
from .json_salvage import Salvaged, salvage

# A double holds a time with three decimals exactly below this many microseconds (2^43: 101 days).
_EXACT_US = 1 << 43
_LARGE_FRACTION = re.compile(rb'"ts"\s*:\s*"?-?(?:[0-9]{13,}\.[0-9]*[1-9]|[0-9.]+[eE])')
_TIME = re.compile(rb'("(?:ts|dur)"\s*:\s*)(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?=\s*[,}])')
# Kineto with roctracer has written the number that a call shares with what it launches as "External id", which is an
# operator's elsewhere, and no correlation at all.
_CORRELATION, _EXTERNAL_ID = b'"correlation"', b'"External id"'
# Events that DuckDB refuses though Python reads them are looked for one by one up to so many: each costs 20 ms.
_MOST_REFUSED = 100
_FUNCTIONS = (
    ("whole_text", "label", "kineto_whole_text"),
    ("ns_of", "us", "kineto_ns"),
    ("thread_number", "tid", "kineto_thread_number"),
    ("device_of", "type, index", "kineto_device"),
)
TABLES = ("batch", "memory_batch", "collective_batch", "counter_batch")


@dataclass(frozen=True)
class Parsed:
    """A piece whose events lie in tables, which are used again for the piece after the next one."""

    turn: int  # batch_0 or batch_1 of the attached database `parsed`
    is_text: bool  # numbers of arguments are texts, as kineto_text reads them
    has_memory: bool
    has_collective: bool
    has_counter: bool
    misfit_cnt: int  # arguments of another type than they should have
    read_bytes: int  # of the file, up to the end of the piece


@contextmanager
def parsing(path: Path, connection: duckdb.DuckDBPyConnection) -> Iterator["Parser"]:
    """A parser of a trace with a connection of its own to the database of `connection`, where what it parses is seen.

    Raises UnknownFormatError for JSON that is no trace.
    """
    connection.execute("attach ':memory:' as parsed")
    own = connection.cursor()
    try:
        with _piece_file() as file:
            yield Parser(path, own, file)
    finally:
        own.close()
    for table in TABLES:  # nobody goes on with a database into which one trace was read in part
        connection.execute(f"drop view if exists temp.{table}")
    connection.execute("detach parsed")


@contextmanager
def _piece_file() -> Iterator["_PieceFile"]:
    """A file that never touches a disk where the system has such, a temporary one elsewhere."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("lorabench-piece")
        try:
            yield _PieceFile(descriptor, f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile(prefix="lorabench-piece-", suffix=".json") as file:
            yield _PieceFile(file.fileno(), file.name)


class _Refused(Exception):
    """The fast parser does not accept a piece."""


class _PieceFile:
    """One file whose content is replaced for every piece."""

    def __init__(self, descriptor: int, path: str):
        self.descriptor = descriptor
        self.path = path

    def fill(self, *parts: bytes) -> None:
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(self.descriptor, view) :]
        os.ftruncate(self.descriptor, sum(map(len, parts)))  # last: the memory of the piece before is used again


class Parser:
    """The state of one pass over a trace: the pieces, how they are parsed, and what was lost."""

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection, file: _PieceFile):
        self.connection = connection
        self.file = file
        self.pieces = Pieces(path)
        self.lost = Salvaged()  # in all pieces
        self.is_decimal = self.is_text = self.is_correlated = False
        self.turn = self.event_cnt = self.refused_cnt = 0

    def __iter__(self) -> Iterator[Parsed]:
        """The pieces in the order of the file, each in its tables until the next but one is asked for."""
        self.connection.execute(f"create temp table category as {sql.staging('kineto_category')}")
        for function, parameters, file in _FUNCTIONS:
            self.connection.execute(sql.staging_macro(function, parameters, file))
        self._read_as_text(False)
        for piece in self.pieces:
            yield from self._last(piece) if self.pieces.at_end else self._piece(piece)

    def _last(self, text: bytes) -> Iterator[Parsed]:
        """The rest of the file: events, the end of the array and what follows it."""
        for events, members in self.pieces.ends(text):
            try:
                parsed = self._parsed(events)
            except _Refused:
                continue
            self.pieces.metadata |= members
            yield from parsed
            return
        yield from self._salvaged(text)

    def _piece(self, piece: bytes) -> Iterator[Parsed]:
        try:
            parsed = self._parsed(piece)
        except _Refused:
            yield from self._salvaged(piece)
        else:
            yield from parsed

    def _salvaged(self, piece: bytes) -> Iterator[Parsed]:
        """Read a piece event by event."""
        for events in salvage(piece, self.pieces.at_end, self.lost):
            yield from self._each(events)
        if self.pieces.at_end and not self.lost.ended and self.pieces.cut_off is None:
            self.pieces.cut_off = "the JSON ends in the middle"
        self.pieces.rest, self.pieces.ended = self.lost.rest.encode(), self.lost.ended

    def _each(self, events: list[str]) -> Iterator[Parsed]:
        """Parse events that are valid JSON; those that DuckDB still refuses are found by halving, up to a limit."""
        try:
            parsed = self._parsed(",".join(events).encode())
        except _Refused:
            if len(events) == 1 or self.refused_cnt >= _MOST_REFUSED:
                self.refused_cnt += 1
                self.lost.lost_cnt += len(events)
                self.lost.lost_bytes += sum(map(len, events))
                return
            middle = len(events) // 2
            yield from self._each(events[:middle])
            yield from self._each(events[middle:])
        else:
            yield from parsed

    def _parsed(self, events: bytes) -> list[Parsed]:
        """Parse a piece into the tables whose turn it is; nothing for one without events.

        Raises _Refused when it does not parse.
        """
        if not events.strip():
            return []
        self.is_correlated = self.is_correlated or _CORRELATION in events
        if not self.is_correlated:
            events = events.replace(_EXTERNAL_ID, _CORRELATION)
        self._parse(events)
        ((event_cnt, has_memory, has_collective, has_counter),) = self._rows("kineto_apart")
        if has_memory:
            self._query("kineto_memory_event", "memory_batch")
        if has_collective:
            self._query("kineto_collective_event", "collective_batch")
        if has_counter:
            self._query("kineto_counter_event", "counter_batch")
        ((misfit_cnt,),) = self._rows("kineto_misfit") if self.is_text else ((0,),)
        parsed = Parsed(
            self.turn, self.is_text, has_memory, has_collective, has_counter, misfit_cnt, self.pieces.read_bytes
        )
        self.event_cnt += event_cnt
        self.turn = 1 - self.turn
        return [parsed]

    def _parse(self, events: bytes) -> None:
        """Fill the table `batch`.

        With decimal times where doubles would lose digits, and numbers as text where something has another type.
        """
        if self.is_decimal:
            events = _TIME.sub(rb'\1"\2"', events)
        self._parse_as_is(events)
        if not self.is_decimal and self._needs_decimals(events):
            self.is_decimal = True
            self._read_as_text(self.is_text)
            self._parse(events)
        elif not self.is_text and self._rows("kineto_doubt")[0][0]:
            self._read_as_text(True)
            self._parse(events)

    def _needs_decimals(self, events: bytes) -> bool:
        """True for fractions of microseconds since 1970, which torch 2.3 wrote."""
        ((largest,),) = self.connection.execute("select coalesce(max(abs(start_ns)), 0) from batch").fetchall()
        return int(largest) >= _EXACT_US * 1000 and _LARGE_FRACTION.search(events) is not None

    def _parse_as_is(self, events: bytes) -> None:
        """Fill the table in the mode of reading that is set, or else as text.

        Raises _Refused when DuckDB's JSON reader does not accept the piece.
        """
        self.file.fill(b"[", events, b"]")
        try:
            self._query("kineto_event", "batch")
        except _Refused:
            if self.is_text:
                raise
            self._read_as_text(True)
            try:
                self._query("kineto_event", "batch")
            except _Refused:
                self._read_as_text(False)
                raise

    def _read_as_text(self, is_text: bool) -> None:
        """Say how kineto_event reads the pieces from now on."""
        self.is_text = is_text
        file = f"kineto_{'text' if is_text else 'typed'}"
        self.connection.execute(f"create or replace temp macro kineto_piece() as table {self._filled(file)}")
        self.connection.execute(whole_macro(is_text))

    def _filled(self, file: str) -> str:
        return sql.staging(
            file,
            path=literal(self.file.path),
            time_type="decimal(38, 9)" if self.is_decimal else "double",
            first_position=str(self.event_cnt),
        )

    def _query(self, file: str, into: str) -> None:
        """Run a staging file over the piece. Raises _Refused when DuckDB's JSON reader does not accept the piece."""
        try:
            self.connection.execute(f"create or replace table parsed.{into}_{self.turn} as {self._filled(file)}")
        except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
            raise _Refused from error
        self.connection.execute(turn_view(into, self.turn))

    def _rows(self, file: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql.staging(file)).fetchall()


def turn_view(table: str, turn: int) -> str:
    """A statement that lets those that read one of TABLES read the one whose turn it is."""
    return f"create or replace temp view {table} as from parsed.{table}_{turn}"


def whole_macro(is_text: bool) -> str:
    """A statement that lets whole() take numbers of arguments as they are in `batch`."""
    return sql.staging_macro("whole", "number", f"kineto_whole_of_{'text' if is_text else 'double'}")
