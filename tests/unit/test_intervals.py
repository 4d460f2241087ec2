"""Interval arithmetic against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.attribute import intervals
from lorabench.analyze.attribute.intervals import (
    NONE,
    Forest,
    Tracks,
    Tree,
    covered_by_children,
    distinct,
    overlapping,
    union_length,
)

PAIRS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 8)), max_size=12)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    found = sorted((start, -(start + length)) for start, length in pairs)
    return np.array([s for s, _ in found], dtype=np.int64), np.array([-e for _, e in found], dtype=np.int64)


@given(PAIRS)
def test_the_parent_is_the_nearest_earlier_interval_that_ends_no_sooner(pairs: list[tuple[int, int]]) -> None:
    start, end = arrays(pairs)
    forest = Forest.plant(start, end)
    for i in range(len(start)):
        parent = max((j for j in range(i) if end[j] >= end[i]), default=NONE)
        assert forest.parent[i] == parent
        assert forest.depth[i] == (0 if parent == NONE else forest.depth[parent] + 1)


@given(PAIRS, PAIRS)
def test_queries_find_what_encloses_them(pairs: list[tuple[int, int]], queries: list[tuple[int, int]]) -> None:
    forest = Forest.plant(*arrays(pairs))
    start, end = arrays(queries)
    innermost, irregular = forest.locate(start, end)
    assert innermost.tolist() == forest.innermost(start, end).tolist()
    query, interval, is_given_up = forest.enclosing(start, end)
    assert not is_given_up.any()
    for i in range(len(start)):
        around = [j for j in range(len(forest.start)) if forest.start[j] <= start[i] and forest.end[j] >= end[i]]
        assert innermost[i] == max(around, default=NONE)
        assert sorted(interval[query == i]) == around
        above, at = [], innermost[i]
        while at != NONE:
            above.append(at)
            at = forest.parent[at]
        assert irregular[i] or sorted(above) == around


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 6)), max_size=20))
def test_unions_are_counted_point_by_point(rows: list[tuple[int, int, int]]) -> None:
    rows = sorted(rows)
    group, start, length = (np.array([r[k] for r in rows], dtype=np.int64) for k in range(3))
    groups, lengths = union_length(group, start, start + length)
    assert dict(zip(groups.tolist(), lengths.tolist(), strict=True)) == {
        g: len({t for h, s, n in rows if h == g for t in range(s, s + n)}) for g, _, _ in rows
    }


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 6)), max_size=12))
def test_an_interval_that_shares_a_moment_with_another_one_of_its_group_is_marked(
    rows: list[tuple[int, int, int]],
) -> None:
    rows = sorted(rows, key=lambda row: row[1])
    group, start, length = (np.array([r[k] for r in rows], dtype=np.int64) for k in range(3))
    marked = overlapping(group, start, start + length)
    for i, (g, s, n) in enumerate(rows):
        others = {t for j, (h, u, m) in enumerate(rows) if j != i and h == g for t in range(u, u + m)}
        assert marked[i] or not others & set(range(s, s + n))


@given(PAIRS, st.lists(st.integers(-5, 5), min_size=12, max_size=12))
def test_what_is_handed_up_a_tree_reaches_every_ancestor_once(pairs: list[tuple[int, int]], own: list[int]) -> None:
    forest = Forest.plant(*arrays(pairs))
    tree = Tree.of(forest.parent, forest.depth)
    count = len(forest.start)
    ancestors = []  # of each node, itself included
    for node in range(count):
        ancestors.append({node} | (ancestors[forest.parent[node]] if forest.parent[node] != NONE else set()))
    sums, highest = np.array(own[:count], dtype=np.int64), np.array(own[:count], dtype=np.int64)
    tree.hand_up(np.add, sums)
    tree.hand_up(np.maximum, highest)
    for node in range(count):
        below = [i for i in range(count) if node in ancestors[i]]
        assert (sums[node], highest[node]) == (sum(own[i] for i in below), max(own[i] for i in below))
        assert tree.after[node] == max(below) + 1
        assert below == list(range(node, node + len(below)))
    left, right = (np.array(c, dtype=np.int64) for c in np.triu_indices(count))
    for a, b, found in zip(left, right, tree.common_ancestor(left, right), strict=True):
        assert found == max(ancestors[a] & ancestors[b], default=NONE)


@given(PAIRS)
def test_children_cover_their_parent_point_by_point(pairs: list[tuple[int, int]]) -> None:
    forest = Forest.plant(*arrays(pairs))
    covered = covered_by_children(forest, forest.start, forest.end)
    for i in range(len(forest.start)):
        points = {
            t for j in range(len(forest.start)) if forest.parent[j] == i for t in range(forest.start[j], forest.end[j])
        }
        assert covered[i] == len(points)


@given(st.lists(st.integers(-50, 50)), st.sampled_from([1, 10**12]))
def test_distinct_is_what_numpy_says(values: list[int], scale: int) -> None:
    array = np.array(values, dtype=np.int64) * scale
    found, position = distinct(array)
    assert found.tolist() == sorted(set(array.tolist()))
    assert (found[position] == array).all()


def test_unions_over_long_times_are_taken_in_slabs() -> None:
    day = 86_400 * 10**9
    group = np.arange(20_000, dtype=np.int64)
    start = np.zeros(20_000, dtype=np.int64)
    _, lengths = union_length(group, start, start + 100 * day)
    assert (lengths == 100 * day).all()


FAR = st.integers(-(1 << 61), 1 << 61)


@given(st.lists(FAR, min_size=1, max_size=8), st.lists(FAR, max_size=4), st.integers(1, 1000))
def test_times_on_tracks_keep_their_order_and_tracks_apart(known: list[int], others: list[int], count: int) -> None:
    """Also where years on a thousand threads do not fit the axis, and for times that were not given before."""
    tracks = Tracks.over(count, np.array(known, dtype=np.int64))
    low, high = min(known), max(known)
    times = np.array([*known, *(t for t in others if low <= t <= high + 1)], dtype=np.int64)
    first, last = (tracks.place(np.full(len(times), track), times) for track in (0, count - 1))
    is_known = np.isin(times, known)
    for i in range(len(times)):
        for j in range(len(times)):
            if is_known[i] or is_known[j]:
                assert np.sign(first[i] - first[j]) == np.sign(times[i] - times[j])
            assert count == 1 or first[i] < last[j]


def test_take_gives_missing_for_none() -> None:
    assert intervals.take(np.array([5, 6]), np.array([1, NONE]), missing=9).tolist() == [6, 9]


@pytest.mark.parametrize("block", [1, 2, 3, intervals.BLOCK])
@given(parents=st.lists(st.integers(-1, 1 << 30), max_size=40))
def test_depth_counts_ancestors_whatever_the_block(parents: list[int], block: int) -> None:
    parent = np.array([-1 if p < 0 or not i else p % i for i, p in enumerate(parents)], dtype=np.int64)
    expected: list[int] = []
    for p in parent.tolist():
        expected.append(expected[p] + 1 if p >= 0 else 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals.slices, "__defaults__", (block,))
        assert intervals.depth_of(parent).tolist() == expected
