"""Exact interval arithmetic over numpy arrays: enclosing trees, innermost look-ups, lengths of unions.

Invariant: nothing here knows ranges or kernels. Ranges of different threads are kept apart by adding a multiple of a
stride to their times ("tracks"), so that one sorted array serves all threads at once and no thread needs a loop.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
NONE = -1  # "no such index" in every index array of this package


def take(column: npt.NDArray[Any], index: Ints, missing: int = NONE) -> Ints:
    """column[index], with `missing` where the index is NONE."""
    if len(index) > len(column) // 2:  # then copying the column is cheaper than asking each index what it is
        extended = np.empty(len(column) + 1, dtype=np.int64)
        extended[:-1] = column
        extended[-1] = missing  # where the index NONE points to
        return extended.take(index, mode="wrap")
    result = np.full(len(index), missing, dtype=np.int64)
    known = index >= 0
    result[known] = column[index[known]]
    return result


def place_of(known: Ints, asked: Ints) -> Ints:
    """Where each value is among known ones in order, NONE where it is not. Keys without a hole need no search."""
    if not len(known):
        return np.full(len(asked), NONE, dtype=np.int64)
    at = asked - known[0] if known[-1] - known[0] + 1 == len(known) else np.searchsorted(known, asked)
    at = np.clip(at, 0, len(known) - 1)
    return np.where(known[at] == asked, at, NONE)


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values in order, and the position of each value among them.

    Values that lie close together are looked up in a table; np.unique would sort them.
    """
    if not values.size:
        return values, values
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span == 1:  # as of one device, process or input
        return np.array([low]), np.zeros(len(values), dtype=np.int64)
    if span > 8 * len(values) + 1024:
        found, position = np.unique(values, return_inverse=True)
        return found, position
    present = np.zeros(span, dtype=bool)
    present[values - low] = True
    number = np.cumsum(present) - 1
    return np.flatnonzero(present) + low, number[values - low]


def numbered(*columns: Ints) -> Ints:
    """For each row the number of its values in these columns together, the same for the same values, from 0 on."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, place = distinct(column.astype(np.int64, copy=False))
        if len(values) > 1:
            number = distinct(number * len(values) + place)[1]
    return number


def grouped(values: Ints) -> Ints:
    """The order that puts equal values together, smaller ones first, each in the order in which they are.

    Few distinct values are sorted as 16 bits, which numpy does by counting.
    """
    known, number = distinct(values)
    if len(known) == 1:
        return np.arange(len(values))
    return np.argsort(number.astype(np.uint16) if len(known) < 1 << 16 else number, kind="stable")


def is_first(values: Ints) -> Bools:
    """True where a sorted array has a value for the first time."""
    first = np.ones(len(values), dtype=bool)
    first[1:] = values[1:] != values[:-1]
    return first


def previous_enclosing(end: Ints) -> Ints:
    """For intervals sorted by (start, -end): the nearest earlier one that ends no sooner, NONE without.

    This is the "previous greater element" of the ends, found by pointer jumping: an element between i and its
    candidate always ends sooner than i, so a candidate that ends too soon can hand over its own candidate.
    Rounds: depth of the tree plus log2(n).
    """
    candidate = np.arange(-1, len(end) - 1, dtype=np.int64)
    active = np.flatnonzero((candidate >= 0) & (end[candidate] < end))
    while active.size:
        candidate[active] = candidate[candidate[active]]
        now = candidate[active]
        active = active[(now >= 0) & (end[now] < end[active])]
    return candidate


def depth_of(parent: Ints) -> npt.NDArray[np.int32]:
    """Number of ancestors of each node of a forest given as parent indices (NONE at the roots), parents first.

    Pointer jumping, block by block: what lies before a block has its depth already.
    """
    depth = (parent >= 0).astype(np.int32)
    for rows in slices(len(parent)):
        ancestor = parent[rows].copy()
        active = np.flatnonzero(ancestor >= 0)
        while active.size:
            above = ancestor[active]
            depth[rows.start + active] += depth[above]
            jump = take(ancestor, np.where(above < rows.start, NONE, above - rows.start))
            ancestor[active] = jump
            active = active[jump >= 0]
    return depth


@dataclass(frozen=True)
class Tree:
    """A forest whose nodes are numbered as a walk meets them: those below a node follow it."""

    parent: Ints
    after: Ints  # the first node behind all that are below this one
    levels: list[Ints]  # the nodes of each depth, deepest first, without the roots

    @classmethod
    def of(cls, parent: Ints, depth: npt.NDArray[np.int32]) -> "Tree":
        """The tree of parent indices (NONE at the roots) and depths that are known."""
        order = np.argsort(depth, kind="stable")
        cuts = np.searchsorted(depth[order], np.arange(1, int(depth.max(initial=0)) + 1))
        tree = cls(parent, np.arange(1, len(parent) + 1), np.split(order, cuts)[:0:-1])
        tree.hand_up(np.maximum, tree.after)
        return tree

    def hand_up(self, join: np.ufunc, values: Ints) -> None:
        """Join the values of all nodes below into each node's own, in place."""
        for nodes in self.levels:
            join.at(values, self.parent[nodes], values[nodes])

    def common_ancestor(self, left: Ints, right: Ints) -> Ints:
        """The deepest node that has both below it or is one of them, NONE in two trees; left <= right."""
        found = left.copy()
        active = np.flatnonzero(self.after[found] <= right)
        while active.size:
            found[active] = self.parent[found[active]]
            active = active[found[active] >= 0]
            active = active[self.after[found[active]] <= right[active]]
        return found


