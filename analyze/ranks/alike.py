"""How long steps of several ranks would take if the ranks were alike, by replay of what they do between collectives.

A plan (plans.py) that is the mean of those of all ranks is that of a rank that is like all others.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..attribute.intervals import Ints
from ..store.database import Database
from .plans import BLOCK, BORDER, LAUNCH, Meetings, Member, Milestone, fetch, replay

_MOST_ERROR = 0.05
_MOST_UNMATCHED = 0.1  # of the collectives, of all steps or of one: what ranks wait in these counts as their own time
_UNMATCHED_REASON = "collectives are not matched"
_MOST_ALONE, _MOST_POINTS = 64, 2_000_000  # ranks whose share is worked out one by one, and what that may take

_UNMATCHED = "select kind, step, unmatched_cnt, collective_cnt from _unmatched_step"


class Late(NamedTuple):
    """Why a rank is late in a step: by its links; whether in the step it is mostly compute that ranks are late by."""

    by_links: bool
    by_work: bool


def rows(database: Database) -> pa.Table:
    """The rows of the view _replayed_rank."""
    counts = {(kind, step): (missing, cnt) for kind, step, missing, cnt in database.rows(_UNMATCHED)}
    pipelines = {source_id for (source_id,) in database.rows("select source_id from _stage")}
    late_steps = database.rows_of("_late_step").to_pylist()
    late = {(row["source_id"], row["step"]): Late(row["is_by_links"], row["is_by_work"]) for row in late_steps}
    found: list[tuple[object, ...]] = []
    for kind, members, meetings in fetch(database):
        of_steps = {step: counts[kind, step] for step in members[0].steps if (kind, step) in counts}
        of_all = (sum(missing for missing, _ in of_steps.values()), sum(cnt for _, cnt in of_steps.values()))
        unmatched = {step for step, of_step in of_steps.items() if _is_unmatched(*of_step)}
        reason = _UNMATCHED_REASON if _is_unmatched(*of_all) else _reason(members, pipelines)
        found += _of_kind(members, meetings, reason, late, unmatched)
    names = ("source_id", "step", "measured_ns", "replayed_ns", "ideal_ns", "without_ns", "alone_ns",
             "without_transfer_ns", "reason")  # fmt: skip
    types = (pa.int32(), *(pa.int64() for _ in range(7)), pa.string())
    columns = list(zip(*found, strict=True)) or [()] * len(names)
    return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})


def _is_unmatched(missing: int, cnt: int) -> bool:
    return missing > _MOST_UNMATCHED * cnt


def _reason(members: list[Member], pipelines: set[int]) -> str | None:
    """Why nothing can be said about ranks that were alike."""
    if any(member.source_id in pipelines for member in members):
        return "the stages of a pipeline do different work"
    if len(members) < 2 or not members[0].matches:
        return "no step in which ranks meet"
    if any(member.kinds != members[0].kinds or member.steps != members[0].steps for member in members):
        return "ranks take part in different collectives"
    return None


def _usual(parts: Collection[list[Milestone]]) -> dict[tuple[int, int], int]:
    """When each milestone is on average, and blocked where at least half are, as long behind the launch as they."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for part in parts:
        launched = {point.number: point.own for point in part if point.kind == LAUNCH}
        for own, kind, number in part:
            found[kind, number].append(max(0, own - launched[number]) if kind == BLOCK else own)
    mean = {key: round(sum(of) / len(of)) for key, of in found.items() if 2 * len(of) >= len(parts)}
    return {
        (kind, number): mean[LAUNCH, number] + own if kind == BLOCK else own for (kind, number), own in mean.items()
    }


def _mean(members: list[Member]) -> list[Milestone]:
    """The plan of a rank that is like all."""
    usual = _usual([member.plan for member in members])
    return sorted(Milestone(own, kind, number) for (kind, number), own in usual.items())


def _caught_up(members: list[Member], late: Mapping[tuple[int, int], Late]) -> list[list[Milestone]]:
    """The plans, those of ranks on the way to collectives to which they come `late` as the mean of the others there.

        rank 0   --a--[launch]--b--|        rank 1, late in this step   ----c----[launch]--d--|
        rank 2   --e--[launch]--f--|        as the others               -(a+e)/2-[launch]-----|

    Where it is work that makes them late all ranks share it: each is as the mean of all. A way is that to the last
    collective of a step (|), from the one of the step before: what a rank does behind it makes it late for the next.
    A step ends some time behind its last collective, or before it where a CPU that is late ends it while the device has
    still to come there: that is as for the others if the rank is late on one way or the other.
    """
    steps, ways = _ways(members)
    of = [[late.get((member.source_id, step)) for member in members] for step in steps]
    none: list[Late | None] = [None] * len(members)
    plans: list[list[Milestone]] = [[] for _ in members]
    ends = [0] * len(members)
    for parts, before, here in zip(ways, [none, *of], [*of, none], strict=True):
        borders = [[point for point in part if point.kind == BORDER] for part in parts]
        met = [[point for point in part if point.kind != BORDER] for part in parts]
        either = [first or other for first, other in zip(here, before, strict=True)]
        for n, (kept, behind) in enumerate(zip(_as_others(met, here), _as_others(borders, either), strict=True)):
            plans[n] += [Milestone(ends[n] + own, kind, number) for own, kind, number in (*kept, *behind)]
            ends[n] += _last_launch(kept)
    return [_in_order(plan, member.plan) for plan, member in zip(plans, members, strict=True)]


