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
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..attribute.intervals import Ints
from ..store.database import Database

LAUNCH, BLOCK, BORDER = range(3)
_MOST_ERROR = 0.05
_QUEUE_NS = 10_000  # what begins so close behind another one of its group was ready before
_MOST_UNMATCHED = 0.1  # of the collectives: what ranks wait in these counts as their own time
_MOST_ROWS = 100_000  # members of collectives that are replayed: those of the last steps
_MOST_ALONE, _MOST_POINTS = 64, 2_000_000  # ranks whose share is worked out one by one, and what that may take

_MET = """
    select wait.source_id, source.kind, wait.step, matched.match_id, wait.start_ns, wait.end_ns, wait.wait_ns,
        coalesce(wait.ready_ns, wait.start_ns) as ready_ns,
        collective.operation::varchar as operation, coalesce(collective.in_bytes, collective.out_bytes, -1) as bytes,
        coalesce(collective.group_name, '') as group_name
    from _rank_wait as wait
    join source on source.source_id = wait.source_id
    join matched_collective as matched on matched.collective_id = wait.collective_id
    join collective on collective.collective_id = wait.collective_id
    where wait.step is not null and matched.match_id is not null
    -- on several streams ranks have them in orders of their own
    order by wait.source_id, wait.step, operation, bytes, collective.group_size, wait.start_ns, wait.collective_id"""
_STEPS = """
    select source_id, step, min(start_ns) as start_ns, max(end_ns) as end_ns
    from _rank_stretch
    where collective_id is null and step is not null
    group by source_id, step
    order by source_id, end_ns"""
_UNMATCHED = """
    select source.kind, matched.step, count(*) filter (matched.match_id is null), count(*)
    from collective
    join source using (source_id)
    join matched_collective as matched using (collective_id)
    where collective.operation is not null and matched.step is not null
        and collective.operation not in ('send', 'recv')
    group by source.kind, matched.step"""
# Of ranks that were recorded in cycles those of one time belong together.
_CYCLES = """
    select kind, cycle, list(source_id order by source_id)
    from (
        select kind, source_id, row_number() over (partition by kind, rank order by start_ns, source_id) as cycle
        from source
        join (
            select source_id, min(start_ns) as start_ns
            from _rank_stretch
            where collective_id is null
            group by source_id
        ) using (source_id)
        where source_id in (select source_id from _rank_wait)
    )
    group by kind, cycle
    order by kind, cycle"""
_LATE = """
    select source_id, step, cause is not distinct from 'exposed communication', coalesce(
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


class Late(NamedTuple):
    """Why a rank is late in a step: by its links; whether in the step it is mostly compute that ranks are late by."""

    by_links: bool
    by_work: bool


@dataclass(frozen=True)
class Meetings:
    """Matched collectives: how many take part, how long each takes from the last arrival on, and if all were alike (the
    median of those of the same operation, group size and bytes, of an even number the lower of the two in the middle);
    behind which other one some member had it queue.
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


