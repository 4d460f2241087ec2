"""What the advice of findings would save: each rule's gaps, waits and copies, changed together.

    gap blamed on a late CPU     the call that ended it comes as much earlier as the gap is long
    gap behind a wait            nothing waits there
    exposed copies               copies take no time

A saving is never more than the limit of its rule (_finding), and a rule that is not here has its limit alone.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..attribute.intervals import Ints, take
from ..attribute.replay import Weights
from .changes import Change, apply
from .scene import Scene

_GAPS = """
    select gap.rule::varchar as rule, gap.gpu_op_id - first.gpu_op_id as place, gap.idle_ns
    from _blamed_gap as gap
    join (select source_id, min(gpu_op_id) as gpu_op_id from gpu_op group by source_id) as first using (source_id)
    where gap.source_id = {id} and gap.rule is not null and gap.cause = 'host'"""


def rules(scene: Scene) -> dict[str, Weights]:
    """The weights of a source with the advice of each rule followed in all its places."""
    rows = scene.database.columns(_GAPS.replace("{id}", str(scene.trace.source_id)))
    rule, place, idle = (rows[name] for name in ("rule", "place", "idle_ns"))
    measured = scene.trace.graph.measured
    found = {}
    for name in np.unique(rule.astype(str)).tolist():
        mine = rule == name
        if name in _FOLLOWED:
            found[name] = _FOLLOWED[name](scene, measured, place[mine], idle[mine])
    for name, change in _EVERYWHERE.items():
        weights = apply(scene, measured, [change])
        if weights is not None:
            found[name] = weights
    return found


def _not_late(scene: Scene, weights: Weights, place: Ints, idle: Ints) -> Weights:
    """The calls that launch these operations come so much earlier: by time since the point before, and their own."""
    point = scene.work.point[place]
    known = point >= 0
    spared = np.zeros(len(weights.host), dtype=np.int64)
    np.add.at(spared, point[known], idle[known])
    of_host = np.clip(spared, 0, np.maximum(weights.host, 0))
    return replace(weights, host=weights.host - of_host, own=weights.own - np.minimum(spared - of_host, weights.own))


def _not_waiting(scene: Scene, weights: Weights, place: Ints, idle: Ints) -> Weights:
    """Nothing waits that returned in these gaps: a copy that blocks, and the synchronisation behind it."""
    chains, end = scene.trace.graph.chains, scene.points.end
    point, since = scene.work.point[place], scene.work.start[place] - idle
    waits = weights.waits.copy()
    wait = take(chains.behind, point)
    while True:
        call = take(chains.waiting, wait)
        fits = (call >= 0) & (take(end, call) >= since)
        call, since = call[fits], since[fits]
        if not call.size:
            return replace(weights, waits=waits)
        waits[call] = False
        wait = chains.behind[call]


_Followed = Callable[[Scene, Weights, Any, Any], Weights]
_FOLLOWED: dict[str, _Followed] = {
    "late_input": _not_late,
    "launch_bound_range": _not_late,
    "long_idle_gap": _not_late,
    "recompilation": _not_late,
    "synchronisation": _not_waiting,
    "blocking_copy": _not_waiting,
    "pageable_async_copy": _not_waiting,
}
_EVERYWHERE = {"exposed_copy": Change("hide-copies", "*")}
