"""Which call launched what, where ids repeat and times tie."""

import numpy as np
from lorabench.analyze.launches import Calls, Operations, link


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
