"""The threads of the CPU in the graph that `replay` solves: which point of them follows which."""

from dataclasses import dataclass

import numpy as np

from .intervals import NONE, Bools, Ints, grouped, take
from .replay import Strands

# A thread is at rest while others launch if they fill most of a gap that is longer than this, or if it goes on just
# behind one of them: after this part of the gap. What they did before they launched (compiling) is in no call.
REST_NS, HANDED_ON = 20_000, 100
OTHER, MAIN, ENGINE = 0, 1, 2


@dataclass(frozen=True)
class Points:
    """Points of CPU threads as arrays, in order of process and begin; of those that begin at once, as they follow."""

    process: Ints
    thread: Ints
    begin: Ints
    end: Ints
    is_launch: Bools
    waits: Bools
    wait_begin: Ints  # of those that wait: when the call's own work is done
    wait_stream: Ints  # of those that wait: the stream they wait for, NONE for all of the process, or not known
    wait_until: Ints  # of those that wait: their end, or that of a copy whose last part was under way then
    role: Ints  # of their thread: it runs steps (MAIN), or a backward that such a thread waits for (ENGINE), or OTHER

    def __len__(self) -> int:
        return len(self.begin)


def strands_of(points: Points) -> Strands:
    """Which point each follows. A thread that did nothing while another one launched follows that one, as does one that
    another is known to wait for.

    main       |a|------------------------|b|      b follows z: the other thread's calls fill most of the gap
    backward          |y|--|z|                     y follows a, the last call of the process before it

    points        a    y    z    b                 0 1 2 3 in order of their begin
    own          -1   -1    1    0                 the one before on the thread
    last         -1    0    1    2                 the one before in the process
    follows      -1    0    1    2                 `last` where the thread was at rest, else `own`
    number        0    1    1    2                 strands a, y z and b: one begins where follows is not own
    """
    count = len(points)
    by_thread = grouped(points.thread)
    own = np.full(count, NONE, dtype=np.int64)
    is_next = np.flatnonzero(points.thread[by_thread[1:]] == points.thread[by_thread[:-1]])
    own[by_thread[is_next + 1]] = by_thread[is_next]
    last = np.arange(count) - 1  # in the process, whatever the thread
    is_other = (last >= 0) & (last != own)
    is_other &= take(points.process, last) == points.process
    is_other &= take(points.end, last) <= points.begin
    launched = np.append(0, np.cumsum(points.is_launch))
    since = np.where(own >= 0, own + 1, 0)
    gap = points.begin - take(points.end, own)
    filled = take(points.end, last) - points.begin[np.minimum(since, count - 1)]
    at_once = HANDED_ON * (points.begin - take(points.end, last)) < gap
    at_rest = (own < 0) | ((gap > REST_NS) & ((2 * filled > gap) | at_once) & (launched[last + 1] > launched[since]))
    # a backward begins when it is called for, and who called waits for it, whatever else each does before or behind
    at_rest |= points.role + take(points.role, last, OTHER) == MAIN + ENGINE
    follows = np.where(is_other & at_rest, last, own)
    is_first = follows != own
    is_first |= own < 0
    first = np.flatnonzero(is_first)
    number = np.empty(count, dtype=np.int64)
    in_order = np.cumsum(is_first[by_thread]) - 1
    rank = np.empty(len(first), dtype=np.int64)
    rank[in_order[is_first[by_thread]]] = np.searchsorted(first, by_thread[is_first[by_thread]])
    number[by_thread] = rank[in_order] if count else in_order
    waiting = np.flatnonzero(points.waits)
    return Strands(follows, by_thread, number, first, _behind(points, follows, by_thread, number, first), waiting)


def _behind(points: Points, follows: Ints, by_thread: Ints, number: Ints, first: Ints) -> Ints:
    """Of each point the number of the last wait that it comes behind, along its strand and those it goes on from."""
    wait_number = np.where(points.waits, np.cumsum(points.waits) - 1, NONE)
    place = np.arange(len(points))
    waited = np.maximum.accumulate(np.where(points.waits[by_thread], place, NONE))
    waited = np.append(NONE, waited)[:-1]
    begins = np.empty(len(points), dtype=np.int64)
    begins[by_thread] = place
    is_within = waited >= begins[first][number[by_thread]]
    behind = np.full(len(points), NONE, dtype=np.int64)
    behind[by_thread[is_within]] = wait_number[by_thread[waited[is_within]]]
    inherited = [NONE] * len(first)
    known = zip(
        take(number, follows[first]).tolist(),
        take(wait_number, follows[first]).tolist(),
        take(behind, follows[first]).tolist(),
        strict=True,
    )
    for strand, (earlier, itself, before) in enumerate(known):
        if earlier >= 0:
            inherited[strand] = itself if itself >= 0 else before if before >= 0 else inherited[earlier]
    return np.where(behind >= 0, behind, np.array([*inherited, NONE], dtype=np.int64)[number])
