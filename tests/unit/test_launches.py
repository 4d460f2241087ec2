"""Which call launched what, where ids repeat and times tie."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.attribute.launches import Calls, Operations, link

_NOTHING = np.empty(0, dtype=np.int64)
NO_CALLS = Calls(*[_NOTHING] * 6)
NO_OPERATIONS = Operations(*[_NOTHING] * 7)


def calls(*rows: tuple[int, int, int, int, int, int]) -> Calls:
    return Calls(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


def operations(*rows: tuple[int, int, int]) -> Operations:
    process, correlation, start = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    zeros = np.zeros_like(start)
    return Operations(process, correlation, zeros, zeros, start, start + 1, np.ones(len(start), dtype=bool))


def test_a_correlation_id_counts_within_its_process_only() -> None:
    launch, _ = link(calls((1, 1, 7, 0, 2, 0), (2, 2, 7, 0, 2, 0)), operations((2, 7, 5), (1, 7, 5), (3, 7, 5)))
    assert launch.tolist() == [1, 0, -1]


def test_of_several_calls_the_last_that_began_no_later_launched_it() -> None:
    found = calls((1, 1, 7, 0, 2, 0), (1, 1, 7, 10, 12, 0), (1, 1, 7, 20, 22, 0))
    assert link(found, operations((1, 7, 10), (1, 7, 19), (1, 7, 25), (1, 7, 9)))[0].tolist() == [1, 1, 2, 0]


def test_work_before_all_its_calls_keeps_the_first_one() -> None:
    """Clocks of CPU and GPU differ by a little: the launch is known all the same."""
    assert link(calls((1, 1, 7, 5, 8, 0), (1, 1, 7, 9, 12, 0)), operations((1, 7, 4)))[0].tolist() == [0]


def test_a_wrapper_row_is_a_second_copy_and_never_the_launch() -> None:
    found = calls((1, 1, 7, 9, 21, 67), (1, 1, 7, 10, 20, 0), (1, 1, 8, 30, 40, 67))
    launch, is_duplicate = link(found, operations((1, 7, 15), (1, 8, 35)))
    assert launch.tolist() == [1, 2]
    assert is_duplicate.tolist() == [True, False, False]


def test_ids_of_any_size_are_told_apart() -> None:
    huge = 1 << 61
    launch, _ = link(
        calls((1, 1, huge, 0, 1, 0), (2, 2, 3, 0, 1, 0)), operations((1, huge, 2), (2, 3, 2), (2, huge, 2))
    )
    assert launch.tolist() == [0, 1, -1]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(-1, 9), st.integers(0, 50)), max_size=25),
    st.lists(st.tuples(st.integers(1, 3), st.integers(-1, 9), st.integers(0, 60)), max_size=25),
    st.sampled_from([1, 1 << 20, 1 << 40]),
)
def test_launches_are_those_found_one_by_one(
    made: list[tuple[int, int, int]], begun: list[tuple[int, int, int]], apart: int
) -> None:
    """Whether ids lie close together or far apart (`apart` times)."""
    rows = [(process, process, max(-1, id_ * apart), start, start + 1, 0) for process, id_, start in made]
    work = [(process, max(-1, id_ * apart), start) for process, id_, start in begun]
    expected = []
    for process, id_, start in work:
        mine = sorted((row[3], n) for n, row in enumerate(rows) if (row[0], row[2]) == (process, id_) and id_ >= 0)
        before = [n for begin, n in mine if begin <= start]
        expected.append(before[-1] if before else mine[0][1] if mine else -1)
    found, _ = link(calls(*rows) if rows else NO_CALLS, operations(*work) if work else NO_OPERATIONS)
    assert found.tolist() == expected
