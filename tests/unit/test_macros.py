"""SQL functions against Python's statistics."""

import statistics

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.store import blank

NUMBERS = st.one_of(st.integers(0, 1000), st.integers(0, 10**12), st.integers(0, 10**15 - 1))


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    folder = tmp_path_factory.mktemp("macros")
    return blank.create(folder / "blank.duckdb", folder, {})


@given(values=st.lists(NUMBERS, min_size=1, max_size=6))
def test_the_standard_deviation_is_exact(values: list[int], connection: duckdb.DuckDBPyConnection) -> None:
    (found,) = connection.execute("select sample_stddev(x) from unnest(?::bigint[]) as t(x)", [values]).fetchone()
    expected = statistics.stdev(values) if len(values) > 1 else 0.0
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_of_nothing_there_is_no_deviation(connection: duckdb.DuckDBPyConnection) -> None:
    assert connection.execute("select sample_stddev(x) from unnest([]::bigint[]) as t(x)").fetchone() == (None,)


@given(
    first=st.integers(-(10**6), 10**6),
    span=st.one_of(st.integers(0, 50), st.integers(0, 10**16)),
    cnt=st.integers(1, 7),
    ahead=st.one_of(st.integers(-5, 60), st.integers(0, 10**16)),
)
def test_a_time_lies_in_the_last_bin_that_has_begun(
    first: int, span: int, cnt: int, ahead: int, connection: duckdb.DuckDBPyConnection
) -> None:
    time = first + min(ahead, span)
    ((found,),) = connection.execute(
        "select bin_of(?::bigint, ?::bigint, ?::bigint, ?::bigint)", [time, first, span, cnt]
    ).fetchall()
    if span == 0 and time >= first:
        assert found is None
        return
    begins = [first + span * number // cnt for number in range(cnt + 1)]  # the last one is the end of all
    assert min(found, cnt) == max((number for number, begin in enumerate(begins) if begin <= time), default=-1)


@pytest.mark.parametrize(
    ("lengths", "said"),
    [([5_000], "5.0 us"), ([5_000, 4_000, 6_000], "5.0 us on average"),
     ([56_000_000, 60_000, 64_000], "56.0 ms once, else 62.0 us on average"),
     ([9_000, 1_000], "9.0 us once, else 1.0 us"),
     ([60_000_000, 50_000_000, *[2_000] * 20], "55.0 ms on average in 2 of them, else 2.0 us"),
     ([60_000, 50_000, 2_000], "55.0 us on average in 2 of them, else 2.0 us"),
     ([60_000, 50_000, 40_000, 30_000, 2_000], "36.4 us on average")],
)  # fmt: skip
def test_a_mean_is_not_said_of_times_of_which_few_are_most(
    lengths: list[int], said: str, connection: duckdb.DuckDBPyConnection
) -> None:
    long = [length for length in lengths if 8 * length >= max(lengths)]
    known = [len(lengths), statistics.mean(lengths), max(lengths), len(long), sum(long)]
    assert connection.execute("select said_lengths(?, ?::double, ?, ?, ?)", known).fetchone() == (said,)


@pytest.mark.parametrize("times", [3, 500, 5_000])
def test_equal_times_are_merged_into_one(times: int, connection: duckdb.DuckDBPyConnection) -> None:
    """Where sorting twice puts equal rows in another order, one of them was left to the stretch before it."""
    connection.execute(
        "create or replace temp view held as select i % 8 as source_id, 0 as process, 10 * i as start_ns, "
        f"10 * i + 4 as end_ns, 'x' as place from range({times}) as t(i), range(2) order by hash(i)"
    )
    found = connection.execute("select count(*), sum(end_ns - start_ns) from merged('held')").fetchone()
    assert found == (times, 4 * times)