def rows(database: Database) -> pa.Table:
    """The rows of the view _replayed_rank."""
    met, steps = database.columns(_MET), database.columns(_STEPS)
    counts = {(kind, step): (missing, cnt) for kind, step, missing, cnt in database.rows(_UNMATCHED)}
    pipelines = {source_id for (source_id,) in database.rows("select source_id from _stage")}
    late = {(source_id, step): Late(*why) for source_id, step, *why in database.rows(_LATE)}
    found: list[tuple[object, ...]] = []
    for kind, _, numbers in database.rows(_CYCLES):
        members, meetings = _members(met, steps, numbers)
        of_steps = [counts.get((kind, step), (0, 0)) for step in members[0].steps]
        is_unmatched = sum(missing for missing, _ in of_steps) > _MOST_UNMATCHED * sum(cnt for _, cnt in of_steps)
        reason = "collectives are not matched" if is_unmatched else _reason(members, pipelines)
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
    median = {what: sorted(took)[(len(took) - 1) // 2] for what, took in alike.items()}
    usual = {one: median[sort[one]] for one in transfer}
    members = []
    for number in numbers:
        mine = chosen & (met["source_id"] == number)
        of = (steps["source_id"] == number) & np.isin(steps["step"], list(common))
        members.append(_member(number, {name: column[mine] for name, column in met.items()},
                               {name: column[of] for name, column in steps.items()}, sort))  # fmt: skip
    behind = {member.matches[n]: member.matches[k] for member in members for n, k in enumerate(member.queued) if k >= 0}
    return members, Meetings(cnt, transfer, usual, behind)


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
    """The plan of a rank that is like all: the means, and blocked where at least half are, as long behind the launch as
    these are.
    """
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for member in members:
        launched = {point.number: point.own for point in member.plan if point.kind == LAUNCH}
        for own, kind, number in member.plan:
            found[kind, number].append(max(0, own - launched[number]) if kind == BLOCK else own)
    mean = {key: round(sum(of) / len(of)) for key, of in found.items() if 2 * len(of) >= len(members)}
    plan = [
        Milestone(mean[LAUNCH, number] + own if kind == BLOCK else own, kind, number)
        for (kind, number), own in mean.items()
    ]
    return sorted(plan)


def _caught_up(members: list[Member], late: Mapping[tuple[int, int], Late]) -> list[list[Milestone]]:
    """The plans, those of ranks on the way to collectives to which they come `late` as the mean of the others there.

        rank 0   --a--[launch]--b--|        rank 1, late in this step   ----c----[launch]--d--|
        rank 2   --e--[launch]--f--|        as the others               -(a+e)/2-[launch]-----|

    Where it is work that makes them late all ranks share it: each is as the mean of all. A way is that to the last
    collective of a step (|), from the one of the step before: what a rank does behind it makes it late for the next.
    """
    steps, parts = _ways(members)
    plans: list[list[Milestone]] = [[] for _ in members]
    ends = [0] * len(members)
    for place, step in enumerate(steps):
        slow = [(member.source_id, step) in late for member in members]
        shares = any(why.by_work for member in members if (why := late.get((member.source_id, step))))
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


def _ways(members: list[Member]) -> tuple[list[int], list[list[list[Milestone]]]]:
    """The steps that have collectives, and of each member the milestones of the way to the last one of each, from the
    one before on; at the end those behind all of them.
    """
    of_step: dict[object, list[int]] = defaultdict(list)
    for number, (step, *_) in enumerate(members[0].kinds):
        of_step[step].append(number)
    found = []
    for member in members:
        numbers = {
            number: 1 + place for place, (_, _, number) in enumerate(member.plan) if member.plan[place].kind != BORDER
        }
        cuts = np.maximum.accumulate([max(numbers[number] for number in of) for of in of_step.values()]).tolist()
        ways, first, begin = [], 0, 0
        for cut in (*cuts, len(member.plan)):
            ways.append([Milestone(own - begin, kind, number) for own, kind, number in member.plan[first:cut]])
            if cut > first:
                first, begin = cut, member.plan[cut - 1].own
        found.append(ways)
    return [int(str(step)) for step in of_step], found


def _like(mean: Mapping[tuple[int, int], int], part: list[Milestone]) -> list[Milestone]:
    """A way with what it launches, and steps that end, when that of others is, and blocked where they are."""
    found = [Milestone(mean.get((kind, number), own), kind, number) for own, kind, number in part if kind != BLOCK]
    launched = {number: own for own, kind, number in found if kind == LAUNCH}
    found += [
        Milestone(max(own, launched.get(number, own)), BLOCK, number)
        for (kind, number), own in mean.items() if kind == BLOCK
    ]  # fmt: skip
    return sorted(found)


def _freed(members: list[Member], meetings: Meetings, late: Mapping[tuple[int, int], Late]) -> dict[int, int]:
    """How long each collective takes: those of ranks whose links make them late no longer than others like it."""
    found = dict(meetings.transfer)
    for member in members:
        for match, (step, *_) in zip(member.matches, member.kinds, strict=True):
            if (why := late.get((member.source_id, int(str(step))))) and why.by_links:
                found[match] = min(found[match], meetings.usual[match])
    return found


def _of_kind(
    members: list[Member], meetings: Meetings, reason: str | None, late: Mapping[tuple[int, int], Late]
) -> list[tuple[object, ...]]:
    """The rows of all ranks of a kind."""
    matches = [member.matches for member in members]
    plans = [member.plan for member in members]
    cnt = meetings.member_cnt
    whole = None if reason else _steps(replay(plans, matches, cnt, meetings.transfer, meetings.behind))
    measured = np.array([member.measured for member in members]).mean(axis=0) if not reason else np.zeros(1)
    if whole is None:
        reason = reason or "collectives cannot be put in an order"
    elif abs(whole.sum() - measured.sum()) > _MOST_ERROR * measured.sum():
        reason = f"the replay is off by {abs(whole.sum() / measured.sum() - 1):.0%}"
    ideal, without, alone = None, None, dict[int, Ints | None]()
    if reason is None:
        without = _steps(
            replay(_caught_up(members, late), matches, cnt, _freed(members, meetings, late), meetings.behind)
        )
        mean = _mean(members)
        ideal = _steps(replay([mean] * len(members), matches, cnt, meetings.usual, meetings.behind))
        at_once = min(_MOST_ALONE, 1 + _MOST_POINTS // max(1, sum(map(len, plans))))
        for rank in sorted(range(len(members)), key=lambda n: (-plans[n][-1].own, n))[:at_once]:
            own = set(matches[rank])
            mixed = {one: (meetings.transfer if one in own else meetings.usual)[one] for one in cnt}
            chosen = [plan if n == rank else mean for n, plan in enumerate(plans)]
            alone[rank] = _steps(replay(chosen, matches, cnt, mixed, meetings.behind))
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
