"""SQL functions against Python's statistics."""

import statistics

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench import sql

NUMBERS = st.one_of(st.integers(0, 1000), st.integers(0, 10**12), st.integers(0, 10**15 - 1))


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    for macro in sql.in_folder(sql.MACROS):
        made.execute(macro.statement)
    return made


@given(values=st.lists(NUMBERS, min_size=1, max_size=6))
def test_the_standard_deviation_is_exact(values: list[int], connection: duckdb.DuckDBPyConnection) -> None:
    (found,) = connection.execute("select sample_stddev(x) from unnest(?::bigint[]) as t(x)", [values]).fetchone()
    expected = statistics.stdev(values) if len(values) > 1 else 0.0
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_of_nothing_there_is_no_deviation(connection: duckdb.DuckDBPyConnection) -> None:
    assert connection.execute("select sample_stddev(x) from unnest([]::bigint[]) as t(x)").fetchone() == (None,)
