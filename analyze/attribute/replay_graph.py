"""Makes the graph that `replay` solves from what was measured: which edge was the last, and how much slack others had.

    operation behind its stream   it had been launched when the one before it ended: what lies between is distance
    behind its launch             the stream was free, or it was on its way when that ended: all between its launching
                                  call's begin and its own is latency
    behind another stream         it began long after both, just after an operation of another stream ended, or while
                                  one ran: for lack of room or an event that nobody names, by that stream's progress;
                                  or just after one of another device of its process ended

    with a kernel                 it is a page that moved while the kernel ran, as pages have no launches: it rides with
                                  it; the first one that moved behind a kernel begins as long behind its end

Edges that were not the last get what is usual in the trace: the low decile of latencies, the median distance. A trace
does not say which event a stream waits for; a launch that follows a call like cudaStreamWaitEvent on its thread needs
the last operation that was launched before it on another stream, whether that was the last edge or not.
"""

from dataclasses import dataclass, replace

import numpy as np

from .intervals import NONE, Bools, Ints, grouped, take
from .launches import LONG_DELAY_NS
from .replay import NEVER, Graph, Groups, Strands, Weights
from .replay_threads import Points, strands_of

# So soon after what it waited for an operation begins, at most: a hundredth of a long wait, which no chance leaves.
# AMD's GPUs take 15 us and more to see an event.
NEAR_SHARE, NEAR_NS = 0.01, 50_000
# A kernel that fills a device leaves room for others when a part of it is left: of four one.
LAST_PART = 4
# What a synchronization takes that does not wait, and how long the CPU takes to return from one that does.
CALL_NS, RETURN_NS = 5_000, 2_000
# Where a trace does not show it: from a launching call's begin to its kernel's, and between two kernels of a queue.
LATENCY_NS, DISTANCE_NS = 5_000, 1_500
# So much earlier than its launch work may seem to begin: clocks of CPU and GPU are matched to some us, and what they
# are off by is a latency below 0. Work that is earlier still has another launch.
EARLY_NS = 20_000
# No launch is on its way for longer; what began later behind it waited for work that was not recorded.
LONGEST_LATENCY_NS = 1_000_000


@dataclass(frozen=True)
class Operations:
    """GPU operations as arrays, in order of their start."""

    start: Ints
    end: Ints
    process: Ints
    device: Ints
    stream: Ints  # a number for each process, device and stream, from 0 without holes
    point: Ints  # the launching call among the points, NONE where it is not known
    is_kernel: Bools
    is_told: Bools  # the launching thread made the stream wait for an event just before
    is_page: Bools  # a page of managed memory that moved by itself

    def __len__(self) -> int:
        return len(self.start)


def origin_of(points: Points, work: Operations) -> int:
    """When the first thing begins."""
    return int(min(points.begin.min(), work.start.min(initial=points.begin.min())))


def graph(points: Points, work: Operations) -> Graph:
    """The graph of a trace; its times count from the first begin."""
    origin, strands = origin_of(points, work), strands_of(points)
    work = replace(work, point=np.where(take(points.begin, work.point) <= work.start + EARLY_NS, work.point, NONE))
    by_stream = grouped(work.stream)
    previous = _previous(work, by_stream)
    needs = _needs(work, points, previous)
    carrier, rides = _pages(work, needs)
    if rides.any():
        by_stream = by_stream[~rides[by_stream]]
        previous = _previous(work, by_stream)
    is_behind = (carrier >= 0) & (carrier == take(carrier, previous)) & (work.start >= take(work.end, carrier))
    needs = np.where(is_behind, NONE, np.where(carrier >= 0, carrier, needs))
    latency, distance = _slack(work, points, previous, needs)
    told = _told(work, needs)
    targets, returned_after, is_effective = _targets(points, work, strands.waiting, by_stream)
    own = points.end - points.begin
    called = strands.waiting[is_effective]
    own[called] = np.minimum(points.wait_begin[called] - points.begin[called] + CALL_NS, own[called])
    host = points.begin - take(points.end, strands.follows, origin)
    measured = Weights(host, own, points.waits.copy(), work.end - work.start, distance, latency)
    fixed = np.where((previous < 0) & (work.point < 0) & (needs < 0), work.start - origin, NEVER)[by_stream]
    after = np.where(
        needs >= 0, work.start - take(work.end, needs), np.minimum(work.start - take(work.end, told), DISTANCE_NS)
    )
    needs = np.where(needs >= 0, needs, told)
    groups = _groups(points, work, strands, by_stream, needs, after, targets, returned_after)
    riders = np.flatnonzero(rides)
    ridden = work.start[riders] - work.start[carrier[riders]]
    return Graph(measured, strands, work.point, by_stream, fixed, groups, riders, carrier[riders], ridden)