@dataclass(frozen=True)
class Tracks:
    """Maps (track, time) to one integer axis on which tracks do not touch, keeping the order of times on each.

        track 0   |--------|        track 1   |--------|        track 2
                  low    high                 low    high
        axis      0 …    stride               …  2 * stride

    Where so many tracks so long do not fit 62 bits (an event years away from the others does that), times are replaced
    by their ranks: so lengths on the axis mean nothing.
    """

    origin: int
    stride: int
    times: Ints | None = None  # all times in order, where ranks stand for them

    @classmethod
    def over(cls, track_cnt: int, *times: Ints) -> "Tracks":
        """Tracks wide enough for all given times."""
        filled = [t for t in times if t.size]
        low = min((int(t.min()) for t in filled), default=0)
        high = max((int(t.max()) for t in filled), default=0)
        stride = high - low + 3
        if stride * (track_cnt + 1) < 1 << 62:
            return cls(low - 1, stride)
        ranked = np.unique(np.concatenate(filled))
        return cls(-2, 2 * len(ranked) + 3, ranked)

    def place(self, track: Ints, time: Ints) -> Ints:
        """Positions on the common axis."""
        if self.times is not None:  # even for these times, odd between them
            rank = np.searchsorted(self.times, time)
            is_known = self.times[np.minimum(rank, len(self.times) - 1)] == time
            time = 2 * rank - np.where(is_known, 0, 1)
        return time - self.origin + track * self.stride


@dataclass(frozen=True)
class Forest:
    """Intervals sorted by (start, -end, id) on the common axis, with the tree of who encloses whom.

    The parent of an interval is the enclosing one that begins last (of equal ones, the shorter; of those, the later
    id). Intervals that overlap partially make no tree: see `enclosing`.
    """

    start: Ints
    end: Ints
    parent: Ints
    depth: npt.NDArray[np.int32]

    @classmethod
    def plant(cls, start: Ints, end: Ints) -> "Forest":
        """Build the tree over intervals that are already in (start, -end, id) order."""
        parent = previous_enclosing(end)
        return cls(start, end, parent, depth_of(parent))

    @cached_property
    def ends(self) -> Ints:
        """The ends of all intervals in order."""
        return np.sort(self.end)

    def innermost(self, start: Ints, end: Ints) -> Ints:
        """Index of the enclosing interval that begins last, for each query interval; closed ends; NONE without."""
        return self._climb(self._begun(start) - 1, end)

    def locate(self, start: Ints, end: Ints) -> tuple[Ints, Bools]:
        """The same, and where the ancestors of that interval may not be all that enclose the query.

        Counts the enclosing intervals without finding them: those begun by `start` less those ended before `end`.
        An interval inside the query would be counted wrongly, so such a query is irregular too.
        """
        begun = self._begun(start)
        innermost = self._climb(begun - 1, end)
        next_start = take(self.start, np.where(begun < len(self.start), begun, NONE), missing=np.iinfo(np.int64).max)
        inside = next_start < end
        enclosing = begun - np.searchsorted(self.ends, end, side="left")
        in_tree = np.zeros(len(start), dtype=np.int64)
        known = innermost >= 0
        in_tree[known] = self.depth[innermost[known]] + 1
        irregular: Bools = inside | (enclosing != in_tree)
        return innermost, irregular

    def _begun(self, start: Ints) -> Ints:
        """How many intervals have begun when each query begins."""
        begun: Ints = np.searchsorted(self.start, start, side="right")
        return begun

    def _climb(self, index: Ints, end: Ints) -> Ints:
        """The nearest interval at or before each index that ends no sooner than `end`; changes `index`."""
        active = np.flatnonzero(index >= 0)
        active = active[self.end[index[active]] < end[active]]
        while active.size:
            index[active] = self.parent[index[active]]
            active = active[index[active] >= 0]
            active = active[self.end[index[active]] < end[active]]
        return index

    def enclosing(self, start: Ints, end: Ints, limit: int | None = None) -> tuple[Ints, Ints, Bools]:
        """All (query, interval) pairs in which the interval encloses the query, innermost first.

        Walks from each interval to the one begun just before it, so its cost grows with the number of pairs: it is
        meant for the irregular queries, the others have their pairs in the tree. When there are more pairs than `limit`
        (a thousand intervals that all overlap each other make a million), the queries that are not done by then have
        none; the last array says which queries those are.
        """
        query = np.arange(len(start), dtype=np.int64)
        at = self.innermost(start, end)
        queries, intervals, found = [query[:0]], [query[:0]], 0
        while True:
            query, at = query[at >= 0], at[at >= 0]
            found += len(query)
            if not query.size or (limit is not None and found > limit):
                break
            queries.append(query)
            intervals.append(at)
            at = self._climb(at - 1, end[query])
        is_given_up = np.zeros(len(start), dtype=bool)
        is_given_up[query] = True
        query, interval = np.concatenate(queries), np.concatenate(intervals)
        kept = ~is_given_up[query]
        return query[kept], interval[kept], is_given_up


