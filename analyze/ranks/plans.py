"""What ranks do between their collectives, as plans on the axis of each rank's own time, and the replay of plans.

    rank 0   --own work--[launch]--own work--(block)........|--own work--[launch]
    rank 1   ------------own work------------[launch](block)|--own work--
                                                    transfer

A rank's time is its own time and what it waits. A plan lists on the axis of its own time where it launches collectives,
where it is blocked until one has ended, and where steps end; to replay plans is to put the waits in.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..attribute.intervals import Ints
from ..store.database import Database

LAUNCH, BLOCK, BORDER = range(3)
_QUEUE_NS = 10_000  # what begins so close behind another one of its group was ready before
_MOST_ROWS = 100_000  # members of collectives that are replayed: those of the last steps

_MET = """
    select source_id, step, match_id, start_ns, end_ns, wait_ns, ready_ns, operation, bytes, group_name
    from _planned_meeting
    -- on several streams ranks have them in orders of their own
    order by source_id, step, operation, bytes, group_size, start_ns, collective_id"""
_STEPS = "select source_id, step, start_ns, end_ns from _planned_step order by source_id, end_ns"
_CYCLES = """
    select kind, cycle, list(source_id order by source_id)
    from _planned_cycle
    group by kind, cycle
    order by kind, cycle"""


class Milestone(NamedTuple):
    """What happens at a moment of a rank's own time: of which of its collectives, or at the end of which step."""

    own: int
    kind: int
    number: int


@dataclass(frozen=True)
class Member:
    """A rank: its steps, its plan, and of each of its collectives the match, what kind of it it is, and behind which
    other one of the group it had to queue (-1: none).
    """

    source_id: int
    steps: list[int]
    measured: list[int]
    plan: list[Milestone]
    matches: list[int]
    kinds: list[tuple[object, ...]]
    queued: list[int]


@dataclass(frozen=True)
class Meetings:
    """Matched collectives: how many take part, how long each takes from the last arrival on, and if all were alike (as
    _usual says); behind which other one some member had it queue.
    """

    member_cnt: Mapping[int, int]
    transfer: Mapping[int, int]
    usual: Mapping[int, int]
    behind: Mapping[int, int] = field(default_factory=dict)


def replay(plans: Sequence[list[Milestone]], matches: Sequence[list[int]], cnt: Mapping[int, int],
           transfer: Mapping[int, int], behind: Mapping[int, int] | None = None) -> list[list[int]] | None:  # fmt: skip
    """When each rank's steps end if all begin at 0; None where ranks would wait for each other without end.

    A collective ends when all of its members have come and the one that it is `behind` has ended, and a transfer later.
    """
    time, own, at = ([0] * len(plans) for _ in range(3))
    borders: list[list[int]] = [[] for _ in plans]
    arrived: dict[int, list[int]] = defaultdict(list)
    done: dict[int, int] = {}
    blocked: dict[int, list[int]] = defaultdict(list)
    queued: dict[int, list[int]] = defaultdict(list)
    ready = deque(range(len(plans)))

    def end(match: int) -> None:
        """Let a collective end if all is there that it needs, and those that wait for it go on."""
        before = (behind or {}).get(match, -1)
        if len(arrived[match]) < cnt[match] or match in done:
            return
        if before >= 0 and before not in done:
            queued[before].append(match)
            return
        done[match] = max(*arrived[match], done.get(before, 0)) + transfer[match]
        ready.extend(blocked.pop(match, ()))

    while ready:
        rank = ready.popleft()
        while at[rank] < len(plans[rank]):
            point = plans[rank][at[rank]]
            match = matches[rank][point.number] if point.kind != BORDER else -1
            if point.kind == BLOCK and match not in done:
                blocked[match].append(rank)
                break
            at[rank] += 1
            time[rank] += max(0, point.own - own[rank])
            own[rank] = max(own[rank], point.own)
            if point.kind == LAUNCH:
                arrived[match].append(time[rank])
                ended = [match]
                while ended:  # in a queue one ends behind the other
                    end(match := ended.pop())
                    if match in done:
                        ended += queued.pop(match, ())
            elif point.kind == BLOCK:
                time[rank] = max(time[rank], done[match])
            else:
                borders[rank].append(time[rank])
    return borders if all(place == len(plan) for place, plan in zip(at, plans, strict=True)) else None


def fetch(database: Database) -> Iterator[tuple[str, list[Member], Meetings]]:
    """The kind of inputs, the ranks and their meetings of each cycle of the profiler."""
    met, steps = database.columns(_MET), database.columns(_STEPS)
    for kind, _, numbers in database.rows(_CYCLES):
        yield kind, *_members(met, steps, numbers)


