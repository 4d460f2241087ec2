"""The work that determines the length of a trace: from its end back, each time to what was waited for.

    a GPU operation    began when the one before it on its stream ended, if it had been launched by then
                       or, long after that or after its launch, when another operation on the device ended: just
                       before it began, if its stream was busy as it was launched, else any time since the launch;
                       or on another device of the process, just before it began (layers that devices share out)
                       or else because it had just been launched: the CPU was late
    the CPU            was busy since it last came back from waiting for the GPU, for the operation that ended last then

So the path is a partition of the trace's time into GPU work, launch delay (between call and begin), waits (between an
operation and the one that it waited for, or its call, where it began too long after that to have been launched only
then) and CPU time. It follows what traces record: waits of a stream for an event
are inferred from times, and hand-overs between CPU threads from when a thread's calls begin. (Meta's HTA builds a
graph of the same dependencies and searches its longest path: https://hta.readthedocs.io, "Lightweight critical path".)
"""

from dataclasses import dataclass, replace

import numpy as np

from .intervals import NONE, Bools, Ints, take
from .launches import LONG_DELAY_NS, Work

GPU, LAUNCH, WAIT, CPU = "gpu", "launch", "wait", "cpu"
KINDS = (GPU, LAUNCH, WAIT, CPU)
# Later than this after its call it was not being launched: where nothing that is recorded held it back, something else
# did, as work from before the recording. The path is made when an input is read, and thresholds are asked afterwards:
# late_launch_ns is the same unless somebody changes it.
LATE_LAUNCH_NS = 100_000


@dataclass(frozen=True)
class Segments:
    """A partition of time, in order: index into KINDS; the operation, NONE for CPU; the thread, NONE for the others."""

    kind: Ints
    start: Ints
    end: Ints
    operation: Ints
    thread: Ints


def critical_path(
    work: Work, wait_start: Ints, wait_end: Ints, begin: int, end: int, main_thread: int, is_fed: Bools | None = None
) -> Segments:
    """The path that ends at `end` and begins at `begin`, which enclose all work.

    wait_start, wait_end: calls in which the CPU waits for the GPU. is_fed: of each operation, whether it is a copy that
    its call feeds and then waits for, though it returns before it has ended (waiting_call). What follows the last
    operation, and what the CPU did before a thread's first call, is on the main thread.

    calls    |c0||c1| |=== wait ===|  |c2|
    stream      [  op 0  ][ op 1 ]         [ op 2 ]
    by_gpu        NONE       0               NONE        op 1 had been launched when op 0 ended
    by_cpu        NONE      NONE              1          the CPU had waited for op 1 before it called c2
    at       2, 1, 0; in order of time: cpu, launch, gpu (0), gpu (1), cpu until c2 ends, launch, gpu (2)
    """
    is_held = work.start - work.launch_end > LATE_LAUNCH_NS
    work, fed, returned = _without_blocking(work, is_fed)
    waited, woken_at = _effective_waits(work, wait_start, wait_end)
    order = np.argsort(np.append(woken_at, returned), kind="stable")
    waited, woken_at = np.append(waited, fed)[order], np.append(woken_at, returned)[order]
    by_gpu = _waited_for(work)
    before = np.searchsorted(woken_at, work.launch_start, side="right") - 1
    by_cpu = take(waited, before)
    by_cpu[(by_cpu >= 0) & (take(work.start, by_cpu) >= work.start)] = NONE
    last, until = _last(work, waited, woken_at, end)
    at = _followed(np.where(by_gpu >= 0, by_gpu, by_cpu), last)
    begun = work.start[at]
    until_each = np.append(until, np.minimum(work.end[at[1:]], begun[:-1]))[: len(at)]
    since = np.append(until_each[1:], begin)[: len(at)]
    thread = work.launch_thread[at]
    called = np.where(thread < 0, begun, np.maximum(np.minimum(work.launch_end[at], begun), since))
    handed = _handed_over(work, thread, since, called, main_thread)
    is_queued, is_held = by_gpu[at] >= 0, is_held[at]
    own = np.where(thread < 0, main_thread, thread)
    gpu, launch, wait, cpu = map(KINDS.index, (GPU, LAUNCH, WAIT, CPU))
    return _in_order(
        (gpu, begun, until_each, at, NONE, True),
        (wait, since, begun, at, NONE, is_queued),
        (wait, called, begun, at, NONE, ~is_queued & is_held),
        (launch, called, begun, at, NONE, ~is_queued & ~is_held),
        (cpu, handed, called, NONE, own, ~is_queued),
        (cpu, since, handed, NONE, main_thread, ~is_queued),
        (cpu, np.array([max(until, begin)]), np.array([end]), NONE, main_thread, True),
    )


