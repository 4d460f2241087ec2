"""How long steps of several ranks would take if the ranks were alike, by replay of what they do between collectives.

    rank 0   --own work--[launch]--own work--(block)........|--own work--[launch]
    rank 1   ------------own work------------[launch](block)|--own work--
                                                    transfer

A rank's time is its own time and what it waits. A plan lists on the axis of its own time where it launches collectives,
where it is blocked until one has ended, and where steps end; to replay plans is to put the waits in. So a plan that is
the mean of those of all ranks is that of a rank that is like all others.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..attribute.intervals import Ints
from ..store.database import Database

LAUNCH, BLOCK, BORDER = range(3)
_MOST_ERROR = 0.05
_MOST_ROWS = 100_000  # members of collectives that are replayed: those of the last steps
_MOST_ALONE, _MOST_POINTS = 64, 2_000_000  # ranks whose share is worked out one by one, and what that may take

_MET = """
    select wait.source_id, source.kind, wait.step, matched.match_id, wait.start_ns, wait.end_ns, wait.wait_ns,
        collective.operation::varchar as operation, coalesce(collective.in_bytes, collective.out_bytes, -1) as bytes
    from _rank_wait as wait
    join source on source.source_id = wait.source_id
    join matched_collective as matched on matched.collective_id = wait.collective_id
    join collective on collective.collective_id = wait.collective_id
    where wait.step is not null and matched.match_id is not null
    order by wait.source_id, wait.start_ns, wait.collective_id"""
_STEPS = """
    select source_id, step, min(start_ns) as start_ns, max(end_ns) as end_ns
    from _step
    semi join _several_ranks using (source_id)
    group by source_id, step
    order by source_id, end_ns"""
_UNMATCHED = """
    select distinct source.kind
    from collective
    join source using (source_id)
    join matched_collective as matched using (collective_id)
    where collective.operation is not null and matched.step is not null and matched.match_id is null
        and collective.operation not in ('send', 'recv')"""


_LATE = """
    select source_id, step, coalesce(
        2 * sum(cause_ns) filter (cause = 'compute') over same_step > sum(cause_ns) over same_step, false
    )
    from _straggler join source using (source_id)
    where is_straggler and step is not null
    window same_step as (partition by source.kind, step)"""


class Milestone(NamedTuple):
    """What happens at a moment of a rank's own time: of which of its collectives, or at the end of which step."""

    own: int
    kind: int
    number: int


@dataclass(frozen=True)
class Member:
    """A rank: its steps, its plan, and of each of its collectives the match and what kind of it it is."""

    source_id: int
    steps: list[int]
    measured: list[int]
    plan: list[Milestone]
    matches: list[int]
    kinds: list[tuple[object, ...]]


@dataclass(frozen=True)
class Meetings:
    """Matched collectives: how many take part, how long each takes from the last arrival on, and if all were alike."""

    member_cnt: Mapping[int, int]
    transfer: Mapping[int, int]
    usual: Mapping[int, int]


def replay(plans: Sequence[list[Milestone]], matches: Sequence[list[int]], cnt: Mapping[int, int],
           transfer: Mapping[int, int]) -> list[list[int]] | None:  # fmt: skip
    """When each rank's steps end if all begin at 0; None where ranks would wait for each other without end."""
    time, own, at = ([0] * len(plans) for _ in range(3))
    borders: list[list[int]] = [[] for _ in plans]
    arrived: dict[int, list[int]] = defaultdict(list)
    done: dict[int, int] = {}
    blocked: dict[int, list[int]] = defaultdict(list)
    ready = deque(range(len(plans)))
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
                if len(arrived[match]) == cnt[match]:
                    done[match] = max(arrived[match]) + transfer[match]
                    ready.extend(blocked.pop(match, ()))
            elif point.kind == BLOCK:
                time[rank] = max(time[rank], done[match])
            else:
                borders[rank].append(time[rank])
    return borders if all(place == len(plan) for place, plan in zip(at, plans, strict=True)) else None


