"""Reads a torch.profiler chrome trace (Kineto JSON) into the staged tables.

Pieces of whole events go through one memory file, that DuckDB's own JSON reader parses into typed columns: the parser
runs at the speed of simdjson and no Python object is made for an event. Where a value has another type than it should
have, numbers are read as they are written and cast one by one; a piece that is not JSON is read event by event
(json_salvage.py). What cannot be read is counted, never dropped silently, and costs no more than itself: an argument
its event nothing, an event the others nothing.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from ... import sql
from ...errors import CorruptInputError
from .json_pieces import Pieces
from .json_salvage import salvage
from .kineto_notes import Tally, note, why_no_event
from .staging import Bare, Staging

# A double holds a time with three decimals exactly below this many microseconds (2^43: 101 days).
_EXACT_US = 1 << 43
_LARGE_FRACTION = re.compile(rb'"ts"\s*:\s*"?-?(?:[0-9]{13,}\.[0-9]*[1-9]|[0-9.]+[eE])')
_TIME = re.compile(rb'("(?:ts|dur)"\s*:\s*)(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?=\s*[,}])')
# Events that DuckDB refuses though Python reads them are looked for one by one up to so many: each costs 20 ms.
_MOST_REFUSED = 100
# What events become (or their phase), the staging file that makes it of them, and the table. A piece without such
# events does without the statement, which takes 2 to 8 ms to plan.
_TARGETS = (
    ("range", "kineto_range", "staged_range"),
    ("api_call", "kineto_api_call", "staged_api_call"),
    ("gpu_op", "kineto_gpu_op", "staged_gpu_op"),
    ("sync", "kineto_sync", "sync"),
    ("overhead", "kineto_overhead", "overhead"),
    ("M", "kineto_label", "kineto_label"),
)


def read(path: Path, staging: Staging) -> None:
    """Load one trace into the staged tables.

    Raises UnknownFormatError for JSON that is no trace, CorruptInputError when not one event can be read.
    """
    with _piece_file() as file:
        _Reader(path, staging, file).read()


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


class _Reader:
    """The state of one read: the pieces, and what was counted."""

    def __init__(self, path: Path, staging: Staging, file: _PieceFile):
        self.path = path
        self.staging = staging
        self.file = file
        self.pieces = Pieces(path)
        self.is_decimal = self.is_text = self.has_memory = self.has_collective = False
        self.loaded_cnt = self.refused_cnt = 0
        self.tally = Tally()

    def read(self) -> None:
        """All pieces, then what the trace says about itself."""
        staging = self.staging
        staging.create_from("category", "kineto_category")
        staging.create_table("kineto_thread", "source_id integer, thread_id bigint, pid bigint, tid bigint")
        staging.create_table("kineto_label", "what varchar, pid bigint, tid bigint, label varchar")
        staging.create_table(
            "kineto_memory",
            "source_id integer, process_id bigint, tid bigint, time_ns bigint, device varchar, bytes bigint, "
            "address bigint, allocated_bytes bigint, reserved_bytes bigint, is_before boolean",
        )
        staging.define("whole_text", "label", "kineto_whole_text")
        staging.define("whole_written", "number", "kineto_whole_of_text")
        self._read_as_text(False)
        staging.progress.step("events", self.path.stat().st_size)
        done = 0
        with staging.in_order():  # one thread parses a piece, and a second one only costs time
            for piece in self.pieces:
                self._read_last(piece) if self.pieces.at_end else self._read_piece(piece)
                staging.progress.advance(self.pieces.read_bytes - done)
                done = self.pieces.read_bytes
            self._finish()

    def _read_last(self, text: bytes) -> None:
        """The rest of the file: events, the end of the array and what follows it."""
        for events, members in self.pieces.ends(text):
            try:
                self._load(events)
            except _Refused:
                continue
            self.pieces.metadata |= members
            return
        self._salvage(text)

    def _read_piece(self, piece: bytes) -> None:
        try:
            self._load(piece)
        except _Refused:
            self._salvage(piece)

    def _salvage(self, piece: bytes) -> None:
        """Read a piece event by event and load what is whole."""
        found = salvage(piece, self.pieces.at_end, self._load_each)
        if self.pieces.at_end and not found.ended and self.pieces.cut_off is None:
            self.pieces.cut_off = "the JSON ends in the middle"
        self.tally.lost_cnt += found.lost_cnt
        self.tally.lost_bytes += found.lost_bytes
        self.tally.cut_bytes = found.cut_bytes
        self.tally.replaced_cnt += found.replaced_cnt
        self.pieces.rest, self.pieces.ended = found.rest.encode(), found.ended

    def _load_each(self, events: list[str]) -> None:
        """Load events that are valid JSON; those that DuckDB still refuses are found by halving, up to a limit."""
        if not events:
            return
        try:
            self._load(",".join(events).encode())
        except _Refused:
            if len(events) == 1 or self.refused_cnt >= _MOST_REFUSED:
                self.refused_cnt += 1
                self.tally.lost_cnt += len(events)
                self.tally.lost_bytes += sum(map(len, events))
                return
            middle = len(events) // 2
            self._load_each(events[:middle])
            self._load_each(events[middle:])

    def _load(self, events: bytes) -> None:
        """Parse a piece and stage its rows. Raises _Refused, with nothing staged, when it does not parse."""
        if not events.strip():
            return
        self._parse(events)
        staging = self.staging
        staging.intern("select distinct coalesce(name, '') from batch where becomes is not null")
        staging.intern("select distinct shape from batch where shape is not null")
        staging.load("kineto_thread", "kineto_thread")
        present = self._count()
        for what, file, into in _TARGETS:
            if what in present:
                staging.load(file, into)
        if self.has_collective:
            staging.load("kineto_collective", "staged_collective")
            self.tally.misfit_cnt += staging.scalar(sql.staging("kineto_collective_misfit"))
        if self.has_memory:
            self._load_memory()
        self.loaded_cnt = self.tally.events.total()

    def _load_memory(self) -> None:
        run = self.staging.database.connection.execute
        ((loaded,),) = run("insert into kineto_memory from memory_batch where bytes + time_ns is not null").fetchall()
        self.tally.memory_lost_cnt += self.staging.scalar("select count(*) from memory_batch") - loaded

    def _count(self) -> set[str | None]:
        """Count the events of the batch; returns their phases and what they become."""
        present: set[str | None] = set()
        for phase, category, becomes, event_cnt, unusable_cnt in self.staging.database.rows(
            sql.staging("kineto_count")
        ):
            self.tally.events[phase, category, becomes] += event_cnt
            self.tally.unusable[phase, category, becomes] += unusable_cnt
            present |= {phase, becomes}
        if self.is_text:
            self.tally.misfit_cnt += self.staging.scalar(sql.staging("kineto_misfit"))
        return present

    def _parse(self, events: bytes) -> None:
        """Fill the temporary table `batch`, and `memory_batch` and `collective_batch` where a piece has such events.

        With decimal times where doubles would lose digits, and numbers as text where something has another type.
        """
        if self.is_decimal:
            events = _TIME.sub(rb'\1"\2"', events)
        self._parse_as_is(events)
        if not self.is_decimal and self._needs_decimals(events):
            self.is_decimal = True
            self._read_as_text(self.is_text)
            self._parse(events)
        elif not self.is_text and self.staging.scalar(sql.staging("kineto_doubt")):
            self._read_as_text(True)
            self._parse(events)

    def _needs_decimals(self, events: bytes) -> bool:
        """True for fractions of microseconds since 1970, which torch 2.3 wrote."""
        largest = self.staging.scalar("select coalesce(max(abs(start_ns)), 0) from batch")
        return int(largest) >= _EXACT_US * 1000 and _LARGE_FRACTION.search(events) is not None

    def _parse_as_is(self, events: bytes) -> None:
        """Fill the tables in the mode of reading that is set, or else as text.

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
        ((self.has_memory, self.has_collective),) = self.staging.database.rows(sql.staging("kineto_apart"))
        if self.has_memory:
            self._query("kineto_memory_event", "memory_batch")
        if self.has_collective:
            self._query("kineto_collective_event", "collective_batch")

    def _read_as_text(self, is_text: bool) -> None:
        """Say how kineto_event reads the pieces from now on."""
        self.is_text = is_text
        form = "text" if is_text else "typed"
        self.staging.run_with(
            f"kineto_{form}", "create or replace temp macro kineto_piece() as table",
            path=self.file.path, time_type=self._time_type(),
        )  # fmt: skip
        self.staging.define("whole", "number", f"kineto_whole_of_{'text' if is_text else 'double'}")

    def _time_type(self) -> Bare:
        return Bare("decimal(38, 9)" if self.is_decimal else "double")

    def _query(self, file: str, into: str) -> None:
        """Run a staging file over the piece. Raises _Refused when DuckDB's JSON reader does not accept the piece."""
        try:
            self.staging.run_with(
                file, f"create or replace temp table {into} as",
                path=self.file.path, time_type=self._time_type(), first_position=self.loaded_cnt,
            )  # fmt: skip
        except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
            raise _Refused from error

    def _finish(self) -> None:
        """Threads, the names of ranges, and what is said of the file."""
        staging = self.staging
        if not any(phase for phase, _, _ in self.tally.events):
            raise CorruptInputError(
                f"{self.path} holds no event that can be read" + why_no_event(self.tally, self.pieces)
            )
        staging.load("kineto_thread_done", "thread")
        staging.insert(
            """select kineto_memory.* exclude (tid), kineto_thread.thread_id
            from kineto_memory
            left join kineto_thread on kineto_thread.pid = process_id and kineto_thread.tid = kineto_memory.tid""",
            "staged_memory_event",
        )
        staging.drop("kineto_memory")
        staging.columns("staged_range")
        staging.name_ranges("select text from staged_name semi join staged_range on text_id = name_id")
        note(self.tally, self.pieces, staging)
