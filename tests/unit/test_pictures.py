"""The pictures in the docstrings of analyze/attribute: their arrays come out as they are drawn."""

from typing import Any

import numpy as np
import pytest
from lorabench.analyze.attribute import attribution, clocks, critical_path, replay_graph, replay_threads
from lorabench.analyze.attribute.intervals import NONE, grouped
from lorabench.analyze.attribute.launches import Work
from lorabench.analyze.attribute.ranges import Ranges

RETURN_NS = replay_graph.RETURN_NS


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def flags(text: str) -> Any:
    return np.array([letter == "x" for letter in text])


def points(begin: Any, length: Any, waits: str, thread: Any = None) -> replay_threads.Points:
    same, of_wait = np.zeros(len(begin), dtype=np.int64), flags(waits)
    return replay_threads.Points(
        same, same if thread is None else thread, begin, begin + length, ~of_wait, of_wait, begin, same + NONE,
        begin + length, same,
    )  # fmt: skip


def operations(start: Any, end: Any, stream: Any, point: Any) -> replay_graph.Operations:
    same, no = np.zeros(len(start), dtype=np.int64), np.zeros(len(start), dtype=bool)
    return replay_graph.Operations(start, end, same, same, stream, point, ~no, no, no)


def test_strands() -> None:
    made = points(ints(0, 20, 50, 200) * 1000, ints(10, 20, 140, 10) * 1000, "....", ints(0, 1, 1, 0))
    strands = replay_threads.strands_of(made)
    assert strands.follows.tolist() == [NONE, 0, 1, 2]
    assert strands.number.tolist() == [0, 1, 1, 2]


def test_targets() -> None:
    made = points(ints(0, 10, 20, 100, 9_000), ints(5, 5, 5, 7_000, 10), "...x.")
    work = operations(ints(50, 60, 200, 9_050), ints(200, 7_095, 400, 9_100), ints(0, 1, 0, 0), ints(0, 2, 1, 4))
    waiting = replay_threads.strands_of(made).waiting
    targets, after, is_effective = replay_graph._targets(made, work, waiting, grouped(work.stream))
    assert targets == [[2, 1]], "b and x"
    assert after == [[RETURN_NS, 5]] and is_effective.all()


def test_groups() -> None:
    made = points(np.arange(8) * 10, 5, "x..x....")
    work = operations(
        np.arange(6) * 100 + 100, np.arange(6) * 100 + 150, ints(0, 0, 0, 0, 0, 1), ints(1, 2, 4, 5, 6, 7)
    )
    needs, none = ints(*[NONE] * 5, 3), ints(*[0] * 6)
    strands = replay_threads.strands_of(made)
    found = replay_graph._groups(made, work, strands, grouped(work.stream), needs, none, [[], []], [[], []])
    assert found.first.tolist() == [0, 2, 4, 5]
    assert found.behind == [0, 1, 1, 1] and found.needs == [NONE, NONE, NONE, 1]


def test_the_critical_path() -> None:
    same, yes = ints(0, 0, 0), flags("xxx")
    work = Work(
        ints(15, 80, 165), ints(80, 120, 200), same, same, same, yes, ints(0, 10, 150), ints(10, 20, 160), same,
        yes,
    )  # fmt: skip
    assert critical_path._waited_for(work).tolist() == [NONE, 0, NONE]
    found = critical_path.critical_path(work, ints(30), ints(130), 0, 200, 0)
    kinds = [critical_path.KINDS[kind] for kind in found.kind]
    assert kinds == ["cpu", "launch", "gpu", "gpu", "cpu", "launch", "gpu"]
    assert found.end.tolist() == [10, 15, 80, 120, 160, 165, 200]


@pytest.mark.parametrize(("at", "operator"), [(115, 1), (135, NONE)])
def test_the_forward_operator_of_a_launch(at: int, operator: int) -> None:
    """Ranges: layer, its operator, the node, the operator in the node."""
    start, end, sequence = ints(0, 10, 100, 130), ints(50, 40, 160, 150), ints(NONE, 7, 7, 9)
    ranges = Ranges(
        ints(0, 0, 1, 1), ints(0, 0, 0, 0), start, end, ints(0, 1, 2, 3), sequence, flags("..x."), flags("x..."),
        flags("...."), flags(".xxx"), flags("xx.."), 2,
    )  # fmt: skip
    found = attribution.attribute(ranges, attribution.Launches(ints(0), ints(1), ints(at), ints(at + 1)))
    _, sequence_chain, _ = found.reach.chains
    assert sequence_chain.tolist() == [operator]


def test_clocks() -> None:
    met = clocks.Meetings.of(ints(0, 0), ints(0, 1), ints(0, 5), ints(10, 15))
    (piece,) = clocks.pieces(met)
    assert (piece.ahead[0, 1], piece.ahead[1, 0]) == (15, 5)
    offset, error = piece.offset(0)
    assert (offset[1], error[1]) == (5, 10)