def rows(database: Database) -> pa.Table:
    """The rows of the view _replayed_rank."""
    met, steps = database.columns(_MET), database.columns(_STEPS)
    unmatched = {kind for (kind,) in database.rows(_UNMATCHED)}
    pipelines = {source_id for (source_id,) in database.rows("select source_id from _stage")}
    late = {(source_id, step): is_work for source_id, step, is_work in database.rows(_LATE)}
    found: list[tuple[object, ...]] = []
    for kind in sorted(set(met["kind"].tolist())):
        numbers = sorted(set(met["source_id"][met["kind"] == kind].tolist()))
        members, meetings = _members(met, steps, numbers)
        reason = "collectives are not matched" if kind in unmatched else _reason(members, pipelines)
        found += _of_kind(members, meetings, reason, late)
    names = ("source_id", "step", "measured_ns", "replayed_ns", "ideal_ns", "without_ns", "alone_ns", "reason")
    types = (pa.int32(), *(pa.int64() for _ in range(6)), pa.string())
    columns = list(zip(*found, strict=True)) or [()] * len(names)
    return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})


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
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for one, took in transfer.items():
        alike[sort[one]].append(took)
    usual = {one: int(np.median(alike[sort[one]])) for one in transfer}
    members = []
    for number in numbers:
        mine = chosen & (met["source_id"] == number)
        of = (steps["source_id"] == number) & np.isin(steps["step"], list(common))
        members.append(_member(number, {name: column[mine] for name, column in met.items()},
                               {name: column[of] for name, column in steps.items()}, sort))  # fmt: skip
    return members, Meetings(cnt, transfer, usual)


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
    listed = points(met["start_ns"], LAUNCH, every) + points(met["end_ns"][waited], BLOCK, every[waited])
    listed += points(steps["end_ns"], BORDER, np.arange(len(steps["step"])))
    listed.sort(key=lambda one: (one[0], one[1].kind, one[1].number))
    ends = np.append(first, steps["end_ns"])
    matches = met["match_id"].tolist()
    kinds = [(step, *sort[match]) for step, match in zip(met["step"].tolist(), matches, strict=True)]
    plan = [point for _, point in listed]
    return Member(number, steps["step"].tolist(), np.diff(ends).tolist(), plan, matches, kinds)