def _as_others(parts: list[list[Milestone]], late: list[Late | None]) -> list[list[Milestone]]:
    """A way of each rank, those of ranks that are late there as the mean of the others, of all if it is work."""
    shares = any(why.by_work for why in late if why)
    usual = _usual([part for part, why in zip(parts, late, strict=True) if shares or not why])
    return [_like(usual, part) if usual and (shares or why) else part for part, why in zip(parts, late, strict=True)]


def _like(usual: Mapping[tuple[int, int], int], part: list[Milestone]) -> list[Milestone]:
    """A way with what it launches, and steps that end, when that of others is, and blocked where they are."""
    found = [Milestone(usual.get((kind, number), own), kind, number) for own, kind, number in part if kind != BLOCK]
    return found + [Milestone(own, kind, number) for (kind, number), own in usual.items() if kind == BLOCK]


def _in_order(plan: list[Milestone], measured: list[Milestone]) -> list[Milestone]:
    """A plan in the order of its own time, what is at one moment as it was measured; a block behind its launch."""
    places = {(point.kind, point.number): place for place, point in enumerate(measured)}

    def order(point: Milestone) -> tuple[int, int, int]:
        place = places.get((point.kind, point.number))
        return point.own, places[LAUNCH, point.number] if place is None else place, point.kind

    return sorted(plan, key=order)


def _ways(members: list[Member]) -> tuple[list[int], list[list[list[Milestone]]]]:
    """The steps that have collectives, and for each of them the way of each member to the last one of it, from the one
    before on; at the end that behind all of them.

    What belongs to a way is the same for all: what is launched and waited for of the collectives of its step, and the
    ends of steps from the one before it on, however a rank comes to them.
    """
    steps = sorted({int(str(step)) for step, *_ in members[0].kinds})
    of_match = np.searchsorted(steps, [int(str(step)) for step, *_ in members[0].kinds])
    of_step = np.searchsorted(steps, members[0].steps, side="right")
    ways: list[list[list[Milestone]]] = [[[] for _ in members] for _ in range(len(steps) + 1)]
    for n, member in enumerate(members):
        for point in member.plan:
            ways[(of_step if point.kind == BORDER else of_match)[point.number]][n].append(point)
        begin = 0
        for way in ways:
            way[n] = [Milestone(own - begin, kind, number) for own, kind, number in way[n]]
            begin += _last_launch(way[n])
    return steps, ways


def _last_launch(way: list[Milestone]) -> int:
    return max((point.own for point in way if point.kind == LAUNCH), default=0)


def _freed(members: list[Member], meetings: Meetings, late: Mapping[tuple[int, int], Late]) -> dict[int, int]:
    """How long each collective takes: those of ranks whose links make them late no longer than others like it."""
    found = dict(meetings.transfer)
    for member in members:
        for match, (step, *_) in zip(member.matches, member.kinds, strict=True):
            if (why := late.get((member.source_id, int(str(step))))) and why.by_links:
                found[match] = min(found[match], meetings.usual[match])
    return found


def _of_kind(
    members: list[Member],
    meetings: Meetings,
    reason: str | None,
    late: Mapping[tuple[int, int], Late],
    unmatched: Collection[object],
) -> list[tuple[object, ...]]:
    """The rows of all ranks of a kind. Of steps that are `unmatched` no more is said than how long they are."""
    matches = [member.matches for member in members]
    plans = [member.plan for member in members]
    cnt = meetings.member_cnt
    whole = None if reason else _steps(replay(plans, matches, cnt, meetings.transfer, meetings.behind))
    measured = np.array([member.measured for member in members]).mean(axis=0) if not reason else np.zeros(1)
    if whole is None:
        reason = reason or "collectives cannot be put in an order"
    elif abs(whole.sum() - measured.sum()) > _MOST_ERROR * measured.sum():
        reason = f"the replay is off by {abs(whole.sum() / measured.sum() - 1):.0%}"
    ideal, without, at_no_cost, alone = None, None, None, dict[int, Ints | None]()
    if reason is None:
        without = _steps(
            replay(_caught_up(members, late), matches, cnt, _freed(members, meetings, late), meetings.behind)
        )
        at_no_cost = _steps(replay(plans, matches, cnt, dict.fromkeys(meetings.transfer, 0), meetings.behind))
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
            *(None if step in unmatched else _at(of, place) for of in (ideal, without, alone.get(n), at_no_cost)),
            reason or (_UNMATCHED_REASON if step in unmatched else None),
        )
        for n, member in enumerate(members)
        for place, step in enumerate(member.steps)
    ]


def _steps(borders: list[list[int]] | None) -> Ints | None:
    """The mean length of each step, from the end of the one before."""
    return None if borders is None else np.diff(np.array(borders).mean(axis=0), prepend=0).round().astype(np.int64)


def _at(column: Ints | None, place: int) -> int | None:
    return None if column is None else int(column[place])
