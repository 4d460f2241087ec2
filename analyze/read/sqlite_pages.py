"""Columns of an SQLite table, decoded from its pages a few thousand rows at a time.

Through SQLite a value costs about 40 ns, most of it for asking what it is and handing it over; here about 5. What is
unusual (a row that runs over its page, a float, a value of another kind than asked for, a damaged page) is not decoded:
the piece says so, and SQLite reads these rows.

Source of the layout: https://www.sqlite.org/fileformat2.html, 1.3 (header), 1.6 (b-tree pages), 2.1 (records).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

_HEADER_BYTES = 100
_UTF8 = 1
_SMALLEST_USABLE = 480  # bytes of a page that SQLite itself insists on
_LEAST_BESIDE_RECORD = 35  # a longer record goes on in pages of its own
_INTERIOR, _LEAF = 0x05, 0x0D
_FIRST_POINTER = {_INTERIOR: 12, _LEAF: 8}
_DEEPEST = 20  # SQLite's own limit of a cursor
_PIECE_BYTES = 2 << 20
_PADDING = 32  # so that what begins near the last byte can be loaded before it is known to be wrong

# By serial type: bytes of the value, and the bits by which eight loaded bytes are too many. 8 and 9 are 0 and 1.
_WIDTH = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0], dtype=np.int64)
_SURPLUS = np.minimum(64 - 8 * _WIDTH, 63)
_HIGH_BITS = np.array([0] + [int("80" * length, 16) for length in range(1, 9)], dtype=np.uint64)
_NULL, _ONE_BYTE, _FLOAT, _ZERO, _RESERVED, _BLOB = 0, 1, 7, 8, 10, 12


class UnusualError(Exception):
    """What is here has to be read by SQLite."""


@dataclass(frozen=True)
class Column:
    """One column to read: its place in the table's rows, and whether it holds texts or stands for the rowid.

    Else it holds integers. A row that ends before the column has NULL there: it was written before the column was
    added, without a default.
    """

    place: int
    is_text: bool = False
    is_rowid: bool = False


@dataclass(frozen=True)
class Piece:
    """Some rows in order of their rowid, up to and including `last`: int64 or binary arrays, None for unusual ones."""

    last: int
    columns: list[pa.Array] | None


class Pages:
    """The pages of one SQLite database that nobody writes. Use as a context manager."""

    def __init__(self, path: Path):
        """Raises UnusualError for what has other pages than the format says, OSError for what cannot be opened."""
        self._file = path.open("rb", buffering=0)
        head = self._file.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
        size = int.from_bytes(head[16:18], "big")
        self._size = 65536 if size == 1 else size
        self._usable = self._size - head[20]
        if self._usable < _SMALLEST_USABLE or int.from_bytes(head[56:60], "big") != _UTF8:
            self._file.close()
            raise UnusualError
        self._count = path.stat().st_size // self._size
        self._at_once = max(1, _PIECE_BYTES // self._size)

    def __enter__(self) -> "Pages":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, root: int, columns: Sequence[Column]) -> Iterator[Piece]:
        """The rows of the table with this root page.

        Raises UnusualError where the pages do not tell which rows come next: SQLite has to read on from there.
        """
        last = None
        for leaves in self._split(self._leaves(root)):
            cells = self._cells(leaves, _LEAF)
            if len(cells.at):
                rows = _Rows(cells, self._usable - _LEAST_BESIDE_RECORD)
                if not rows.follow(last):
                    raise UnusualError  # pages in a wrong order: the last row is not the highest
                last = rows.last
                try:
                    yield Piece(rows.last, rows.decode(columns))
                except UnusualError:
                    yield Piece(rows.last, None)

    def _split(self, pages: Any) -> Iterator[Any]:
        yield from (pages[first : first + self._at_once] for first in range(0, len(pages), self._at_once))

    def _leaves(self, root: int) -> Any:
        """Numbers of the table's leaf pages, in order of their rows."""
        level = np.array([root])
        for _ in range(_DEEPEST):
            # page 1 begins with the file's header; a damaged tree may name a page twice or one that is not there
            if level.min() < 2 or level.max() > self._count or (np.diff(np.sort(level)) == 0).any():
                raise UnusualError
            if self._load(level[:1])[0] == _LEAF:
                return level
            level = np.concatenate([self._children(pages) for pages in self._split(level)])
        raise UnusualError

    def _children(self, pages: Any) -> Any:
        """Numbers of the pages below these interior ones, in order."""
        cells = self._cells(pages, _INTERIOR)
        rightmost = _at(cells.data, ">u4")[np.arange(len(pages)) * self._size + 8]
        return np.insert(_at(cells.data, ">u4")[cells.at], np.cumsum(cells.counts), rightmost).astype(np.int64)

    def _cells(self, pages: Any, page_type: int) -> "_Cells":
        """The cells of some pages of one type, in order of their keys."""
        data = self._load(pages)
        starts = np.arange(len(pages)) * self._size
        first_pointer = _FIRST_POINTER[page_type]
        counts = _at(data, ">u2")[starts + 3].astype(np.int64)
        if (data[starts] != page_type).any() or (first_pointer + 2 * counts > self._usable).any():
            raise UnusualError
        before = np.cumsum(counts) - counts
        start = np.repeat(starts, counts)
        pointers = np.repeat(starts + first_pointer - 2 * before, counts) + 2 * np.arange(len(start))
        offsets = _at(data, ">u2")[pointers].astype(np.int64)
        if len(offsets):
            lowest = np.minimum.reduceat(offsets, before[counts > 0])
            if (lowest < (first_pointer + 2 * counts)[counts > 0]).any() or offsets.max() > self._usable - 4:
                raise UnusualError
        return _Cells(data, start + offsets, counts, start + self._usable)

    def _load(self, pages: Any) -> Any:
        """The bytes of some pages, one after another, and padding."""
        data = np.empty(len(pages) * self._size + _PADDING, dtype=np.uint8)
        data[-_PADDING:] = 0
        into = data.data
        done = 0
        for run in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
            size = len(run) * self._size
            self._file.seek((int(run[0]) - 1) * self._size)
            if self._file.readinto(into[done : done + size]) != size:
                raise UnusualError
            done += size
        return data