def _previous(work: Operations, by_stream: Ints) -> Ints:
    """The operation before each one on its stream, of those in an order of streams; NONE for the first."""
    previous = np.full(len(work), NONE, dtype=np.int64)
    same = np.flatnonzero(work.stream[by_stream[1:]] == work.stream[by_stream[:-1]])
    previous[by_stream[same + 1]] = by_stream[same]
    return previous


def _pages(work: Operations, needs: Ints) -> tuple[Ints, Bools]:
    """Of each page that moved the kernel that it moved beside or behind, NONE of other operations; which ride with it.

    kernel       [        k        ]
    pages         [r] [r]   [r]        [b] [b]      r ride with k: they are no limit of their own; b come behind it

    A page that another operation waited for does not ride: what waits hangs on it.
    """
    carrier = np.full(len(work), NONE, dtype=np.int64)
    pages = np.flatnonzero(work.is_page & (work.point < 0))
    for device in np.unique(work.device[pages]):
        for process in np.unique(work.process[pages]):
            is_here = (work.device == device) & (work.process == process)
            kernels, mine = np.flatnonzero(is_here & work.is_kernel), pages[is_here[pages]]
            if kernels.size:
                carrier[mine] = _running(work, kernels, mine)
    rides = (carrier >= 0) & (work.end <= take(work.end, carrier))
    others = needs[(needs >= 0) & (carrier < 0)]
    rides[others] = False
    return carrier, rides


def _needs(work: Operations, points: Points, previous: Ints) -> Ints:
    """The operation of another stream behind whose end an operation began, long after its stream and its launch.

    Just behind it, on its device or else on another one of its process; or, while its device works for others, however
    long behind the last one that ended meanwhile; or before the end of one that filled the device until then and leaves
    room in its last quarter:

    launch    |c|                             |d|
    stream 1      . . . . . . [ c ]              . . . . . [ d ]      c needs a, d needs e: were these shorter, it
    stream 2    [  a   ][   b    ]             [      e      ]        would not wait as long as it did
    """
    ready = np.maximum(take(work.end, previous, NEVER), _launched(work, points))
    late = np.flatnonzero(work.start - ready > LONG_DELAY_NS)
    needs = np.full(len(work), NONE, dtype=np.int64)
    if not late.size:
        return needs
    by_end = np.lexsort((work.start, work.end))
    for device in np.unique(work.device[late]):
        mine = late[work.device[late] == device]
        other = _ended(work, by_end[work.device[by_end] == device], mine, ready)
        fits = (other >= 0) & (take(work.stream, other) != work.stream[mine])
        running = _running(work, np.flatnonzero(work.device == device), mine)
        left = take(work.end, running) - work.start[mine]
        is_beside = (running >= 0) & (left > 0) & (take(points.end, work.point[mine], -NEVER) <= work.start[mine])
        is_near = fits & (work.start[mine] - take(work.end, other) <= _near_ns(work, ready, mine))
        fits &= is_beside | is_near
        needs[mine[fits]] = other[fits]
        drains = ~fits & is_beside & (take(work.process, running) == work.process[mine])
        drains &= LAST_PART * left <= take(work.end, running) - take(work.start, running)
        needs[mine[drains]] = running[drains]
        for process in np.unique(work.process[mine]):
            far = mine[~is_near & (work.process[mine] == process)]
            others = by_end[(work.device[by_end] != device) & (work.process[by_end] == process)]
            other = _ended(work, others, far, ready)
            is_handed = (other >= 0) & (work.start[far] - take(work.end, other) <= _near_ns(work, ready, far))
            needs[far[is_handed]] = other[is_handed]
    return needs


def _near_ns(work: Operations, ready: Ints, late: Ints) -> Ints:
    """How long after what late operations waited for they may begin."""
    waited = np.minimum(work.start[late] - ready[late], round(NEAR_NS / NEAR_SHARE))
    found: Ints = np.maximum(LONG_DELAY_NS, np.rint(NEAR_SHARE * waited).astype(np.int64))
    return found


def _ended(work: Operations, by_end: Ints, late: Ints, ready: Ints) -> Ints:
    """Of some in order of their end the last that ended before each late one began, if that can be what was waited for:
    of the same process, since it was ready; else NONE.
    """
    other = take(by_end, np.searchsorted(work.end[by_end], work.start[late], side="right") - 1)
    fits = (other >= 0) & (take(work.end, other) > ready[late])
    fits &= (take(work.process, other) == work.process[late]) & (take(work.start, other) < work.start[late])
    return np.where(fits, other, NONE)