def lend(found: Segments, main_thread: int, start: Ints, end: Ints, thread: Ints) -> Segments:
    """Give the main thread's time to the threads that worked meanwhile: in a backward it waits for autograd's own.

    start, end, thread: when other threads worked, in order of the start; where they overlap the first counts.
    """
    latest = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], end]))[:-1]
    start = np.maximum(start, latest)  # without what an earlier one covers
    start, end, thread = (column[start < end] for column in (start, end, thread))
    is_main = (found.kind == KINDS.index(CPU)) & (found.thread == main_thread)
    mine = np.flatnonzero(is_main)
    if not mine.size or not start.size:
        return found
    cuts = np.unique(np.concatenate([found.start[mine], found.end[mine], start, end]))
    low, high = cuts[:-1], cuts[1:]
    of = np.searchsorted(found.start[mine], low, side="right") - 1
    by = np.searchsorted(start, low, side="right") - 1
    kept = (of >= 0) & (high <= take(found.end[mine], of))
    is_lent = (by >= 0) & (low < take(end, by))
    return _in_order(
        (found.kind, found.start, found.end, found.operation, found.thread, ~is_main),
        (KINDS.index(CPU), low, high, NONE, np.where(is_lent, take(thread, by), main_thread), kept),
    )


_Piece = tuple[Ints | int, Ints, Ints, Ints | int, Ints | int, Bools | bool]


def _in_order(*pieces: _Piece) -> Segments:
    """The columns of Segments and a condition for each row, piece after piece; one value stands for all rows.

    Segments of no length are left out.
    """
    chosen = []
    for *columns, where in pieces:
        rows = np.flatnonzero((columns[2] > columns[1]) & where)
        chosen.append([c[rows] if isinstance(c, np.ndarray) else np.full(len(rows), c) for c in columns])
    whole = [np.concatenate(column) for column in zip(*chosen, strict=True)]
    order = np.argsort(whole[1], kind="stable")
    return Segments(*(column[order] for column in whole))


def _followed(earlier: Ints, last: int) -> Ints:
    """From one operation on, each time to the one before it; along neighbours in one stride."""
    index = np.arange(len(earlier))
    stride_begins = np.maximum.accumulate(np.where(earlier != index - 1, index, 0)).data
    pointers, ends, begins = np.ascontiguousarray(earlier).data, [], []
    at = last
    while at >= 0:
        ends.append(at)
        begins.append(stride_begins[at])
        at = pointers[begins[-1]]
    end, begin = np.array(ends, dtype=np.int64), np.array(begins, dtype=np.int64)
    length = end - begin + 1
    before = np.cumsum(length) - length
    return np.repeat(end + before, length) - np.arange(length.sum())


def _handed_over(work: Work, thread: Ints, since: Ints, called: Ints, main: int) -> Ints:
    """When the launching thread took over from the main thread: at its first launching call since then."""
    handed = since.copy()
    for number in np.unique(thread):
        if number in (NONE, main):
            continue
        mine = np.flatnonzero(thread == number)
        calls = np.append(np.sort(work.launch_start[work.launch_thread == number]), np.iinfo(np.int64).max)
        handed[mine] = np.minimum(calls[np.searchsorted(calls, since[mine])], called[mine])
    return handed