def _union(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Stretches of time that do not overlap."""
    order = np.argsort(begin, kind="stable")
    begin, latest = begin[order], np.maximum.accumulate(end[order])
    starts = np.append(True, begin[1:] > latest[:-1])[: len(begin)]
    return begin[starts], latest[np.append(starts[1:], True)[: len(begin)]]


def _reason(members: list[Member], pipelines: set[int]) -> str | None:
    """Why nothing can be said about ranks that were alike."""
    if any(member.source_id in pipelines for member in members):
        return "the stages of a pipeline do different work"
    if len(members) < 2 or not members[0].matches:
        return "no step in which ranks meet"
    if any(member.kinds != members[0].kinds or member.steps != members[0].steps for member in members):
        return "ranks take part in different collectives"
    return None


def _mean(members: list[Member]) -> list[Milestone]:
    """The plan of a rank that is like all: the means, and blocked where at least half are."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for member in members:
        for point in member.plan:
            found[point.kind, point.number].append(point.own)
    mean = {key: round(sum(of) / len(of)) for key, of in found.items() if 2 * len(of) >= len(members)}
    plan = [
        Milestone(max(own, mean[LAUNCH, number]) if kind == BLOCK else own, kind, number)
        for (kind, number), own in mean.items()
    ]
    return sorted(plan)


def _caught_up(members: list[Member], late: Mapping[tuple[int, int], bool]) -> list[list[Milestone]]:
    """The plans, those of ranks in the steps in which they are `late` as the mean of the others in these.

        rank 0   --a--[launch]--b--|        rank 1, late in this step   ----c----[launch]--d--|
        rank 2   --e--[launch]--f--|        as the others               -(a+e)/2-[launch]-----|

    Where it is work that makes them late (the values of `late`), all ranks share it: each is as the mean of all.
    """
    parts = [_by_step(member.plan) for member in members]
    plans: list[list[Milestone]] = [[] for _ in members]
    ends = [0] * len(members)
    for place, step in enumerate(members[0].steps):
        slow = [(member.source_id, step) in late for member in members]
        shares = any(late.get((member.source_id, step)) for member in members)
        others = [part[place] for part, is_slow in zip(parts, slow, strict=True) if shares or not is_slow]
        usual: dict[tuple[int, int], list[int]] = defaultdict(list)
        for point in (point for part in others for point in part):
            usual[point.kind, point.number].append(point.own)
        mean = {key: round(sum(of) / len(of)) for key, of in usual.items() if 2 * len(of) >= len(others)}
        for n, part in enumerate(parts):
            kept = _like(mean, part[place]) if mean and (shares or slow[n]) else part[place]
            plans[n] += [Milestone(ends[n] + point.own, point.kind, point.number) for point in kept]
            ends[n] = plans[n][-1].own
    for n, part in enumerate(parts):
        plans[n] += [Milestone(ends[n] + point.own, point.kind, point.number) for point in part[-1]]
    return plans


def _by_step(plan: list[Milestone]) -> list[list[Milestone]]:
    """The milestones of each step, from its begin on, its border the last; at the end those behind all steps."""
    found: list[list[Milestone]] = [[]]
    begin = 0
    for point in plan:
        found[-1].append(Milestone(point.own - begin, point.kind, point.number))
        if point.kind == BORDER:
            begin = point.own
            found.append([])
    return found


def _like(mean: Mapping[tuple[int, int], int], part: list[Milestone]) -> list[Milestone]:
    """A step with what it launches when others do, and blocked where they are."""
    end = mean[BORDER, part[-1].number]
    launched = {point.number: mean.get((LAUNCH, point.number), min(point.own, end))
                for point in part if point.kind == LAUNCH}  # fmt: skip
    blocked = {number: own for (kind, number), own in mean.items() if kind == BLOCK}
    found = [Milestone(own, LAUNCH, number) for number, own in launched.items()]
    found += [Milestone(max(own, launched.get(number, own)), BLOCK, number) for number, own in blocked.items()]
    return [*sorted(found), Milestone(max([end, *(point.own for point in found)]), BORDER, part[-1].number)]


def _of_kind(
    members: list[Member], meetings: Meetings, reason: str | None, late: Mapping[tuple[int, int], bool]
) -> list[tuple[object, ...]]:
    """The rows of all ranks of a kind."""
    matches = [member.matches for member in members]
    plans = [member.plan for member in members]
    cnt = meetings.member_cnt
    whole = None if reason else _steps(replay(plans, matches, cnt, meetings.transfer))
    measured = np.array([member.measured for member in members]).mean(axis=0) if not reason else np.zeros(1)
    if whole is None:
        reason = reason or "collectives cannot be put in an order"
    elif abs(whole.sum() - measured.sum()) > _MOST_ERROR * measured.sum():
        reason = f"the replay is off by {abs(whole.sum() / measured.sum() - 1):.0%}"
    ideal, without, alone = None, None, dict[int, Ints | None]()
    if reason is None:
        without = _steps(replay(_caught_up(members, late), matches, cnt, meetings.transfer))
        mean = _mean(members)
        ideal = _steps(replay([mean] * len(members), matches, cnt, meetings.usual))
        at_once = min(_MOST_ALONE, 1 + _MOST_POINTS // max(1, sum(map(len, plans))))
        for rank in sorted(range(len(members)), key=lambda n: (-plans[n][-1].own, n))[:at_once]:
            own = set(matches[rank])
            mixed = {one: (meetings.transfer if one in own else meetings.usual)[one] for one in cnt}
            chosen = [plan if n == rank else mean for n, plan in enumerate(plans)]
            alone[rank] = _steps(replay(chosen, matches, cnt, mixed))
    return [
        (
            member.source_id,
            step,
            member.measured[place],
            _at(whole, place),
            _at(ideal, place),
            _at(without, place),
            _at(alone.get(n), place),
            reason,
        )
        for n, member in enumerate(members)
        for place, step in enumerate(member.steps)
    ]


def _steps(borders: list[list[int]] | None) -> Ints | None:
    """The mean length of each step, from the end of the one before."""
    return None if borders is None else np.diff(np.array(borders).mean(axis=0), prepend=0).round().astype(np.int64)


def _at(column: Ints | None, place: int) -> int | None:
    return None if column is None else int(column[place])
