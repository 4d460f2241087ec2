"""Rows that wait as Arrow columns, each in the narrowest type that holds it: there is one for every GPU operation."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_WIDTHS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_TEXT = pa.dictionary(pa.int32(), pa.string())


class WaitingRows:
    """Columns that grow by a piece with every batch."""

    def __init__(self, names: list[str]):
        self._pieces: dict[str, list[pa.Array]] = {name: [] for name in names}

    def add(self, batch: pa.Table) -> None:
        """Append a batch that has all the columns, of integers and texts."""
        for name, pieces in self._pieces.items():
            pieces.append(_narrow(batch[name]))

    def table(self) -> pa.Table:
        """All rows so far, each column in one piece."""
        for name, pieces in self._pieces.items():  # one after another: only one is in memory twice
            self._pieces[name] = [_joined(pieces)]
        return pa.table({name: piece for name, (piece,) in self._pieces.items()})


def integers(column: pa.ChunkedArray, missing: int) -> Any:
    """A column of such a table as numpy's int64, NULL as a number; nothing is copied when it is that already."""
    (piece,) = column.chunks
    if piece.null_count == len(piece):
        return np.full(len(piece), missing, dtype=np.int64)
    wide = piece.cast(pa.int64())
    return (pc.fill_null(wide, missing) if wide.null_count else wide).to_numpy()


def _narrow(column: pa.ChunkedArray) -> pa.Array:
    if column.null_count == len(column):
        return pa.nulls(len(column))
    if column.type == pa.string():
        return column.dictionary_encode().unify_dictionaries().combine_chunks()
    extent = pc.min_max(column).as_py()
    fitting = (t for t in _WIDTHS if _bound(t) > max(extent["max"], -1 - extent["min"]))
    return column.combine_chunks().cast(next(fitting))


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
    type_ = _TEXT if _TEXT in types else max(types, key=_WIDTHS.index)
    return pa.chunked_array([piece.cast(type_) for piece in pieces], type_).unify_dictionaries().combine_chunks()