def covered_by_children(forest: Forest, start: Ints, end: Ints) -> Ints:
    """How much of each interval those directly below it cover, who may overlap; `start` and `end` are its own times."""
    covered = np.zeros(len(forest.start), dtype=np.int64)
    children = np.flatnonzero(forest.parent >= 0)
    children = children[np.argsort(forest.parent[children], kind="stable")]
    parents, length = union_length(forest.parent[children], start[children], end[children])
    covered[parents] = length
    return covered


BLOCK = 1 << 17  # rows whose arrays stay in the processor's cache


def slices(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Slices of so many rows that cover all."""
    return (slice(begin, min(begin + size, count)) for begin in range(0, count, size))


def blocks(group: Ints, size: int = BLOCK) -> Iterator[slice]:
    """Slices of about so many rows that do not part a group; rows sorted by group."""
    if not group.size:
        return
    heads = np.flatnonzero(is_first(group))
    cuts = heads[np.searchsorted(heads, np.arange(0, len(group), size), side="right") - 1]
    cuts = np.append(cuts[is_first(cuts)], len(group))
    for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        yield slice(begin, end)


def union_length(group: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Length of the union of intervals within each group, for rows sorted by (group, start).

    Returns the distinct groups in order and the length for each.
    """
    if not group.size:
        return group, group
    low = int(start.min())
    stride = int(end.max()) - low + 1
    parts = [
        _union_of_block(group[rows], start[rows] - low, end[rows] - low, stride)
        for rows in blocks(group, max(1, min(BLOCK, (1 << 62) // stride)))
    ]
    return group[is_first(group)], np.concatenate(parts)


def overlapping(group: Ints, start: Ints, end: Ints) -> Bools:
    """Which intervals share time with another one of their group, for rows sorted by start."""
    shares = np.zeros(len(group), dtype=bool)
    order = np.argsort(group, kind="stable")
    low = int(start.min(initial=0))
    stride = int(end.max(initial=0)) - low + 1
    for rows in blocks(group[order], max(1, min(BLOCK, (1 << 62) // stride))):
        mine = order[rows]
        begin, finish = _apart(is_first(group[mine]), start[mine] - low, end[mine] - low, stride)
        shares[mine[1:]] |= begin[1:] < np.maximum.accumulate(finish)[:-1]
        shares[mine[:-1]] |= begin[1:] < finish[:-1]
    return shares


def _apart(first: Bools, start: Ints, end: Ints, stride: int) -> tuple[Ints, Ints]:
    """Each group shifted behind the one before, so that one running maximum serves all."""
    shift = (np.cumsum(first) - 1) * stride
    return start + shift, end + shift


def _union_of_block(group: Ints, start: Ints, end: Ints, stride: int) -> Ints:
    """The lengths of one block."""
    first = is_first(group)
    start, end = _apart(first, start, end, stride)
    start[1:] = np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
    lengths: Ints = np.add.reduceat(np.maximum(end - start, 0), np.flatnonzero(first))
    return lengths