def _running(work: Operations, of_device: Ints, mine: Ints) -> Ints:
    """Of operations that had begun on a device before each of some, the one that ends last; NONE without."""
    end = work.end[of_device]
    latest = np.maximum.accumulate(end)
    holder = np.maximum.accumulate(np.where(end >= latest, np.arange(len(end)), 0))
    before = np.searchsorted(work.start[of_device], work.start[mine]) - 1
    return take(of_device, np.where(before >= 0, holder[before], NONE))


def _told(work: Operations, needs: Ints) -> Ints:
    """What operations need whose stream was told to wait: the last one launched before on another stream.

    launches   a on 1   b on 2   [wait event]   c on 1        c needs b
    """
    found = np.full(len(work), NONE, dtype=np.int64)
    rows = np.flatnonzero(work.point >= 0)
    if not rows.size or not work.is_told.any():
        return found
    rows = rows[np.argsort(work.point[rows], kind="stable")]
    stream = work.stream[rows]
    runs = np.flatnonzero(np.append(True, stream[1:] != stream[:-1]))
    begins = np.repeat(runs, np.diff(np.append(runs, len(rows))))
    other = np.where(begins > 0, rows[begins - 1], NONE)
    is_first = np.append(True, work.point[rows[1:]] != work.point[rows[:-1]])
    fits = work.is_told[rows] & is_first & (other >= 0) & (needs[rows] < 0)
    fits &= take(work.process, other) == work.process[rows]
    fits &= (take(work.end, other) <= work.start[rows]) & (take(work.start, other) < work.start[rows])
    found[rows[fits]] = other[fits]
    return found


def _launched(work: Operations, points: Points) -> Ints:
    """When the launching call of each operation was over, or began if the operation began sooner; NEVER without."""
    ended = take(points.end, work.point, NEVER)
    return np.where(ended <= work.start, ended, take(points.begin, work.point, NEVER))


def _slack(work: Operations, points: Points, previous: Ints, needs: Ints) -> tuple[Ints, Ints]:
    """Latency and distance of each operation: measured on the edge that was last, what is usual on the others."""
    latency = work.start - take(points.begin, work.point)
    distance = work.start - take(work.end, previous)
    is_launched, is_behind = work.point >= 0, previous >= 0
    is_queued = is_behind & (~is_launched | (take(work.end, previous) > _launched(work, points)))
    is_queued &= needs < 0
    # a call that took most of the time since loaded the kernel, and was late though it had begun before (as in _gap)
    loaded = work.is_kernel & is_queued & (distance > LONG_DELAY_NS)
    loaded &= 2 * (take(points.end, work.point, NEVER) - take(work.end, previous)) > distance
    is_queued &= ~loaded
    is_late = is_launched & ~is_queued & (needs < 0)
    usual = int(np.quantile(latency[is_late], 0.1, method="lower")) if is_late.any() else LATENCY_NS
    if usual > LONGEST_LATENCY_NS:  # few are late here, all of them for a reason of their own
        usual = LATENCY_NS
    # on its way to the device when the one before ended: it came as soon behind its launch as it could (as in _gap)
    underway = is_launched & is_queued & (distance > 2 * DISTANCE_NS) & (latency <= 1.1 * usual)
    is_late |= underway
    is_queued &= ~underway
    close = distance[is_queued & (distance >= 0) & (distance <= LONG_DELAY_NS)]
    apart = int(np.median(close)) if close.size > underway.sum() else DISTANCE_NS
    latency = np.where(is_late, latency, np.minimum(latency, usual))
    distance = np.where(is_queued, distance, np.minimum(distance, apart))
    distance[~is_behind] = 0
    return np.where(is_launched, latency, 0), distance


