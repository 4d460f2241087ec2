"""What the advice of findings would save: each rule's gaps, waits, copies and kernels, changed together.

    gap blamed on a late CPU     the call that ended it comes as much earlier as the gap is long
    gap behind a wait            nothing waits there
    exposed copies               copies take no time
    kernels blamed on a rule     they take no time; products in 32 bits what they take in 16

A saving is never more than the limit of its rule (_finding), and a rule that is not here has its limit alone. Where a
part of a trace is replayed (part.py), a rule saves as much of all that it is blamed for as of what lies in the part.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..attribute.intervals import Bools, Ints, take
from ..attribute.replay import Weights
from .changes import Change, apply
from .part import Part
from .scene import Scene

# A part does not stand for the whole where a rule that is blamed for this share of the time is blamed this much more or
# less for what happens in it.
_MUCH, _UNLIKE = 0.005, 1.5
READ = ("_judged_gap", "_blamed_kernel")  # the views that say what rules blame
_GAPS = """
    select list_position({rules}, gap.rule::varchar) - 1 as rule, gap.gpu_op_id, gap.idle_ns,
        gap.cause = 'host' as is_late
    from _judged_gap as gap
    where gap.source_id = {id} and gap.rule in {rules}"""
_KERNELS = """
    select list_position({rules}, blamed.rule) - 1 as rule, blamed.gpu_op_id, blamed.critical_ns,
        if(blamed.rule = 'float32_matmul', blamed.gain_frac, 1)::double as gain
    from _blamed_kernel as blamed
    where blamed.source_id = {id} and blamed.rule in {rules}"""


@dataclass(frozen=True)
class Followed:
    """The weights with the advice of a rule followed in all its places, and the share of its blame that lies there.

    It saves no more than where the advice of others is followed already: `beside`, without and with it.
    """

    weights: Weights
    share: float
    beside: tuple[Weights, Weights] | None = None


def rules(scene: Scene, part: Part | None = None) -> dict[str, Followed] | None:
    """The advice of each rule of a source followed; None where the part that is replayed does not stand for all."""

    def asked(statement: str, names: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
        return scene.database.columns(statement.format(id=scene.trace.source_id, rules=list(names)))

    if not len(scene.work):
        return {}
    measured = scene.trace.graph.measured
    found: dict[str, Followed] = {}
    for statement, names, blame in ((_GAPS, _FOLLOWED, "idle_ns"), (_KERNELS, _OF_KERNELS, "critical_ns")):
        rows = asked(statement, names)
        place = scene.trace.place_of(rows["gpu_op_id"])
        for number, name in enumerate(names):
            mine = np.flatnonzero(rows["rule"] == number)
            if not mine.size:
                continue
            here = mine[place[mine] >= 0]
            share = _share(scene, part, place[mine], rows[blame][mine])
            if share is None:
                return None
            if not share:  # next to nothing, and none of it here
                continue
            if statement is _GAPS:
                gaps = _Gaps(place[here], rows["idle_ns"][here], rows["is_late"][here].astype(bool))
                found[name] = Followed(_FOLLOWED[name](scene, measured, gaps), share)
            else:
                found[name] = Followed(_faster(measured, place[here], rows["gain"][here]), share)
    # a copy that blocks is exposed as well, and costs its time once
    waits = [found[name].weights.waits for name in _OF_COPIES if name in found]
    unblocked = replace(measured, waits=np.logical_and.reduce(waits)) if waits else None
    for name, change in _EVERYWHERE.items():
        weights = apply(scene, measured, [change])
        if weights is None:
            continue
        both = None if unblocked is None else apply(scene, unblocked, [change])
        beside = None if unblocked is None or both is None else (unblocked, both)
        found[name] = Followed(weights, 1 if part is None else part.share, beside)
    return found


def _share(scene: Scene, part: Part | None, place: Ints, blamed: npt.NDArray[Any]) -> float | None:
    """How much of what a rule is blamed for lies in the judged steps of a part; None for far from its share of time."""
    if part is None:
        return 1
    is_judged = (place >= 0) & (take(scene.work.start, place) >= part.first_ns)
    share = float(blamed[is_judged].sum() / blamed.sum()) if blamed.sum() else 0.0
    is_much = blamed.sum() > _MUCH * part.judged_ns
    return None if is_much and not part.share / _UNLIKE < share < part.share * _UNLIKE else share


@dataclass(frozen=True)
class _Gaps:
    """Idle gaps: the operations that ended them, how long they are, whether the CPU was late with the launch."""

    place: Ints
    idle: Ints
    is_late: Bools

    def of(self, chosen: Bools) -> "_Gaps":
        """Some of them."""
        return _Gaps(self.place[chosen], self.idle[chosen], self.is_late[chosen])


def _closed(scene: Scene, weights: Weights, gaps: _Gaps) -> Weights:
    """The CPU launches these operations so much earlier; those that were launched in time begin so much earlier."""
    is_late = gaps.is_late & (scene.work.point[gaps.place] >= 0)
    late, waited = gaps.of(is_late), gaps.of(~is_late)
    host, own, launching = _spared(scene, weights, late)
    distance, latency = weights.distance.copy(), weights.latency.copy()
    latency[late.place] -= np.clip(launching, 0, np.maximum(latency[late.place], 0))
    distance[waited.place] -= np.clip(waited.idle, 0, np.maximum(distance[waited.place], 0))
    latency[waited.place] -= np.clip(waited.idle, 0, np.maximum(latency[waited.place], 0))
    return replace(weights, host=weights.host - host, own=weights.own - own, distance=distance, latency=latency)


def _spared(scene: Scene, weights: Weights, gaps: _Gaps) -> tuple[Ints, Ints, Ints]:
    """Of each point how much of the CPU's time before it, and of its own, lies in gaps; of each gap its launch's own.

    gap            |------------------------------|      back to its begin, or the wait that it began in;
    CPU     [own a]----host b----[own b]--host c--[c]    devices that are idle at once do not add up

    A wait inside of a gap waited for nothing: what the CPU did before it is late, too.
    """
    host, own = np.zeros(len(weights.host), dtype=np.int64), np.zeros(len(weights.own), dtype=np.int64)
    at = scene.work.point[gaps.place]
    before = np.clip(scene.points.begin[at] - scene.work.start[gaps.place] + gaps.idle, 0, gaps.idle)
    launching = np.minimum(gaps.idle - before, weights.own[at])
    np.maximum.at(own, at, launching)
    left, since = before, scene.work.start[gaps.place] - gaps.idle
    while (more := left > 0).any():
        at, left, since = at[more], left[more], since[more]
        spent = np.minimum(left, np.maximum(weights.host[at], 0))
        np.maximum.at(host, at, spent)
        left, at = left - spent, scene.trace.graph.chains.follows[at]
        left[at < 0] = 0
        spent = np.minimum(left, weights.own[at])
        np.maximum.at(own, at, spent)
        left -= spent
        left[weights.waits[at] & (scene.points.begin[at] < since)] = 0
    return host, own, launching


def _not_waiting(scene: Scene, weights: Weights, gaps: _Gaps) -> Weights:
    """Nothing waits that returned in these gaps: a copy that blocks, and the synchronisation behind it."""
    chains, end = scene.trace.graph.chains, scene.points.end
    point, since = scene.work.point[gaps.place], scene.work.start[gaps.place] - gaps.idle
    ((slack,),) = scene.database.rows("select value from threshold where name = 'clock_slack_ns'")
    waits = weights.waits.copy()
    wait = take(chains.behind, point)
    while True:
        call = take(chains.waiting, wait)
        fits = (call >= 0) & (take(end, call) >= since - slack)
        call, since = call[fits], since[fits]
        if not call.size:
            return replace(weights, waits=waits)
        waits[call] = False
        wait = chains.behind[call]


def _faster(weights: Weights, place: Ints, gain: npt.NDArray[np.float64]) -> Weights:
    """These operations take so much less of their time."""
    length = weights.length.copy()
    length[place] -= np.rint(length[place] * gain).astype(np.int64)
    return replace(weights, length=length)


_Followed = Callable[[Scene, Weights, _Gaps], Weights]
_FOLLOWED: dict[str, _Followed] = {
    "late_input": _closed,
    "launch_bound_range": _closed,
    "long_idle_gap": _closed,
    "long_dependency": _closed,
    "recompilation": _closed,
    "synchronisation": _not_waiting,
    "blocking_copy": _not_waiting,
    "pageable_async_copy": _not_waiting,
}
_OF_KERNELS = ("math_attention", "float32_matmul", "layout_conversion", "unfused_elementwise")
_OF_COPIES = ("blocking_copy", "pageable_async_copy")
_EVERYWHERE = {"exposed_copy": Change("hide-copies", "*")}