def _members(met: Mapping[str, Ints], steps: Mapping[str, Ints], numbers: list[int]) -> tuple[list[Member], Meetings]:
    """The ranks of a kind, in the last steps that all of them have."""
    common = set.intersection(*(set(steps["step"][steps["source_id"] == n].tolist()) for n in numbers))
    chosen = np.isin(met["source_id"], numbers) & np.isin(met["step"], list(common))
    found, row_cnt = np.unique(met["step"][chosen], return_counts=True)
    few = found[np.cumsum(row_cnt[::-1])[::-1] <= _MOST_ROWS].tolist()
    common = {step for step in common if few and step >= few[0]}
    chosen &= np.isin(met["step"], list(common))
    match = met["match_id"][chosen].tolist()
    length = (met["end_ns"] - met["start_ns"])[chosen].tolist()
    said = list(zip(met["operation"][chosen].tolist(), met["bytes"][chosen].tolist(), strict=True))
    cnt: dict[int, int] = defaultdict(int)
    transfer: dict[int, int] = {}
    for one, took in zip(match, length, strict=True):
        cnt[one] += 1
        transfer[one] = min(transfer.get(one, took), took)
    sort = {one: (cnt[one], *what) for one, what in zip(match, said, strict=True)}
    whose: dict[int, tuple[int, ...]] = defaultdict(tuple)
    for one, source_id in zip(match, met["source_id"][chosen].tolist(), strict=True):
        whose[one] += (source_id,)
    of_step = dict(zip(match, met["step"][chosen].tolist(), strict=True))
    usual = _usual(transfer, {one: (of_step[one], *what) for one, what in sort.items()}, whose)
    members = []
    for number in numbers:
        mine = chosen & (met["source_id"] == number)
        of = (steps["source_id"] == number) & np.isin(steps["step"], list(common))
        members.append(_member(number, {name: column[mine] for name, column in met.items()},
                               {name: column[of] for name, column in steps.items()}, sort))  # fmt: skip
    behind = {member.matches[n]: member.matches[k] for member in members for n, k in enumerate(member.queued) if k >= 0}
    return members, Meetings(cnt, transfer, usual, behind)


def _usual(
    transfer: Mapping[int, int], sort: Mapping[int, tuple[object, ...]], whose: Mapping[int, tuple[int, ...]]
) -> dict[int, int]:
    """How long collectives take if groups were alike: the first ones of a sort (step, operation, size, bytes) of all
    groups as long as their median, and so on; of an even number the lower of the two in the middle.

    What makes those of all ranks take long, as a network that is slow for a while, makes no rank unlike the others.
    """
    counted: dict[tuple[object, ...], int] = defaultdict(int)
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for one in transfer:
        counted[whose[one], *sort[one]] += 1
        alike[counted[whose[one], *sort[one]], *sort[one]].append(one)
    return {
        one: sorted(transfer[other] for other in peers)[(len(peers) - 1) // 2]
        for peers in alike.values() for one in peers
    }  # fmt: skip


def _member(
    number: int, met: Mapping[str, Ints], steps: Mapping[str, Ints], sort: Mapping[int, tuple[object, ...]]
) -> Member:
    begin, waited = met["end_ns"] - met["wait_ns"], met["wait_ns"] > 0
    from_ns, to_ns = _union(begin[waited], met["end_ns"][waited])
    first = int(steps["start_ns"].min(initial=0 if not len(steps["start_ns"]) else steps["start_ns"][0]))

    def own(time: Ints) -> Ints:
        """The rank's own time at moments: without what it has waited by then."""
        before = np.append(0, np.cumsum(to_ns - from_ns))
        place = np.searchsorted(from_ns, time, side="right")
        inside = np.maximum(0, np.append(to_ns, 0)[place - 1] - time) * (place > 0)
        spent: Ints = np.maximum(0, time - first - before[place] + inside)
        return spent

    def points(time: Ints, kind: int, numbers: Ints) -> list[tuple[int, Milestone]]:
        moments = zip(time.tolist(), own(time).tolist(), numbers.tolist(), strict=True)
        return [(at, Milestone(mine, kind, number)) for at, mine, number in moments]

    every = np.arange(len(met["start_ns"]))
    queued = _queued(met)
    # b1---|b2......|b3    nobody saw when the rank was ready for b2 and b3: when what it had launched before was done
    came = np.where(queued >= 0, np.minimum(met["ready_ns"], met["start_ns"]), met["start_ns"])
    listed = points(came, LAUNCH, every) + points(met["end_ns"][waited], BLOCK, every[waited])
    listed += points(steps["end_ns"], BORDER, np.arange(len(steps["step"])))
    listed.sort(key=lambda one: (one[0], one[1].kind, one[1].number))
    ends = np.append(first, steps["end_ns"])
    matches = met["match_id"].tolist()
    kinds = [(step, *sort[match]) for step, match in zip(met["step"].tolist(), matches, strict=True)]
    plan = [point for _, point in listed]
    return Member(number, steps["step"].tolist(), np.diff(ends).tolist(), plan, matches, kinds, queued.tolist())


def _queued(met: Mapping[str, Ints]) -> Ints:
    """Behind which one of its group and operation each collective had to queue on the device, -1: it had not."""
    found = np.full(len(met["start_ns"]), -1)
    last: dict[tuple[str, str], int] = {}
    for place in np.argsort(met["start_ns"], kind="stable").tolist():
        queue = met["group_name"][place], met["operation"][place]
        before = last.get(queue, -1)
        if before >= 0 and abs(met["start_ns"][place] - met["end_ns"][before]) <= _QUEUE_NS:
            found[place] = before
        last[queue] = place
    return found


def _union(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Stretches of time that do not overlap."""
    order = np.argsort(begin, kind="stable")
    begin, latest = begin[order], np.maximum.accumulate(end[order])
    starts = np.append(True, begin[1:] > latest[:-1])[: len(begin)]
    return begin[starts], latest[np.append(starts[1:], True)[: len(begin)]]