def _targets(
    points: Points, work: Operations, waiting: Ints, by_stream: Ints
) -> tuple[list[list[int]], list[list[int]], Bools]:
    """Of each wait the operations for whose end it waits and how long after it it returns; which ones did wait.

    The last one of each stream that had been launched when the call began and had ended when it returned, or the copy
    that it fed to its last part. The call returned when the latest of them let it; behind the others it would return as
    soon as is usual.

    calls       |a||b||x| |===== wait =====|  |c|
    stream 1      [ a ][ b ]                     [ c ]    launched until it began: a, b; ended until it returned: a, b
    stream 2           [    x    ]                        launched and ended: x
    operation   b, x: the last of each stream; c had not been launched
    after       b: at most RETURN_NS; x, the latest: from its end to the end of the wait
    """
    begin, end = points.begin[waiting], points.end[waiting]
    since, until = points.wait_begin[waiting], points.wait_until[waiting]
    process, asked = points.process[waiting], points.wait_stream[waiting]
    found: list[tuple[Ints, Ints]] = []  # wait, operation
    cuts = np.flatnonzero(np.diff(work.stream[by_stream])) + 1
    for rows in np.split(by_stream, cuts) if len(by_stream) else []:
        stream = int(work.stream[rows[0]])
        mine = np.flatnonzero((process == work.process[rows[0]]) & ((asked == stream) | (asked == NONE)))
        if not mine.size:
            continue
        ended = np.searchsorted(np.maximum.accumulate(work.end[rows]), until[mine], side="right")
        launch = np.maximum.accumulate(take(points.begin, work.point[rows], NEVER))
        launched = np.searchsorted(launch, begin[mine], side="right")
        at = np.minimum(ended, launched) - 1
        fits = (at >= 0) & (take(work.start[rows], at) < end[mine])
        found.append((mine[fits], rows[at[fits]]))
    empty = np.empty(0, dtype=np.int64)
    wait, operation = (
        (np.concatenate([empty, *column]) for column in zip(*found, strict=True)) if found else (empty,) * 2
    )
    allowed = end[wait] - work.end[operation]
    latest = np.full(len(waiting), NEVER, dtype=np.int64)
    np.maximum.at(latest, wait, work.end[operation])
    is_effective = latest > since
    is_last = is_effective[wait] & (work.end[operation] == latest[wait])
    after = np.where(is_last, allowed, np.minimum(allowed, RETURN_NS))
    targets: list[list[int]] = [[] for _ in waiting]
    returned: list[list[int]] = [[] for _ in waiting]
    for number, target, time in zip(wait.tolist(), operation.tolist(), after.tolist(), strict=True):
        targets[number].append(target)
        returned[number].append(time)
    return targets, returned, is_effective


def _groups(
    points: Points, work: Operations, strands: Strands, by_stream: Ints, needs: Ints, after: Ints,
    targets: list[list[int]], returned_after: list[list[int]],
) -> Groups:  # fmt: skip
    """Cut streams where operations arrive behind another wait, need another stream, or are waited for.

    by_stream   a   b   c   d   e   f       f is of another stream than the others
    behind      0   0   1   1   1   1       the number of the last wait before their launch
    needs       .   .   .   .   .   d       so d is asked for, and its group ends with it
    begins      x       x       x   x       for the stream, for the wait, after what is asked for, for the need
    first       0       2       4   5       groups a b, c d, e and f; the last one needs group 1
    """
    count = len(by_stream)
    stream = work.stream[by_stream]
    behind = take(strands.behind, work.point[by_stream])
    known = np.maximum.accumulate(np.where(work.point[by_stream] >= 0, np.arange(count), 0))
    behind = behind[known] if count else behind  # what has no launch arrives with the one before it
    behind[work.point[by_stream][known] < 0] = NONE
    needs_in_order = needs[by_stream]
    is_asked = np.zeros(len(work), dtype=bool)
    is_asked[needs[needs >= 0]] = True
    is_asked[[target for of in targets for target in of]] = True
    begins = np.ones(count, dtype=bool)
    begins[1:] = (stream[1:] != stream[:-1]) | (behind[1:] != behind[:-1]) | is_asked[by_stream[:-1]]
    begins |= needs_in_order >= 0
    first = np.flatnonzero(begins)
    group = np.full(len(work), NONE, dtype=np.int64)
    group[by_stream] = np.cumsum(begins) - 1
    need = needs_in_order[first]
    needs_after = np.where(need >= 0, after[by_stream[first]], 0)
    time = np.concatenate([work.start[by_stream[first]], points.end[strands.waiting]])
    place = np.concatenate([np.arange(len(first)), ~np.arange(len(strands.waiting))])
    order = np.lexsort((np.arange(len(time)), place >= 0, time))  # a wait lets what begins at once begin
    return Groups(
        first,
        stream[first].tolist(),
        behind[first].tolist(),
        take(group, need).tolist(),
        needs_after,
        place[order].tolist(),
        [
            list(zip(group[of].tolist(), after, strict=True)) if of else []
            for of, after in zip(targets, returned_after, strict=True)
        ],
    )
