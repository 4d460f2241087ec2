"""Which ranges account for which GPU work: the heart of lorabench.

A launching call finds its ranges by three rules, and each (launch, name path) and each (launch, range) counts once,
under the first rule that reaches it:

    direct     the call lies inside the range, on the range's own thread
    sequence   the call lies inside a backward node of autograd: the ranges of the forward operator that has the same
               sequence number
    window     the call comes from another thread than the one that waits for the backward (the process's main
               thread, or else the one with the most annotated time): the ranges open there at that moment, and
               around the outermost annotation that the call's own thread has open

The innermost range of the first rule that applies owns the launch (self time), so that self times and the work
without any range add up to the whole. Everything below is arrays; the walk over a tree goes by depth, outermost last,
because two chains of ranges meet in the same range only at the same depth.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .intervals import (
    NONE,
    Bools,
    Forest,
    Ints,
    Tracks,
    Tree,
    covered_by_children,
    depth_of,
    distinct,
    is_first,
    slices,
    take,
)
from .ranges import Ranges
from .reach import Reach, spread
from .sequence_links import forward_of


@dataclass(frozen=True)
class Launches:
    """The calls that own GPU work: one entry a call."""

    process: Ints
    track: Ints  # of the thread's own ranges, NONE when the thread has none
    start: Ints
    end: Ints


@dataclass(frozen=True)
class Attribution:
    """The ranges of every launch; `owner[i]` is the range that owns launch i (NONE without)."""

    reach: Reach
    covered: Ints  # of every range the time that the ranges directly below it cover
    path: Ints  # of every range
    paths: "Paths"
    owner: Ints
    operator: Ints  # the innermost operator around each launch on its own thread, annotations aside; NONE without
    given_up_cnt: int  # launches in so many partially overlapping ranges that only those up the tree were taken


@dataclass(frozen=True)
class Paths:
    """The distinct name paths: each a name below a parent path."""

    parent: Ints
    name: Ints
    depth: Ints
    example: Ints  # one range that has the path


def attribute(ranges: Ranges, launches: Launches) -> Attribution:
    """Find the ranges of every launch by the three rules."""
    tracks = Tracks.over(int(ranges.track.max(initial=-1)) + 1, ranges.start, ranges.end, launches.start, launches.end)
    forest = Forest.plant(tracks.place(ranges.track, ranges.start), tracks.place(ranges.track, ranges.end))
    covered = covered_by_children(forest, ranges.start, ranges.end)
    direct = _enclosing(forest, tracks, launches.track, launches.start, launches.end)
    sequence = _by_sequence(ranges, forest, direct.innermost)
    window = _by_window(ranges, forest, launches, tracks, direct.innermost)
    path, paths = _paths(ranges, forest)
    found = (direct, sequence, window)
    chains = (direct.innermost, sequence.innermost, window.innermost)
    owner = np.full(len(launches.start), NONE, dtype=np.int64)
    for chain in reversed(chains):
        owner = np.where(chain >= 0, chain, owner)
    tree = Tree.of(forest.parent, forest.depth)
    extra = _outside(chains, tree, _first_rule([f.pairs for f in found], len(ranges.start)))
    return Attribution(
        Reach(tree, forest.depth, chains, extra), covered, path, paths, owner,
        _innermost_operator(ranges, forest, tracks, launches),
        len(np.unique(np.concatenate([f.given_up for f in found]))),
    )  # fmt: skip


def _innermost_operator(ranges: Ranges, forest: Forest, tracks: Tracks, launches: Launches) -> Ints:
    """Operators nest among themselves, also where an annotation begins in one and ends in another."""
    found = np.full(len(launches.start), NONE, dtype=np.int64)
    operators = np.flatnonzero(ranges.is_operator)
    if operators.size:
        among = Forest.plant(forest.start[operators], forest.end[operators])
        for index, start, end in _placed(tracks, launches.track, launches.start, launches.end):
            found[index] = take(operators, among.innermost(start, end))
    return found


_Pairs = tuple[Ints, Ints]
# (launch, range) of partial overlaps by one rule. Real traces have some thousand; n ranges that all overlap each other
# around n launches are n² pairs, which no memory has room for.
_MOST_PAIRS = 1 << 20


@dataclass(frozen=True)
class _Found:
    """What one rule finds."""

    innermost: Ints  # range of each launch, NONE without
    pairs: _Pairs  # (launch, range), all that account for launches in partially overlapping ranges
    given_up: Ints  # launches whose pairs would be too many


def _placed(tracks: Tracks, track: Ints, start: Ints, end: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Some queries that have a track at a time: which, and their places on the common axis."""
    wanted = np.flatnonzero(track >= 0)
    for rows in slices(len(wanted)):
        index = wanted[rows]
        yield index, tracks.place(track[index], start[index]), tracks.place(track[index], end[index])