@dataclass(frozen=True)
class _Cells:
    """Some pages' bytes and, for each cell of them, where it begins and its page ends; how many each page has."""

    data: Any
    at: Any
    counts: Any
    page_end: Any


class _Rows:
    """The rows of some leaf pages."""

    def __init__(self, cells: _Cells, longest: int):
        self._cells, self._longest = cells, longest
        self._size, at = _varint(cells.data, cells.at)
        self._rowid, self._record = _varint(cells.data, at)
        self.last = int(self._rowid[-1])

    def follow(self, last: int | None) -> bool:
        """Whether the rowids rise, from one that is larger than the last of the piece before."""
        rowid = self._rowid.astype(np.int64)
        return bool((rowid[1:] > rowid[:-1]).all()) and (last is None or int(rowid[0]) > last)

    def decode(self, columns: Sequence[Column]) -> list[pa.Array]:
        """The columns asked for. Raises UnusualError for rows that hold anything else."""
        end = self._record + self._size
        if (self._size > self._longest).any() or (end > self._cells.page_end).any():
            raise UnusualError
        wanted = {column.place: column for column in columns}
        found = self._of_short_header(wanted, end)
        if found is None:
            found = self._of_any_header(wanted, end)
        return [found[column.place] for column in columns]

    def _of_short_header(self, wanted: dict[int, Column], end: Any) -> dict[int, pa.Array] | None:
        """The columns where each kind is one byte and no row lacks any; None for other rows.

        header   kinds     values             up to the first column that is not of one kind in all rows, values lie
        5        6 6 1 2   aaaaaa bbbbbb c dd    side by side in copies of the rows: they are read by stride;
        5        6 6 1 1   aaaaaa bbbbbb c d     behind it where each lies is added up
        """
        data, count = self._cells.data, max(wanted) + 1
        header = data[self._record]
        if header.min() <= count or header.max() >= 0x80:
            return None
        value_at = self._record + header
        if (value_at > end).any():
            raise UnusualError
        kinds = np.ascontiguousarray(_copied(data, self._record + 1, count).T)
        lows, highs = kinds.min(axis=1).tolist(), kinds.max(axis=1).tolist()
        if max(highs) >= 0x80:
            return None
        found: dict[int, pa.Array] = {}
        alike, length = _alike(kinds, lows, highs)
        if (value_at + length > end).any():
            raise UnusualError
        rows = _copied(data, value_at, length + _PADDING)
        offset = 0
        for place in range(alike):
            values = _Values(kinds[place], lows[place], highs[place], data, value_at, rows, offset)
            if place in wanted:
                found[place] = self._column(wanted[place], values)
            offset += values.width
        others = zip(range(alike, count), kinds[alike:], lows[alike:], highs[alike:], strict=True)
        return found | self._behind(value_at + length, others, wanted, end)

    def _of_any_header(self, wanted: dict[int, Column], end: Any) -> dict[int, pa.Array]:
        header, kind_at = _varint(self._cells.data, self._record)
        header_end = self._record + header
        if (header < 1).any() or (header_end > end).any():
            raise UnusualError
        return self._behind(header_end, self._kinds(max(wanted) + 1, kind_at, header_end), wanted, end)

    def _kinds(self, count: int, kind_at: Any, header_end: Any) -> Iterator[tuple[int, Any, int, int]]:
        """The place, the kinds, and the least and the most of them, of so many columns."""
        for place in range(count):
            is_missing = kind_at >= header_end
            kind, kind_at = _varint(self._cells.data, kind_at)
            if is_missing.any():
                kind, kind_at = np.where(is_missing, _NULL, kind), np.where(is_missing, header_end, kind_at)
            yield place, kind, int(kind.min()), int(kind.max())

    def _behind(
        self, value_at: Any, kinds: Iterable[tuple[int, Any, int, int]], wanted: dict[int, Column], end: Any
    ) -> dict[int, pa.Array]:
        """Columns of these kinds, one behind the other from where the first one's values are."""
        found: dict[int, pa.Array] = {}
        for place, kind, low, high in kinds:
            values = _Values(kind, low, high, self._cells.data, value_at)
            value_at = value_at + values.width
            if (value_at > end).any():
                raise UnusualError
            if place in wanted:
                found[place] = self._column(wanted[place], values)
        return found

    def _column(self, column: Column, values: "_Values") -> pa.Array:
        if not column.is_rowid:
            return values.texts() if column.is_text else values.integers()
        if values.high != _NULL:
            raise UnusualError
        return pa.array(self._rowid.astype(np.int64))


