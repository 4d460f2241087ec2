"""Rows that wait as Arrow columns, each in the narrowest type that holds it: there is one for every GPU operation."""

from typing import Any

import numpy as np
import pyarrow as pa

from ..store import arrow_functions as arrow

_WIDTHS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


class WaitingRows:
    """Columns that grow by a piece with every batch."""

    def __init__(self, types: dict[str, str]):
        """The columns' SQL types by name: of integers, texts and truth values."""
        self.types = types
        self._pieces: dict[str, list[pa.Array]] = {name: [] for name in types}

    def add(self, batch: pa.Table) -> None:
        """Append a batch that has all the columns in these types."""
        for name, pieces in self._pieces.items():
            pieces.append(_narrow(batch[name]))

    def table(self) -> pa.Table:
        """All rows so far, each column in one piece."""
        for name, pieces in self._pieces.items():  # one after another: only one is in memory twice
            self._pieces[name] = [_joined(pieces)]
        return pa.table({name: piece for name, (piece,) in self._pieces.items()})


def integers(column: pa.ChunkedArray, missing: int) -> Any:
    """A column of such a table as numpy's int64, NULL as a number; not to be written to.

    Nothing is copied when it is that already, and one number for all rows is in memory once.
    """
    (piece,) = column.chunks
    if piece.null_count == len(piece):
        return np.broadcast_to(np.int64(missing), len(piece))
    least, most = arrow.extent(piece)
    if not piece.null_count and least == most:
        return np.broadcast_to(np.int64(least), len(piece))
    wide = arrow.cast(piece, pa.int64())
    return (arrow.filled(wide, missing) if wide.null_count else wide).to_numpy()


def is_null(column: pa.ChunkedArray) -> Any:
    """Where a column of such a table is NULL, as a numpy array."""
    (piece,) = column.chunks
    return arrow.is_null(piece).to_numpy(zero_copy_only=False)


def numbered_texts(column: pa.ChunkedArray) -> tuple[Any, list[str]]:
    """A column of texts without NULL as the number of each row's text, and the texts."""
    (piece,) = column.chunks
    if not len(piece):
        return np.empty(0, dtype=np.int64), []
    return piece.indices.to_numpy(), piece.dictionary.to_pylist()


def _narrow(column: pa.ChunkedArray) -> pa.Array:
    if column.null_count == len(column):
        return pa.nulls(len(column))
    if column.type == pa.string():
        column = arrow.encoded(column)
    if pa.types.is_dictionary(column.type):
        return column.unify_dictionaries().combine_chunks()
    if column.type == pa.bool_():
        return column.combine_chunks()
    least, most = arrow.extent(column)
    fitting = (t for t in _WIDTHS if _bound(t) > max(most, -1 - least))
    return arrow.cast(column.combine_chunks(), next(fitting))


def _bound(width: pa.DataType) -> int:
    """The lowest positive number that does not fit."""
    bound: int = 1 << width.bit_width - 1
    return bound


def _joined(pieces: list[pa.Array]) -> pa.Array:
    """Pieces end to end, in the narrowest type that holds all."""
    if len(pieces) == 1:
        return pieces[0]
    types = {piece.type for piece in pieces} - {pa.null()}
    if not types:
        return pa.nulls(sum(map(len, pieces)))
    type_ = types.pop() if len(types) == 1 else max(types, key=_WIDTHS.index)
    return pa.chunked_array([arrow.cast(piece, type_) for piece in pieces], type_).unify_dictionaries().combine_chunks()