def _enclosing(forest: Forest, tracks: Tracks, track: Ints, start: Ints, end: Ints) -> _Found:
    """What encloses each query on a track."""
    innermost = np.full(len(start), NONE, dtype=np.int64)
    queries, intervals, given_up = [innermost[:0]], [innermost[:0]], [innermost[:0]]
    left = _MOST_PAIRS
    for index, begin, finish in _placed(tracks, track, start, end):
        innermost[index], is_irregular = forest.locate(begin, finish)
        irregular = np.flatnonzero(is_irregular)
        query, interval, is_given_up = forest.enclosing(begin[irregular], finish[irregular], left)
        queries.append(index[irregular[query]])
        intervals.append(interval)
        given_up.append(index[irregular[is_given_up]])
        left -= len(query)
    return _Found(innermost, (np.concatenate(queries), np.concatenate(intervals)), np.concatenate(given_up))


def _by_sequence(ranges: Ranges, forest: Forest, direct: Ints) -> _Found:
    """The forward operator of each launch's innermost backward node, and what overlaps it partially.

    A forward operator between the launch and the node recomputes something (activation checkpointing): the node set it
    off because it was the first to need it, and its forward operator has nothing else to do with it.

    a thread         [ layer   [op, sequence 7] ]
    another one                                     [node, sequence 7  |L0|  [op, sequence 9 |L1|] ]
    forward          of the node: the op of sequence 7; of the op in the node, as of any op: recomputes
    nearest          L0, in the node: the op of sequence 7; L1, in the op: recomputes, so NONE
    found            L0: the op of sequence 7, and through it the ranges around that; L1: NONE
    """
    forward = forward_of(ranges, forest)
    recomputes = len(forward)
    forward[(ranges.sequence >= 0) & ~ranges.is_backward] = recomputes
    forward = _nearest(forest, forward)
    forward[forward == recomputes] = NONE
    found = take(forward, direct)
    operators, launch_operator = np.unique(found[found >= 0], return_inverse=True)
    start, end = forest.start[operators], forest.end[operators]
    innermost, is_irregular = forest.locate(start, end)
    irregular = np.flatnonzero(is_irregular | (innermost != operators))
    query, interval, is_given_up = forest.enclosing(start[irregular], end[irregular], _MOST_PAIRS)
    outside = interval < operators[irregular[query]]  # what sorts behind the operator lies within it
    query, interval = query[outside], interval[outside]
    launch_cnt = np.bincount(launch_operator, minlength=len(operators))[irregular]
    is_kept = np.cumsum(launch_cnt * np.bincount(query, minlength=len(irregular))) <= _MOST_PAIRS
    is_given_up |= ~is_kept
    query, interval = query[is_kept[query]], interval[is_kept[query]]
    launches = np.flatnonzero(found >= 0)
    given_up = launches[np.isin(launch_operator, irregular[is_given_up])]
    return _Found(found, spread(launch_operator, launches, irregular[query], interval), given_up)


def _nearest(forest: Forest, value: Ints) -> Ints:
    """The value of each range, or else of its nearest ancestor that has one."""
    result, ancestor = value.copy(), forest.parent.copy()
    active = np.flatnonzero((result < 0) & (ancestor >= 0))
    while active.size:
        above = ancestor[active]
        result[active], ancestor[active] = result[above], ancestor[above]
        active = active[(result[active] < 0) & (ancestor[active] >= 0)]
    return result