def _last(work: Work, waited: Ints, woken_at: Ints, end: int) -> tuple[int, int]:
    """The operation that determines the end of the trace, and when it ended; the CPU goes on from there."""
    if not len(work.end):
        return NONE, NONE
    last = int(work.by_end[-1])
    if int(work.end[last]) >= end or not len(waited):
        return last, int(work.end[last])
    woken = int(np.searchsorted(woken_at, end, side="right")) - 1
    return (int(waited[woken]), int(work.end[waited[woken]])) if woken >= 0 else (NONE, NONE)


def _waited_for(work: Work) -> Ints:
    """For each operation the one on a device of the process whose end let it begin; NONE where its launch did."""
    count = len(work.start)
    known = work.launch_start >= 0
    order = np.lexsort((np.arange(count), work.stream))
    previous = np.full(count, NONE, dtype=np.int64)
    same = work.stream[order[1:]] == work.stream[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    is_behind = (previous >= 0) & (~known | (take(work.end, previous) > work.launch_end))
    found = np.where(is_behind, previous, NONE)
    # since when nothing of its own stream or of the CPU held it back
    ready = np.where(is_behind, take(work.end, previous), work.launch_end)
    late = np.flatnonzero(known & (work.start - ready > LONG_DELAY_NS))
    for device in np.unique(work.device[late]):
        mine = late[work.device[late] == device]
        is_own = work.device[work.by_end] == device
        own, other = (_ended(work, work.by_end[chosen], mine, ready) for chosen in (is_own, ~is_own))
        is_near, is_handed = (
            (of >= 0) & (work.start[mine] - take(work.end, of) <= LONG_DELAY_NS) for of in (own, other)
        )
        # behind its stream only what ended just before it can have been waited for, as an event of another stream
        fits = is_near | ((own >= 0) & ~is_behind[mine])
        found[mine[fits]] = own[fits]
        is_handed &= ~is_near
        found[mine[is_handed]] = other[is_handed]
    return _earlier(work, found)


def _ended(work: Work, by_end: Ints, late: Ints, ready: Ints) -> Ints:
    """Of some in order of their end the last that ended before each late one began, NONE if it was not waited for."""
    other = take(by_end, np.searchsorted(work.end[by_end], work.start[late], side="right") - 1)
    fits = (other >= 0) & (take(work.start, other) < work.start[late]) & (take(work.end, other) > ready[late])
    return np.where(fits, other, NONE)


def _earlier(work: Work, found: Ints) -> Ints:
    """Without those that begin no earlier: the path must come to an end."""
    found[(found >= 0) & (take(work.start, found) > work.start)] = NONE
    ties = (found >= 0) & (take(work.start, found) == work.start)
    found[ties & (found >= np.arange(len(found)))] = NONE
    return found


def _without_blocking(work: Work, is_fed: Bools | None) -> tuple[Work, Ints, Ints]:
    """Copies and the like whose call returned after they had ended: launched when the call began, then waited for.

    call    |---------------------------|       the copy was behind the kernel in its queue, not behind its call
    GPU       [ kernel            ][copy]

    So are those that their calls fed: these, and when their calls returned.
    """
    is_done = ~work.is_kernel & (work.launch_start >= 0) & (work.launch_end >= work.end)
    is_fed = np.zeros(len(work.start), dtype=bool) if is_fed is None else is_fed & ~is_done
    fed, returned = np.flatnonzero(is_fed), work.launch_end[is_fed]
    if not (is_done | is_fed).any():
        return work, fed, returned
    return replace(work, launch_end=np.where(is_done | is_fed, work.launch_start, work.launch_end)), fed, returned


def _effective_waits(work: Work, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Of calls that wait for the GPU those in which work ended that they or earlier calls launched: that operation, and
    when the call returned, in order of the return."""
    order = np.lexsort((start, end))
    start, end = start[order], end[order]
    last = take(work.by_end, np.searchsorted(work.end[work.by_end], end, side="right") - 1)
    is_effective: Bools = (last >= 0) & (take(work.end, last) > start) & (take(work.launch_start, last) <= start)
    return last[is_effective], end[is_effective]
