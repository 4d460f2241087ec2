"""The few functions of Arrow that reading takes, called by their names.

pyarrow.compute makes 286 of them with their documentation when it is loaded, a twentieth of the time that a small file
takes; so do the methods of arrays that call it (cast, take, is_null …). Equal to them, function by function.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

try:
    from pyarrow._compute import CastOptions, MatchSubstringOptions, SetLookupOptions, call_function
except ImportError:  # where these lie is pyarrow's own business
    from pyarrow.compute import CastOptions, MatchSubstringOptions, SetLookupOptions, call_function

Column = Any  # pyarrow's Array or ChunkedArray, which has no types


def cast(column: Column, to: pa.DataType) -> Any:
    """In another type; raises pa.ArrowInvalid for what does not fit into it."""
    return call_function("cast", [column], CastOptions.safe(to))


def extent(column: Column) -> tuple[int, int]:
    """The least and the largest number that is not NULL, of which there is one."""
    found = call_function("min_max", [column]).as_py()
    return found["min"], found["max"]


def filled(column: Column, value: int | bool) -> Any:
    """With a value in the place of NULL."""
    return call_function("coalesce", [column, pa.scalar(value, column.type)])


def shifted(column: Column, by: int) -> Any:
    """64-bit numbers with one added, NULL where there is none."""
    return call_function("add", [column, pa.scalar(by, pa.int64())])


def is_null(column: Column) -> Any:
    """Where a column is NULL."""
    return call_function("is_null", [column])


def is_equal(column: Column, value: str) -> Any:
    """Where a column is this text."""
    return call_function("equal", [column, pa.scalar(value)])


def either(where: Column, first: str, second: Column) -> Any:
    """One text where that is true, else that of a column."""
    return call_function("if_else", [where, pa.scalar(first), second])


def is_in(column: Column, values: Sequence[Any], of_type: pa.DataType) -> Any:
    """Where a column is one of these."""
    return call_function("is_in", [column], SetLookupOptions(pa.array(values, of_type)))


def encoded(column: Column) -> Any:
    """Numbers in a dictionary of the different values."""
    return call_function("dictionary_encode", [column])


def matches(column: Column, pattern: str) -> Any:
    """Where a regular expression is found in a text, in capitals or not."""
    return call_function("match_substring_regex", [column], MatchSubstringOptions(pattern, ignore_case=True))


def take(rows: "Column | pa.Table", places: Any) -> Any:
    """The values of a column, or the rows of a table, at these places, an array of numbers."""
    return call_function("array_take" if isinstance(rows, pa.Array) else "take", [rows, pa.array(places, pa.int64())])


def chosen(column: Column, where: Any) -> Any:
    """The values where an array of truth values is true."""
    return call_function("filter", [column, where])


def without(rows: pa.Table, where: Any) -> Any:
    """The rows of a table where a condition does not hold."""
    return call_function("filter", [rows, call_function("invert", [where])])