def _by_window(ranges: Ranges, forest: Forest, launches: Launches, tracks: Tracks, direct: Ints) -> _Found:
    """The innermost range of the waiting thread around a launch of another thread.

    Around the moment of the launch, half open; where the launch has an annotation of its own, around the outermost
    of these: a worker whose ranges outlast the waiting thread's is no part of them.
    """
    waiting = np.full(len(direct), NONE, dtype=np.int64)
    for process in distinct(launches.process)[0]:
        track = _waiting_thread(ranges, int(process))
        if track >= 0:
            waiting[(launches.process == process) & (launches.track != track)] = track
    elsewhere = np.flatnonzero(waiting >= 0)
    root = take(_root(forest), direct[elsewhere])
    annotated = root >= 0
    annotated[annotated] = ranges.is_annotation[root[annotated]]
    start = launches.start[elsewhere]
    end = start + 1
    start[annotated], end[annotated] = ranges.start[root[annotated]], ranges.end[root[annotated]]
    found = _enclosing(forest, tracks, waiting[elsewhere], start, end)
    innermost = np.full(len(direct), NONE, dtype=np.int64)
    innermost[elsewhere] = found.innermost
    launch, range_ = found.pairs
    return _Found(innermost, (elsewhere[launch], range_), elsewhere[found.given_up])


def _waiting_thread(ranges: Ranges, process: int) -> int:
    """Track of the main thread, or of the thread with the most annotated time; NONE without annotations."""
    mine = np.flatnonzero((ranges.process == process) & ranges.is_annotation & (ranges.track < ranges.thread_track_cnt))
    if not mine.size:
        return NONE
    main = mine[ranges.is_main_thread[mine]]
    mine = main if main.size else mine
    tracks, member = distinct(ranges.track[mine])
    annotated = np.bincount(member, (ranges.end - ranges.start)[mine].astype(np.float64))
    return int(tracks[np.argmax(annotated)])


def _root(forest: Forest) -> Ints:
    """The outermost ancestor of each range."""
    root = np.where(forest.parent >= 0, forest.parent, np.arange(len(forest.parent)))
    while not np.array_equal(root, above := root[root]):
        root = above
    return root


def _paths(ranges: Ranges, forest: Forest) -> tuple[Ints, Paths]:
    """The name path of each range, and the dictionary of paths; paths are numbered in order, parents first.

    An annotation's path names the annotations around it alone. The operators between them are PyTorch's, not the
    person's, and nsys does not see them: so both profilers give the same run the same paths.
    """
    above = _nearest_above(forest, ranges.is_annotation)
    depth = depth_of(above)
    kind = ranges.is_annotation + np.int8(2) * ranges.is_python
    path = np.full(len(ranges.start), NONE, dtype=np.int64)
    parents, names, depths, examples = [], [], [], []
    known = 0
    width = int(ranges.name.max(initial=0)) + 1
    for level in range(int(depth.max(initial=-1)) + 1):
        here = np.flatnonzero(depth == level)
        parent = take(path, above[here])
        labels, number = distinct(((parent + 1) * width + ranges.name[here]) * 3 + kind[here])
        example = np.empty(len(labels), dtype=np.int64)
        example[number[::-1]] = np.arange(len(here))[::-1]
        path[here] = known + number
        parents.append(parent[example])
        names.append(ranges.name[here[example]])
        depths.append(np.full(len(example), level))
        examples.append(here[example])
        known += len(example)
    columns = [np.concatenate(c) if c else np.empty(0, np.int64) for c in (parents, names, depths, examples)]
    return path, Paths(*columns)


def _nearest_above(forest: Forest, is_annotation: Bools) -> Ints:
    """The range whose path each range's continues: the one around it, for an annotation the nearest annotation."""
    above = forest.parent.copy()
    active = np.flatnonzero(is_annotation & (above >= 0))
    while active.size:
        active = active[~is_annotation[above[active]]]
        above[active] = forest.parent[above[active]]
        active = active[above[active] >= 0]
    return above


