"""Columns of an SQLite table, decoded from its pages a few thousand rows at a time.

Through SQLite a value costs about 40 ns, most of it for asking what it is and handing it over; here about 5. What is
unusual (a row that runs over its page, a float, a value of another kind than asked for, a damaged page) is not decoded:
the piece says so, and SQLite reads these rows.

Source of the layout: https://www.sqlite.org/fileformat2.html, 1.3 (header), 1.6 (b-tree pages), 2.1 (records).
"""

from collections.abc import Iterator, Sequence
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
        ends = np.cumsum(np.bincount(cells.page, minlength=len(pages)))
        return np.insert(_at(cells.data, ">u4")[cells.at], ends, rightmost).astype(np.int64)

    def _cells(self, pages: Any, page_type: int) -> "_Cells":
        """The cells of some pages of one type, in order of their keys."""
        data = self._load(pages)
        starts = np.arange(len(pages)) * self._size
        first_pointer = _FIRST_POINTER[page_type]
        counts = _at(data, ">u2")[starts + 3].astype(np.int64)
        if (data[starts] != page_type).any() or (first_pointer + 2 * counts > self._usable).any():
            raise UnusualError
        page = np.repeat(np.arange(len(pages)), counts)
        before = np.cumsum(counts) - counts
        pointers = starts[page] + first_pointer + 2 * (np.arange(len(page)) - before[page])
        offsets = _at(data, ">u2")[pointers].astype(np.int64)
        if ((offsets < (first_pointer + 2 * counts)[page]) | (offsets > self._usable - 4)).any():
            raise UnusualError
        return _Cells(data, starts[page] + offsets, page, starts[page] + self._usable)

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
    """Some pages' bytes and, for each cell of them, where it begins, the place of its page, and where the page ends."""

    data: Any
    at: Any
    page: Any
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
        data = self._cells.data
        end = self._record + self._size
        if (self._size > self._longest).any() or (end > self._cells.page_end).any():
            raise UnusualError
        wanted = {column.place: column for column in columns}
        found: dict[int, pa.Array] = {}
        header, kind_at = _varint(data, self._record)
        header_end = value_end = self._record + header
        if (header < 1).any() or (header_end > end).any():
            raise UnusualError
        for place in range(max(wanted) + 1):
            is_missing = kind_at >= header_end
            kind, kind_at = _varint(data, kind_at)
            if is_missing.any():
                kind, kind_at = np.where(is_missing, _NULL, kind), np.where(is_missing, header_end, kind_at)
            value_at, width = value_end, _widths(kind)
            value_end = value_at + width
            if (value_end > end).any():
                raise UnusualError
            if place in wanted:
                found[place] = self._values(wanted[place], kind, value_at, width)
        return [found[column.place] for column in columns]

    def _values(self, column: Column, kind: Any, value_at: Any, width: Any) -> pa.Array:
        if not column.is_rowid:
            return (_texts if column.is_text else _integers)(self._cells.data, kind, value_at, width)
        if (kind != _NULL).any():
            raise UnusualError
        return pa.array(self._rowid.astype(np.int64))


def _at(data: Any, dtype: str) -> Any:
    """The number that begins at each byte."""
    width = np.dtype(dtype).itemsize
    return np.ndarray((len(data) - width + 1,), dtype, data, 0, (1,))


def _varint(data: Any, at: Any) -> tuple[Any, Any]:
    """Numbers of seven bits a byte, the highest first; all eight bits of a ninth byte. And where each ends."""
    byte = data[at]
    if byte.max(initial=0) < 0x80:
        return byte, at + 1
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


def _widths(kind: Any) -> Any:
    """Bytes of each value; one number where all values are of one kind."""
    low, high = kind.min(), kind.max()
    if high < _RESERVED:
        return int(_WIDTH[low]) if low == high else _WIDTH.take(kind)
    if ((kind >= _RESERVED) & (kind < _BLOB)).any() or low < 0:
        raise UnusualError
    small = _WIDTH.take(np.minimum(kind, _RESERVED - 1))
    return np.where(kind < _RESERVED, small, (kind.astype(np.int64) - _BLOB) >> 1)


def _integers(data: Any, kind: Any, value_at: Any, width: Any) -> pa.Array:
    low, high = kind.min(), kind.max()
    if high >= _RESERVED or (kind == _FLOAT).any():
        raise UnusualError
    if low == high and width == 0:
        return pa.nulls(len(kind), pa.int64()) if low == _NULL else pa.array(np.full(len(kind), int(low) - _ZERO))
    if low == high == _ONE_BYTE:
        return pa.array(data.view(np.int8)[value_at].astype(np.int64))
    loaded = _at(data, ">i8")[value_at]
    if low == high:
        return pa.array(loaded >> _SURPLUS[low])
    values = loaded >> _SURPLUS.take(kind)
    if high >= _ZERO:
        values = np.where(kind < _ZERO, values, kind.astype(np.int64) - _ZERO)
    return pa.array(values, mask=kind == _NULL if low == _NULL else None)


def _texts(data: Any, kind: Any, value_at: Any, width: Any) -> pa.Array:
    if ((kind != _NULL) & (kind < _BLOB)).any():
        raise UnusualError
    lengths = np.broadcast_to(width, kind.shape)
    ends = np.cumsum(lengths)
    if ends[-1] > len(data):  # texts that lie over one another
        raise UnusualError
    taken = data[np.repeat(value_at - (ends - lengths), lengths) + np.arange(ends[-1])]
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    present = pa.array(kind != _NULL).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(kind), [present, pa.py_buffer(offsets), pa.py_buffer(taken)])
