"""What the advice of findings would save: each rule's gaps, waits, copies and kernels, changed together.

    gap blamed on a late CPU     the call that ended it comes as much earlier as the gap is long
    gap behind a wait            nothing waits there; and then what the CPU did in it takes no time ('host_work'), or
                                 nothing waits anywhere, but for a queue that is full ('lost_lead')
    exposed copies               copies take no time, pinned where pageable memory is slower than the link; and run
                                 beside other work, on the link they have ('hidden_copy')
    kernels blamed on a rule     they take no time; products in 32 bits what they take in 16
    exposed communication        it takes no time: what hiding it saves is no more, and where other ranks are late less
    all kernels                  they take no time, or a tenth less: no advice, but what the verdict is held against

A saving is never more than the limit of its rule (_finding), and a rule that is not here has its limit alone. Where a
part of a trace is replayed (part.py), a rule saves as much of all that it is blamed for as of what lies in the part.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from ..attribute.cover import Cover
from ..attribute.intervals import Bools, Ints, take
from ..attribute.replay import Weights
from .changes import Change, apply
from .part import Part
from .scene import Scene

# A part does not stand for the whole where a rule that is blamed for this share of the time is blamed this much more or
# less for what happens in it.
_MUCH, _UNLIKE = 0.005, 1.5
_GAPS = """
    select list_position({rules}, rule::varchar) as rule, gpu_op_id, idle_ns as ns, cause = 'host' as is_late,
        1::double as gain
    from _judged_gap
    where source_id = {id} and rule in {rules}"""
_INPUT = "select process, start_ns, end_ns from merged('_data_range') where source_id = {id}"
_KERNELS = """
    select list_position({rules}, rule) as rule, gpu_op_id, critical_ns as ns, false as is_late,
        if(rule = 'float32_matmul', gain_frac, 1)::double as gain
    from _blamed_kernel
    where source_id = {id} and rule in {rules}"""


@dataclass(frozen=True)
class Followed:
    """The weights with the advice of a rule followed in all its places, and the share of its blame that lies there.

    It saves no more than where the advice of others is followed already: `beside`, without and with it. And all takes
    `least_ns`, or more. Where others save less each than all of them together, what it saves `alone` counts, less what
    each of them saves.
    """

    weights: Weights
    share: float
    beside: tuple[Weights, Weights] | None = None
    least_ns: int = 0
    alone: Weights | None = None


def rules(scene: Scene, part: Part | None = None) -> dict[str, Followed] | None:
    """The advice of each rule of a source followed; None where the part that is replayed does not stand for all."""
    if not len(scene.work):
        return {}
    measured = scene.trace.graph.measured
    gaps, kernels = _blamed(scene, _GAPS), _blamed(scene, _KERNELS)
    found: dict[str, Followed] = {}
    for name in _RULES:
        blamed = (gaps if name in _FOLLOWED else kernels).of(name)
        share = _share(scene, part, blamed)
        if share is None:
            return None
        if share:  # else next to nothing, and none of it here
            found[name] = Followed(_FOLLOWED.get(name, _faster)(scene, measured, blamed.here()), share)
    if (unwaiting := _without(measured, found, OF_WAITS)) is not None:
        worked = gaps.of(*OF_WAITS).only(lambda blamed: blamed.is_late)
        share = _share(scene, part, worked)
        if share is None:
            return None
        idle = _closed(scene, unwaiting, worked.here())
        alone = _closed(scene, measured, worked.here())
        found["host_work"] = Followed(idle, share or 1, (unwaiting, idle), alone=alone)
    before = measured if unwaiting is None else unwaiting
    ahead = replace(measured, waits=measured.waits & scene.is_queue)
    if (before.waits & ~ahead.waits).any():
        found["lost_lead"] = Followed(ahead, 1 if part is None else part.share, (before, ahead))
    communication = scene.of_class("communication")
    computing = scene.trace.is_kernel | scene.of_class("graph")  # one that is recorded whole
    for name, chosen, factor in (
        ("kernels", computing, 0.0),
        ("kernels_a_tenth", computing, 0.9),
        ("exposed_communication", communication, 0.0),
    ):
        if chosen.any():
            length = np.where(chosen, np.rint(measured.length * factor).astype(np.int64), measured.length)
            found[name] = Followed(replace(measured, length=length), 1 if part is None else part.share)
    # a copy that blocks is exposed as well, and costs its time once
    unblocked = _without(measured, found, _OF_COPIES)
    pinned = [_PINNED] if len(scene.pinned_copies()[0]) else []
    weights = apply(scene, measured, [*pinned, _NO_COPIES])
    both = None if unblocked is None else apply(scene, unblocked, [*pinned, _NO_COPIES])
    if weights is not None:
        beside = None if unblocked is None or both is None else (unblocked, both)
        found["exposed_copy"] = Followed(weights, 1 if part is None else part.share, beside)
        least_ns = scene.link_ns(apply(scene, measured, pinned) or measured)
        found["hidden_copy"] = replace(found["exposed_copy"], least_ns=least_ns)
    return found


@dataclass(frozen=True)
class _Blamed:
    """What rules blame: operations (kernels, or what ended an idle gap), and for how long.

    `is_late` is whether the CPU was late with the launch, `gain` the share of a kernel's time that goes.
    """

    rule: Ints  # its place in _RULES, from 1 on
    place: Ints  # in the part of the trace that is replayed, NONE outside
    ns: Ints
    is_late: Bools
    gain: npt.NDArray[np.float64]

    def only(self, chosen: Callable[["_Blamed"], Bools]) -> "_Blamed":
        """Those of them for which it is true."""
        is_chosen = chosen(self)
        return _Blamed(*(getattr(self, field.name)[is_chosen] for field in fields(self)))

    def of(self, *names: str) -> "_Blamed":
        """Those of some rules."""
        return self.only(lambda blamed: np.isin(blamed.rule, [_RULES.index(name) + 1 for name in names]))

    def here(self) -> "_Blamed":
        """Those in the part that is replayed."""
        return self.only(lambda blamed: blamed.place >= 0)


def _blamed(scene: Scene, statement: str) -> _Blamed:
    rows = scene.database.columns(statement.format(id=scene.trace.source_id, rules=list(_RULES)))
    place = scene.trace.place_of(rows["gpu_op_id"])
    return _Blamed(rows["rule"], place, rows["ns"], rows["is_late"].astype(bool), rows["gain"])


def _without(weights: Weights, found: dict[str, Followed], names: Iterable[str]) -> Weights | None:
    """Nothing waits where the advice of these rules says so; None where there are none of them."""
    waits = [found[name].weights.waits for name in names if name in found]
    return replace(weights, waits=np.logical_and.reduce(waits)) if waits else None


def _share(scene: Scene, part: Part | None, blamed: _Blamed) -> float | None:
    """How much of what is blamed lies in the judged steps of a part; None for far from its share of time."""
    if part is None or not blamed.ns.size:
        return float(blamed.ns.size > 0)
    is_judged = (blamed.place >= 0) & (take(scene.work.start, blamed.place) >= part.first_ns)
    share = float(blamed.ns[is_judged].sum() / blamed.ns.sum()) if blamed.ns.sum() else 0.0
    is_much = blamed.ns.sum() > _MUCH * part.judged_ns
    return None if is_much and not part.share / _UNLIKE < share < part.share * _UNLIKE else share


def _closed(scene: Scene, weights: Weights, gaps: _Blamed) -> Weights:
    """The CPU launches these operations so much earlier; those that were launched in time begin so much earlier."""
    is_late = gaps.is_late & (scene.work.point[gaps.place] >= 0)
    late, waited = gaps.only(lambda _: is_late), gaps.only(lambda _: ~is_late)
    host, own, launching = _spared(scene, weights, late)
    distance, latency = weights.distance.copy(), weights.latency.copy()
    latency[late.place] -= np.clip(launching, 0, np.maximum(latency[late.place], 0))
    distance[waited.place] -= np.clip(waited.ns, 0, np.maximum(distance[waited.place], 0))
    latency[waited.place] -= np.clip(waited.ns, 0, np.maximum(latency[waited.place], 0))
    return replace(weights, host=weights.host - host, own=weights.own - own, distance=distance, latency=latency)


def _spared(scene: Scene, weights: Weights, gaps: _Blamed) -> tuple[Ints, Ints, Ints]:
    """Of each point how much of the CPU's time before it, and of its own, lies in gaps; of each gap its launch's own.

    gap            |------------------------------|      back to its start, or the wait that it began in;
    CPU     [own a]----host b----[own b]--host c--[c]    devices that are idle at once do not add up

    A wait inside of a gap waited for nothing: what the CPU did before it is late, too. Work that begins some time
    behind its launch must be launched as much earlier: then it is the CPU's time up to as long before the gap.
    """
    host, own = np.zeros(len(weights.host), dtype=np.int64), np.zeros(len(weights.own), dtype=np.int64)
    at = scene.work.point[gaps.place]
    before = np.clip(scene.points.begin[at] - scene.work.start[gaps.place] + gaps.ns, 0, gaps.ns)
    launching = np.minimum(gaps.ns - before, weights.own[at])
    np.maximum.at(own, at, launching)
    on_its_way = gaps.ns - before - launching
    left, since = before + on_its_way, scene.work.start[gaps.place] - gaps.ns - on_its_way
    while (more := left > 0).any():
        at, left, since = at[more], left[more], since[more]
        spent = np.minimum(left, np.maximum(weights.host[at], 0))
        np.maximum.at(host, at, spent)
        left, at = left - spent, scene.trace.graph.strands.follows[at]
        left[at < 0] = 0
        spent = np.minimum(left, weights.own[at])
        np.maximum.at(own, at, spent)
        left -= spent
        left[weights.waits[at] & (scene.points.begin[at] < since)] = 0
    return host, own, launching


def _in_time(scene: Scene, weights: Weights, gaps: _Blamed) -> Weights:
    """Input is there when it is asked for: gaps are shorter by what it took in them, for all threads of a process.

    reader       [------ Run ------]             its range: the input that is late
    copies              host      [c]            of a thread that hands on what is read
    launches     [a]------------------host--[b]  of the thread whose work ends the gap
    gap              |--------------------|
    """
    begin, owner, until = scene.points.begin, scene.work.process[gaps.place], scene.work.start[gaps.place]
    fetched = scene.database.columns(_INPUT.format(id=scene.trace.source_id))
    taken, spared = np.zeros_like(gaps.ns), np.zeros_like(weights.host)
    for process in np.unique(owner):
        here, own = owner == process, fetched["process"] == process
        since = until[here] - gaps.ns[here]
        late = Cover.of(fetched["start_ns"][own], fetched["end_ns"][own]).common(Cover.of(since, until[here]))
        taken[here] = late.within(since, until[here])
        mine = np.flatnonzero(scene.points.process == process)
        spared[mine] = late.within(begin[mine] - weights.host[mine], begin[mine])
    waited = replace(gaps, ns=taken).only(lambda blamed: ~blamed.is_late)
    return replace(_closed(scene, weights, waited), host=weights.host - spared)


def _not_waiting(scene: Scene, weights: Weights, gaps: _Blamed) -> Weights:
    """Nothing waits that returned in these gaps: a copy that blocks, and the synchronisation behind it."""
    strands, end = scene.trace.graph.strands, scene.points.end
    point, since = scene.work.point[gaps.place], scene.work.start[gaps.place] - gaps.ns
    ((slack,),) = scene.database.rows("select value::bigint from threshold where name = 'clock_slack_ns'")
    waits = weights.waits.copy()
    wait = take(strands.behind, point)
    while True:
        call = take(strands.waiting, wait)
        fits = (call >= 0) & (take(end, call) >= since - slack)
        call, since = call[fits], since[fits]
        if not call.size:
            return replace(weights, waits=waits)
        waits[call] = False
        wait = strands.behind[call]


def _faster(_: Scene, weights: Weights, kernels: _Blamed) -> Weights:
    """These operations take so much less of their time."""
    length = weights.length.copy()
    length[kernels.place] -= np.rint(length[kernels.place] * kernels.gain).astype(np.int64)
    return replace(weights, length=length)


_Followed = Callable[[Scene, Weights, _Blamed], Weights]
_FOLLOWED: dict[str, _Followed] = {
    "late_input": _in_time,
    "launch_bound_range": _closed,
    "long_idle_gap": _closed,
    "long_dependency": _closed,
    "compiling_or_loading": _closed,
    "synchronisation": _not_waiting,
    "blocking_copy": _not_waiting,
    "pageable_async_copy": _not_waiting,
}
_OF_KERNELS = ("math_attention", "float32_matmul", "layout_conversion", "unfused_elementwise", "recomputation")
_RULES = (*_FOLLOWED, *_OF_KERNELS)
_OF_COPIES = ("blocking_copy", "pageable_async_copy")
OF_WAITS = (*_OF_COPIES, "synchronisation")
_NO_COPIES, _PINNED = Change("hide-copies", "*"), Change("pin", "*")