def _first_rule(pairs: list[_Pairs], range_cnt: int) -> tuple[Ints, Ints, Ints]:
    """Join the pairs of the three rules; a (launch, range) that two rules found keeps the first."""
    launch = np.concatenate([p[0] for p in pairs])
    range_ = np.concatenate([p[1] for p in pairs])
    rule = np.concatenate([np.full(len(p[0]), number) for number, p in enumerate(pairs)])
    _, first = np.unique(launch * max(range_cnt, 1) + range_, return_index=True)
    return launch[first], range_[first], rule[first]


def _outside(chains: tuple[Ints, ...], tree: Tree, triples: tuple[Ints, Ints, Ints]) -> tuple[Ints, Ints, Ints]:
    """The (launch, range, rule) whose range no chain of the launch goes through."""
    launch, range_, _ = triples
    known = np.zeros(len(launch), dtype=bool)
    for chain in chains:
        innermost = chain[launch]
        known |= (range_ <= innermost) & (innermost < tree.after[range_])
    launch, range_, rule = (column[~known] for column in triples)
    return launch, range_, rule


@dataclass(frozen=True)
class PathSets:
    """Launches that have the same name paths by the same rules, as numbered sets."""

    of_launch: Ints  # the set of each launch, NONE without any path
    cnt: int
    # the rows of all sets in order: each path of a set once, with the first rule that reaches it
    number: Ints
    path: Ints
    rule: Ints


def path_sets(found: Attribution) -> PathSets:
    """Put launches into sets by the name paths of all ranges that account for them."""
    shape, shape_cnt = _chain_shapes(found)
    number = np.zeros(len(found.owner), dtype=np.int64)
    for chain in found.reach.chains:
        if (chain >= 0).any():
            number = distinct(number * (shape_cnt + 1) + take(shape, chain) + 1)[1]
    number = _with_extra(number, found)
    number[found.owner < 0] = NONE
    sets, number = distinct(number)
    if sets.size and sets[0] == NONE:
        number = number - 1
    example = np.empty(int(number.max(initial=NONE)) + 1, dtype=np.int64)
    example[number[number >= 0]] = np.flatnonzero(number >= 0)
    rows = [
        np.stack([which, found.path[range_], rule])
        for which, range_, rule in found.reach.of_operations(example).levels()  # one launch stands for its whole set
    ]
    table = np.concatenate(rows, axis=1) if rows else np.empty((3, 0), np.int64)
    table = table[:, np.lexsort(table[::-1])]
    return PathSets(number, len(example), *table[:, is_first(table[0]) | is_first(table[1])])


def _chain_shapes(found: Attribution) -> tuple[Ints, int]:
    """A number for each range, the same for ranges with the same paths all the way up; and how many there are.

        thread 1    |-- op ---------|     |-- other -------|
                      |-- note ---|         |-- note ---|
                         launch 1              launch 2

    Both notes have the path `note`, because an annotation's path has no operators in it; but launch 1 belongs to `op`
    and launch 2 to `other`. Where no annotation lies in an operator a range's path says all that is above it.
    """
    parent, path = found.reach.tree.parent, found.path
    path_cnt = len(found.paths.name)
    if np.array_equal(take(path, parent), found.paths.parent[path]):
        return path, path_cnt
    shape = np.full(len(path), NONE, dtype=np.int64)
    shape_cnt = 0
    depth = found.reach.depth
    for level in range(int(depth.max(initial=NONE)) + 1):
        here = np.flatnonzero(depth == level)
        labels, number = distinct((take(shape, parent[here]) + 1) * path_cnt + path[here])
        shape[here] = shape_cnt + number
        shape_cnt += len(labels)
    return shape, shape_cnt


def _with_extra(number: Ints, found: Attribution) -> Ints:
    """Split sets so that launches with partially overlapping ranges share one only when these agree too."""
    launch, range_, rule = found.reach.extra
    if not launch.size:
        return number
    order = np.lexsort((rule, found.path[range_], launch))
    launches, begin = np.unique(launch[order], return_index=True)
    parts = np.split(np.stack([found.path[range_[order]], rule[order]], axis=1), begin[1:])
    signatures: dict[bytes, int] = {}
    signature = np.zeros(len(number), dtype=np.int64)
    for which, part in zip(launches, parts, strict=True):
        signature[which] = signatures.setdefault(part.tobytes(), len(signatures) + 1)
    return number * (len(signatures) + 1) + signature