def _alike(kinds: Any, lows: list[int], highs: list[int]) -> tuple[int, int]:
    """How many columns come before the first that is not of one kind in all rows, and how many bytes they take."""
    alike = next((i for i, (low, high) in enumerate(zip(lows, highs, strict=True)) if low != high), len(lows))
    return alike, sum(int(_widths(kinds[place], lows[place], lows[place])) for place in range(alike))


def _copied(data: Any, at: Any, length: int) -> Any:
    """So many bytes from each place, a row each; zeros behind the last byte."""
    beyond = int(at.max()) + length - len(data)
    if beyond > 0:
        data = np.concatenate([data, np.zeros(beyond, dtype=np.uint8)])
    rows = np.ndarray((len(data) - length + 1,), f"V{length}", data, 0, (1,))[at]
    return rows.view(np.uint8).reshape(len(at), length)


def _at(data: Any, dtype: str) -> Any:
    """The number that begins at each byte."""
    width = np.dtype(dtype).itemsize
    return np.ndarray((len(data) - width + 1,), dtype, data, 0, (1,))


def _varint(data: Any, at: Any) -> tuple[Any, Any]:
    """Numbers of seven bits a byte, the highest first; all eight bits of a ninth byte. And where each ends."""
    byte = data[at]
    if byte.max(initial=0) < 0x80:
        return byte, at + 1
    # all are as long as the first one: rowids are, but for where they pass a power of 128
    ends = np.flatnonzero(data[at[0] : at[0] + 8] < 0x80)
    if ends.size:
        length = int(ends[0]) + 1
        word = _at(data, ">u8")[at] >> np.uint64(64 - 8 * length)
        if ((word & _HIGH_BITS[length]) == _HIGH_BITS[length] - np.uint64(0x80)).all():
            value = word & np.uint64(0x7F)
            for place in range(1, length):
                value |= (word >> np.uint64(place)) & np.uint64(0x7F << 7 * place)
            return value.astype(np.int64), at + length
    value, more = byte.astype(np.int64) & 0x7F, byte >= 0x80
    at = at + 1
    for length in range(2, 10):
        byte = data[at]
        longer = value << 8 | byte if length == 9 else value << 7 | byte & 0x7F
        value, at = np.where(more, longer, value), at + more
        more = more & (byte >= 0x80)
        if not more.any():
            break
    return value, at


