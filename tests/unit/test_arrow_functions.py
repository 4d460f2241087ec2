"""The functions of Arrow called by name are those of pyarrow.compute and of arrays."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.store import arrow_functions as arrow

NUMBERS = st.lists(st.one_of(st.none(), st.integers(-(2**40), 2**40)), max_size=8)
TEXTS = st.lists(st.one_of(st.none(), st.sampled_from("abc")), max_size=8)


def both(values: list[Any], of_type: pa.DataType) -> list[Any]:
    """One piece, and two."""
    half = len(values) // 2
    return [pa.array(values, of_type), pa.chunked_array([values[:half], values[half:]], of_type)]


@given(values=NUMBERS)
def test_of_numbers(values: list[int | None]) -> None:
    for column in both(values, pa.int64()):
        assert arrow.is_null(column).equals(column.is_null())
        assert arrow.shifted(column, 7).equals(pc.add(column, 7))
        assert arrow.filled(column, -1).equals(pc.fill_null(column, -1))
        assert arrow.is_in(column, (0, 1), pa.int64()).equals(pc.is_in(column, pa.array([0, 1])))
        assert arrow.chosen(column, pc.is_valid(column)).equals(column.drop_null())
        assert arrow.cast(column, pa.float64()).equals(column.cast(pa.float64()))
        if column.null_count < len(column):
            assert arrow.extent(column) == tuple(pc.min_max(column).as_py().values())
        places = list(range(len(column)))[::-2]
        assert arrow.take(column, places).equals(column.take(pa.array(places, pa.int64())))


@given(values=TEXTS)
def test_of_texts(values: list[str | None]) -> None:
    for column in both(values, pa.string()):
        assert arrow.is_equal(column, "a").equals(pc.equal(column, "a"))
        assert arrow.encoded(column).equals(column.dictionary_encode())
        assert arrow.is_in(arrow.encoded(column), ("a",), pa.string()).equals(pc.is_in(column, pa.array(["a"])))
        assert arrow.matches(column, "^[AB]$").equals(pc.match_substring_regex(column, "^[AB]$", ignore_case=True))
        is_a = arrow.is_equal(column, "a")
        assert arrow.either(is_a, "x", column).equals(pc.if_else(is_a, "x", column))
        assert arrow.filled(is_a, False).equals(pc.fill_null(is_a, False))
        table, places = pa.table({"x": column}), list(range(len(column)))[::-1]
        assert arrow.take(table, places).equals(table.take(pa.array(places, pa.int64())))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        arrow.cast(pa.array([300]), pa.int8())
