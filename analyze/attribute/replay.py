"""Replays a trace as a graph: how long it would take if operations, calls or waits were others.

    thread   |launch|--host--|launch|--host--|synchronize ............|--host--|launch|
                 \\ latency       \\ latency                   / returns
    stream          [ kernel ]distance[ kernel ]   [ kernel   ]
                                            \\ another stream waited for it

A point of a CPU thread (a call that launches or waits, the border of a step) follows the one before it on its thread
or, where the thread was at rest meanwhile, the last one of the thread that worked; an operation begins behind the one
before it on its stream, its launch, and the operation of another stream that it waited for, whichever is last. What
was measured stays on the edge that was last: so the unchanged graph gives the measured times to the nanosecond (a
test), and what a change leads to depends on the slack of the other edges.

Solved without a loop over operations. Between two waits a thread's times are sums; the end of an operation is

    end[i] = U[i] + max over j <= i of (arrival[j] - U[j] + length[j]),     U = sum of lengths and distances so far

(max-plus algebra), so operations that arrive behind the same wait are reduced to one number each time, and only these
groups and the waits are visited one by one, in the order in which they were measured.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .intervals import Bools, Ints, take

NEVER = -(1 << 61)


@dataclass(frozen=True)
class Weights:
    """What a change changes, all in nanoseconds but `waits`."""

    host: Ints  # of each point: the CPU's time since the point that it follows
    own: Ints  # of each point: what the call itself takes, without waiting
    waits: Bools  # of each point: whether it waits for the GPU
    length: Ints  # of each operation
    distance: Ints  # of each operation: since the end of the one before it on its stream
    latency: Ints  # of each operation: since the start of its launching call


@dataclass(frozen=True)
class Strands:
    """Points that follow one another on a thread; the first of each follows a point of an earlier strand, or none."""

    follows: Ints  # of each point the one that it follows, NONE for the first
    by_thread: Ints  # points in order of thread and time
    number: Ints  # of each point that of its strand; strands are numbered in order of their first points
    first: Ints  # the first point of each strand
    behind: Ints  # of each point the number of the last wait that it comes behind, NONE without
    waiting: Ints  # the points that wait, by the number of the wait


@dataclass(frozen=True)
class Groups:
    """Operations of a stream that arrive behind the same wait, in order of streams: what is visited one by one."""

    first: Ints  # the place of the first operation of each group, in order of streams
    stream: list[int]
    behind: list[int]  # number of the wait behind which it arrives, NONE without
    needs: list[int]  # the group for whose end its first operation waited, NONE without
    needs_after: Ints  # and how long after it that one began
    order: list[int]  # places of groups and ~numbers of waits as they were measured
    targets: list[list[tuple[int, int]]]  # of each wait: groups for whose end it waits, how long after it it returns


@dataclass(frozen=True)
class Replayed:
    """When each point begins and its call is done, and when the last operation of each group ends."""

    begin: Ints
    done: Ints
    group_end: Ints

    @property
    def length_ns(self) -> int:
        """When the last of everything ends."""
        return max((int(column.max()) for column in (self.done, self.group_end) if column.size), default=0)


@dataclass(frozen=True)
class Graph:
    """What no change changes, and the weights that were measured. Times count from the first event."""

    measured: Weights
    strands: Strands
    point: Ints  # of each operation the point that launches it, NONE where it is not known
    by_stream: Ints  # operations in order of streams, without riders
    fixed: Ints  # in that order: the start of the first operation of a stream whose launch is not known, else NEVER
    groups: Groups
    riders: Ints  # operations within kernels that end with these: as far in them whatever they take
    carriers: Ints  # the kernel of each
    ridden: Ints  # how long behind its start each began

    def replay(self, weights: Weights) -> Replayed:
        """The times that the weights lead to."""
        measured = self.measured  # most changes leave threads or streams as they were: what follows is known then
        are_threads_same = weights.host is measured.host and weights.own is measured.own
        are_streams_same = weights.length is measured.length and weights.distance is measured.distance
        begin = self._begin_as_measured if are_threads_same else self._undelayed(weights)
        until_begin, until_end = self._streams_as_measured if are_streams_same else self._along_streams(weights)
        if are_threads_same and weights.latency is measured.latency:
            arrival = self._arrival_as_measured
        else:
            arrival = self._arrival(weights, begin)
        done = begin + weights.own
        delay, group_end = self._visit(weights, arrival - until_begin, until_begin, until_end, done)
        waiting, delayed = self.strands.waiting, np.append(delay, 0)[self.strands.behind]
        done += delayed
        done[waiting] += delay - delayed[waiting]
        return Replayed(begin + delayed, done, group_end)

    @cached_property
    def _begin_as_measured(self) -> Ints:
        return self._undelayed(self.measured)

    @cached_property
    def _streams_as_measured(self) -> tuple[Ints, Ints]:
        return self._along_streams(self.measured)

    @cached_property
    def _arrival_as_measured(self) -> Ints:
        return self._arrival(self.measured, self._begin_as_measured)

    def begin_of_operations(self, weights: Weights, found: Replayed) -> Ints:
        """When each operation begins, of the times that the weights have led to."""
        groups = self.groups
        until_begin, _ = self._along_streams(weights)
        arrival = self._arrival(weights, found.begin)
        needed = take(found.group_end, np.array(groups.needs, dtype=np.int64), NEVER) + groups.needs_after
        arrival[groups.first] = np.maximum(arrival[groups.first], needed)
        arrival -= until_begin
        cuts = groups.first[1:][np.diff(groups.stream) != 0]
        latest = [np.maximum.accumulate(of) for of in np.split(arrival, cuts)]
        result = np.empty_like(weights.length)
        result[self.by_stream] = np.concatenate([*latest, arrival[:0]]) + until_begin
        share = weights.length[self.carriers] / np.maximum(self.measured.length[self.carriers], 1)
        result[self.riders] = result[self.carriers] + np.rint(self.ridden * share).astype(np.int64)
        return result

    def _arrival(self, weights: Weights, begin: Ints) -> Ints:
        """When the launch of each operation, in order of streams, lets it begin if points begin then; NEVER without."""
        found = take(begin, self.point, NEVER)
        found += np.where(self.point >= 0, weights.latency, 0)
        return np.maximum(found[self.by_stream], self.fixed)

    def _undelayed(self, weights: Weights) -> Ints:
        """When each point begins if no wait ever waits: sums along strands, which begin one after another."""
        strands = self.strands
        since = weights.host + take(weights.own, strands.follows, 0)
        total = np.empty_like(since)
        total[strands.by_thread] = np.cumsum(since[strands.by_thread])
        follows = strands.follows[strands.first]
        moved = (since[strands.first] + take(total, follows, 0) - total[strands.first]).tolist()
        for number, earlier in enumerate(take(strands.number, follows).tolist()):
            if earlier >= 0:
                moved[number] += moved[earlier]
        return total + np.array(moved, dtype=np.int64)[strands.number]

    def _along_streams(self, weights: Weights) -> tuple[Ints, Ints]:
        """The sums of lengths and distances until each operation, in order of streams, begins and ends."""
        length = weights.length[self.by_stream]
        until_end = np.cumsum(length + weights.distance[self.by_stream])
        return until_end - length, until_end

    def _visit(
        self, weights: Weights, arrival: Ints, until_begin: Ints, until_end: Ints, done: Ints
    ) -> tuple[Ints, Ints]:
        """By how much what is behind each wait is later than its thread alone would be, and the ends of groups.

        thread   |l|l| |== wait 0 ==|--|l|            order: group 0, wait 0, group 1
        stream      [  group 0  ]         [ group 1 ]
        group 0  value = most[0]; ends[0] = at_end[0] + value
        wait 0   delay[0] = ends[0] + after - own_done[0], or what an earlier wait has delayed it by if that is more
        group 1  value = the most of most[1] + delay[0], the value of group 0, ends[needs[1]] + needed_at[1]
        """
        groups, strands = self.groups, self.strands
        if not len(groups.first):
            return np.zeros(len(strands.waiting), dtype=np.int64), np.empty(0, dtype=np.int64)
        most = np.maximum.reduceat(arrival, groups.first).tolist()
        last = np.append(groups.first[1:], len(arrival)) - 1
        at_end = until_end[last].tolist()
        needed_at = (groups.needs_after - until_begin[groups.first]).tolist()
        stream, behind, needs = groups.stream, groups.behind, groups.needs
        asked = weights.waits[strands.waiting].tolist()
        own_done, earlier = done[strands.waiting].tolist(), strands.behind[strands.waiting].tolist()
        delay = [0] * (len(own_done) + 1)  # the last one is that of what is behind no wait
        latest = [NEVER] * (max(stream) + 1)
        ends = [NEVER] * len(at_end)
        for place in groups.order:
            if place >= 0:
                of, need = stream[place], needs[place]
                value = max(most[place] + delay[behind[place]], latest[of])
                if need >= 0:
                    value = max(value, ends[need] + needed_at[place])
                latest[of] = value
                ends[place] = at_end[place] + value
            else:
                number = ~place
                value = delay[earlier[number]]
                if asked[number]:
                    for target, after in groups.targets[number]:
                        value = max(value, ends[target] + after - own_done[number])
                delay[number] = value
        return np.array(delay[:-1], dtype=np.int64), np.array(ends, dtype=np.int64)