def _widths(kind: Any, low: int, high: int) -> Any:
    """Bytes of each value; one number where all values are of one kind. `low` and `high` are the least and most."""
    if high < _RESERVED:
        return int(_WIDTH[low]) if low == high else _WIDTH.take(kind)
    if ((kind >= _RESERVED) & (kind < _BLOB)).any() or low < 0:
        raise UnusualError
    if low == high:
        return low - _BLOB >> 1
    small = _WIDTH.take(np.minimum(kind, _RESERVED - 1))
    return np.where(kind < _RESERVED, small, (kind.astype(np.int64) - _BLOB) >> 1)


class _Values:
    """The values of one column: the kind of each, and where it begins, or also at which offset of rows of bytes."""

    def __init__(self, kind: Any, low: int, high: int, data: Any, at: Any, rows: Any = None, offset: int = 0):
        self.kind, self.low, self.high = kind, low, high
        self.width = _widths(kind, low, high)
        self._data, self._at, self._rows, self._offset = data, at, rows, offset

    def _loaded(self, dtype: str) -> Any:
        """As int64 what begins where each value does."""
        if self._rows is None:
            return _at(self._data, dtype)[self._at].astype(np.int64)
        strided = np.ndarray((len(self._rows),), dtype, self._rows, self._offset, (self._rows.shape[1],))
        return strided.astype(np.int64)

    def integers(self) -> pa.Array:
        """As integers. Raises UnusualError for what is none."""
        kind, low, high = self.kind, self.low, self.high
        if high >= _RESERVED or (low <= _FLOAT <= high and (kind == _FLOAT).any()):
            raise UnusualError
        if low == high and self.width == 0:
            return pa.nulls(len(kind), pa.int64()) if low == _NULL else pa.array(np.full(len(kind), low - _ZERO))
        if low == high == _ONE_BYTE:
            return pa.array(self._loaded("i1"))
        loaded = self._loaded(">i8")
        if low == high:
            return pa.array(loaded >> _SURPLUS[low])
        values = loaded >> _SURPLUS.take(kind)
        if high >= _ZERO:
            values = np.where(kind < _ZERO, values, kind.astype(np.int64) - _ZERO)
        return pa.array(values, mask=kind == _NULL if low == _NULL else None)

    def texts(self) -> pa.Array:
        """As the bytes of texts. Raises UnusualError for what is none."""
        kind, at = self.kind, self._at + self._offset
        if ((kind != _NULL) & (kind < _BLOB)).any():
            raise UnusualError
        lengths = np.broadcast_to(self.width, kind.shape)
        ends = np.cumsum(lengths)
        if ends[-1] > len(self._data):  # texts that lie over one another
            raise UnusualError
        taken = self._data[np.repeat(at - (ends - lengths), lengths) + np.arange(ends[-1])]
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        present = pa.array(kind != _NULL).buffers()[1]
        return pa.Array.from_buffers(pa.binary(), len(kind), [present, pa.py_buffer(offsets), pa.py_buffer(taken)])
