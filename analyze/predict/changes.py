"""Changes that can be asked for, and what each does to the weights of a trace.

Each is what its sentence says and nothing else: work that is not named stays as it was measured.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import UsageError
from ..attribute.cover import Cover
from ..attribute.intervals import NONE, Bools, Ints, take
from ..attribute.replay import Weights
from .batching import batched
from .scene import EVERYWHERE, LAUNCH_NS, Scene

GRAPH_LAUNCH_NS = 10_000  # what one launch of a CUDA graph takes the CPU


@dataclass(frozen=True)
class Change:
    """A change as it is written: kind=WHERE or kind=WHERE:FACTOR."""

    kind: str
    where: str
    factor: float = 1.0

    def __str__(self) -> str:
        ends = f":{self.factor:g}" if _KINDS[self.kind].takes_factor else ""
        return f"{self.kind}={self.where}{ends}"


def parse(text: str) -> Change:
    """The change that a text like "graph=step/forward" or "scale=gemm:0.5" asks for. Raises UsageError."""
    kind, equals, where = text.partition("=")
    if kind not in _KINDS or not equals or not where:
        known = ", ".join(f"{name}={kind.form}" for name, kind in _KINDS.items())
        raise UsageError(f"--change {text}: write one of {known}")
    if not _KINDS[kind].takes_factor:
        return Change(kind, _checked(kind, where, text))
    where, colon, factor = where.rpartition(":")
    try:
        value = float(factor)
    except ValueError:
        value = -1.0
    if not colon or not 0 <= value < 1e6:
        raise UsageError(f"--change {text}: write {kind}={_KINDS[kind].form}, the factor a number like 0.5")
    return Change(kind, _checked(kind, where, text), value)


def _checked(kind: str, where: str, text: str) -> str:
    if kind == "scale":
        try:
            re.compile(where)
        except re.error as error:
            raise UsageError(f"--change {text}: {where!r} is not a regular expression: {error}") from error
    if kind in _COUNTS and not (where.isdecimal() and 2 <= int(where) <= 1024):
        raise UsageError(f"--change {text}: write {kind}=K, K {_COUNTS[kind]} in one, from 2 to 1024")
    return where


def apply(scene: Scene, weights: Weights, changes: Iterable[Change]) -> Weights | None:
    """The weights after all changes, in whatever order they are given; None for what one rank cannot know.

    Raises UsageError for a place, a kernel or a device that is not there.
    """
    for change in _in_order(scene, changes):
        apply_one = _KINDS[change.kind].apply
        if apply_one is None or (change.kind == "cpu" and scene.is_mostly_pages):
            return None
        if change.kind not in _ORDER_OF_CPU and not len(scene.work):
            raise UsageError(
                f"{change}: the trace has no GPU work; what the CPU computes cannot be told from launching"
            )
        weights = apply_one(scene, weights, change)
    return weights


def _in_order(scene: Scene, changes: Iterable[Change]) -> list[Change]:
    """What each thing takes before what is made of several of them, graphs from the outermost; the CPU's speed last.

    Without a GPU an operator's work is faster when those called in vain are gone: what calls take is known as measured.
    """
    order = _ORDER if len(scene.work) else _ORDER_OF_CPU

    def key(change: Change) -> tuple[int, int, float]:
        within = int(np.count_nonzero(scene.instances(change.where)[0] >= 0)) if change.kind == "graph" else 0
        size = int(change.where) if change.kind in _COUNTS else 0
        return order.index(change.kind) if change.kind in order else NONE, size - within, change.factor

    asked = list(changes)
    kinds = [change.kind for change in asked]
    if twice := next((kind for kind in _ONCE if kinds.count(kind) > 1), None):
        told = " and ".join(str(change) for change in asked if change.kind == twice)
        raise UsageError(f"{told}: only one of them can be applied; ask for each in a separate command")
    return sorted(asked, key=key) if len(asked) > 1 else asked  # of one alone nobody need look where it is


def least_ns(scene: Scene, changes: Sequence[Change]) -> int:
    """What no step after these changes is shorter than: copies that are hidden still take their time on the link."""
    others = [change for change in changes if change.kind != "hide-copies"]
    if len(others) == len(changes):
        return 0
    weights = apply(scene, scene.trace.graph.measured, others)
    return 0 if weights is None else scene.link_ns(weights)


def describe(scene: Scene, change: Change) -> str:
    """What a change is in a source, in one sentence."""
    if change.kind == "scale":
        what = "kernels" if len(scene.work) else "operators"
        return f"{what} matching {change.where} take {change.factor:g} times as long"
    if change.kind == "cpu":
        if scene.is_mostly_pages:
            return "pages of managed memory move when the CPU or the GPU touches them"
        if not change.factor:
            return "the CPU takes no time here: the limit for whatever makes it faster"
        return f"the CPU takes {change.factor:g} times as long here"
    if change.kind == "pin" and _has_unknown_link(scene):
        return f"{_NO_BLOCKING}; {AT_LEAST}"
    return _K.sub(change.where, _KINDS[change.kind].note) if change.kind in _COUNTS else _KINDS[change.kind].note


def _has_unknown_link(scene: Scene) -> bool:
    """Whether there are large copies of pageable memory, and no others that say how fast the link is."""
    return bool(scene.database.rows(f"select 1 from _unknown_link where source_id = {scene.trace.source_id}"))


def _graph(scene: Scene, weights: Weights, change: Change) -> Weights:
    """A CUDA graph over each range, or over each step: one launch, and nothing of the CPU between its kernels.

    Waits inside stay, and long stretches between two launches: what is done there is no launching. Kernels are compiled
    and loaded for a graph as well. Where launching one takes longer than what it spares there is none.
    """
    cover = scene.ranges(change.where)
    graph, since = scene.instances(change.where)
    kept = scene.launching_within(weights, cover.common(scene.loading))
    host = np.maximum(scene.launching_within(weights, cover) - kept, 0)
    own = np.where((graph >= 0) & ~scene.loading.holds(scene.points.begin), weights.own, 0)
    spared = np.bincount(since + 1, weights=host + own, minlength=1)[1:]
    launches = _first_launches(scene, graph)
    pays = np.zeros(len(spared) + 1, dtype=bool)  # the last one is of what is in none, as is a range without a launch
    pays[graph[launches]] = spared[graph[launches]] > GRAPH_LAUNCH_NS
    host, own = weights.host - np.where(pays[since], host, 0), weights.own - np.where(pays[graph], own, 0)
    host[launches[pays[graph[launches]]]] += GRAPH_LAUNCH_NS
    return scene.with_calls(replace(weights, host=host), own)


def _first_launches(scene: Scene, number: Ints) -> Ints:
    """Of the points with each number (NONE: of none) the first call that launches."""
    number = np.where(scene.points.is_launch, number, NONE)
    launches = np.flatnonzero(number >= 0)
    _, first = np.unique(number[launches], return_index=True)
    return launches[first]


def _scale(scene: Scene, weights: Weights, change: Change) -> Weights:
    """Kernels and copies whose name or class matches take so much of their time.

    Without a GPU operators whose name matches take so much of their work (operators.py).
    """
    if not len(scene.work):
        worked = scene.worked_within(weights, change.where)
        return replace(weights, host=weights.host + np.rint(worked * (change.factor - 1)).astype(np.int64))
    return _scaled(weights, scene.named(change.where), change.factor)


def _scaled(weights: Weights, chosen: Bools, factor: float) -> Weights:
    length = np.where(chosen, np.rint(weights.length * factor).astype(np.int64), weights.length)
    return replace(weights, length=length)


def _cpu(scene: Scene, weights: Weights, change: Change) -> Weights:
    """The CPU takes so much of its time within the ranges; waits are no work and stay."""
    return _cpu_within(scene, weights, scene.ranges(change.where), change.factor)


def _cpu_within(scene: Scene, weights: Weights, cover: Cover, factor: float) -> Weights:
    inside = cover.holds(scene.points.begin)
    spared = np.rint(scene.host_within(weights, cover) * (1 - factor)).astype(np.int64)
    own = np.where(inside, np.rint(weights.own * factor).astype(np.int64), weights.own)
    return scene.with_calls(replace(weights, host=weights.host - spared), own)


def _prefetch(scene: Scene, weights: Weights, change: Change) -> Weights:
    """The input is there when it is asked for."""
    return _cpu_within(scene, weights, scene.input(change.where), 0.0)


def _skip(scene: Scene, weights: Weights, change: Change) -> Weights:
    """What is done in these ranges is not done: neither the CPU's work nor what it launches there."""
    weights = _cpu(scene, weights, replace(change, factor=0.0))
    gone = scene.launched_in(scene.ranges(change.where))
    return replace(_scaled(weights, gone, 0.0), distance=np.where(gone, 0, weights.distance))


def merged(scene: Scene, change: Change) -> tuple[Cover, float]:
    """Where micro batches are trained, and what part of the calls there is spared with K in one.

    Raises UsageError where steps have fewer, where no range says so, and for a trace of a GPU: there which launches of
    which micro batch would be one is not known.
    """
    if len(scene.work):
        raise UsageError(f"{change}: works only on traces without GPU work; for whole steps use batch=K")
    counts = micro_batch_counts(scene)
    count = int(counts.min()) if len(counts) else 0
    if not count:
        raise UsageError(f"{change}: the trace has no steps with ranges that mean forward")
    if count < int(change.where):
        raise UsageError(f"{change}: there are steps with {count} micro batch{'es' * (count > 1)} (ranges of forward)")
    return scene.phases("h2d", "forward", "backward"), 1 - math.ceil(count / int(change.where)) / count


def micro_batch_counts(scene: Scene) -> Ints:
    """How many forwards each step has; nothing for a trace without steps."""
    steps, forward = scene.trace.steps, scene.phases("forward")
    begin, end = scene.points.begin[steps.first], scene.points.begin[steps.last]
    found: Ints = np.searchsorted(forward.start, end) - np.searchsorted(forward.start, begin)
    return found


def _merge(scene: Scene, weights: Weights, change: Change) -> Weights:
    """K micro batches of a step in one: forward and backward are called once for them, their work stays."""
    cover, spared = merged(scene, change)
    called = scene.called_within(weights, cover)
    return replace(weights, host=weights.host - np.rint(called * spared).astype(np.int64))


def _drop_sync(scene: Scene, weights: Weights, change: Change) -> Weights:
    """The CPU goes on where it waited for the GPU, but for a queue that is full."""
    return replace(weights, waits=weights.waits & ~(scene.waits_in(change.where) & ~scene.is_queue))


def _pin(scene: Scene, weights: Weights, change: Change) -> Weights:
    """Copies from and to pageable memory return at once, as from pinned memory with non_blocking=True.

    They are as fast as the fastest copies of the trace: the driver takes pageable memory through a buffer of its own.
    That is what a call does on the CPU where it returns long before its copy has ended.
    """
    inside = scene.ranges(change.where).holds(scene.points.begin)
    pinned = weights.waits & scene.trace.is_pageable & inside
    place, length = scene.pinned_copies()
    place, length = place[of := scene.of_points(inside)[place]], length[of]
    lengths, own, launch = weights.length.copy(), weights.own.copy(), scene.work.point[place]
    lengths[place] = np.minimum(lengths[place], length)
    own[launch] = np.minimum(own[launch], LAUNCH_NS)
    return scene.with_calls(replace(weights, waits=weights.waits & ~pinned, length=lengths), own)


def _fuse(scene: Scene, weights: Weights, change: Change) -> Weights:
    """One launch and one kernel in each range, as long as its kernels together; element-wise work, reductions and casts
    pass once over it.

    Without a GPU one operator, which works as long as those in the range together.
    """
    cover = scene.ranges(change.where)
    if not len(scene.work):
        return replace(weights, host=weights.host - scene.called_within(weights, cover))
    points, (number, _) = scene.points, scene.instances(change.where)
    first = np.zeros(len(points), dtype=bool)
    first[_first_launches(scene, number)] = True
    inside = points.is_launch & (number >= 0)
    own = np.where(inside, np.where(first, np.minimum(weights.own, LAUNCH_NS), 0), weights.own)
    spared = scene.launching_within(weights, cover) - scene.launching_within(weights, cover.common(scene.loading))
    host = weights.host - np.where(inside & ~first, np.maximum(spared, 0), 0)
    launched = take(np.where(inside, number, NONE), scene.work.point)
    fused = np.flatnonzero((launched >= 0) & scene.trace.is_kernel)
    length, distance = weights.length.copy(), weights.distance.copy()
    is_unrecorded = distance[fused] > scene.long_gap_ns  # what ran there
    distance[fused] = np.where(scene.of_points(first)[fused] | is_unrecorded, distance[fused], 0)
    passes = fused[scene.is_fusible[fused]]
    longest = np.zeros(number.max(initial=0) + 1, dtype=np.int64)
    np.maximum.at(longest, launched[passes], weights.length[passes])
    keeps = np.zeros(len(length), dtype=bool)
    of = launched[passes]
    is_longest = weights.length[passes] == longest[of]
    _, at = np.unique(of[is_longest], return_index=True)
    keeps[passes[is_longest][at]] = True
    length[passes] = np.where(keeps[passes], length[passes], 0)
    return scene.with_calls(replace(weights, host=host, length=length, distance=distance), own)


def _batch(scene: Scene, weights: Weights, change: Change) -> Weights:
    """K steps in one pass."""
    return batched(scene, weights, int(change.where))


def _device(scene: Scene, weights: Weights, change: Change) -> Weights:
    """Another GPU: matrix products and attention by its peak, all else on the device by its memory.

    The CPU stays, and so do communication and copies over the link to the host. Products whose names say that they are
    in 32 bits go by that peak, all others by the one in 16.
    """
    in16, in32, memory = scene.peaks_relative_to(change.where)
    products = scene.of_class("matmul", "attention", "lora") & scene.trace.is_kernel
    moved = (scene.trace.is_kernel | scene.is_within_device) & ~products & ~scene.of_class("communication")
    weights = _scaled(weights, products & ~scene.is_full_precision, 1 / in16)
    return _scaled(_scaled(weights, products & scene.is_full_precision, 1 / in32), moved, 1 / memory)


def _hide(scene: Scene, weights: Weights, change: Change) -> Weights:
    """Copies run beside other work: nothing waits for them."""
    chosen = ~scene.trace.is_kernel & scene.of_class("copy")
    if change.where != EVERYWHERE:
        chosen &= scene.launched_in(scene.ranges(change.where))
    return _scaled(weights, chosen, 0.0)


@dataclass(frozen=True)
class _Kind:
    """What is written behind its =, what it does to the weights (None: nobody knows), what it is in a sentence."""

    form: str
    apply: Callable[[Scene, Weights, Change], Weights] | None
    note: str

    @property
    def takes_factor(self) -> bool:
        return ":" in self.form


_NO_BLOCKING = "copies from and to pageable memory no longer block the CPU (synchronizations after them do)"
AT_LEAST = "no copy from pinned memory says how much faster they would be"  # of a saving that may be larger
_KINDS = {
    "prefetch": _Kind("PATH", _prefetch, "input is ready when it is asked for; * is all that is named as reading it"),
    "pin": _Kind("PATH", _pin, f"{_NO_BLOCKING}, and are as fast as others of the trace"),
    "skip": _Kind(
        "PATH",
        _skip,
        "what is done here is left out, both the CPU's work and what it launches; for recomputing: no checkpointing, "
        "if memory suffices",
    ),
    "drop-sync": _Kind("PATH", _drop_sync, "the CPU no longer waits for the GPU here"),
    "graph": _Kind("PATH", _graph, "a CUDA graph: one launch instead of all in the range; waits inside remain"),
    "fuse": _Kind(
        "PATH", _fuse, "one kernel in each range, element-wise work, casts and reductions in one pass over memory"
    ),
    "scale": _Kind(
        "REGEX:FACTOR", _scale, "these kernels, or without a GPU these operators, take FACTOR times as long"
    ),
    "cpu": _Kind(
        "PATH:FACTOR", _cpu, "the CPU takes FACTOR times as long here; 0 is the limit for whatever makes it faster"
    ),
    "hide-copies": _Kind("PATH", _hide, "nothing waits for copies and memsets; they still take their time on the link"),
    "hide-communication": _Kind(
        "PATH", None, "communication ends when all ranks have arrived, and each is replayed alone"
    ),
    "batch": _Kind(
        "K", _batch, "K steps in one pass: calls and launches cost once instead of K times, the work remains"
    ),
    "merge": _Kind(
        "K", _merge, "K micro batches of a step in one, without a GPU: forward and backward are called once for them"
    ),
    "device": _Kind(
        "NAME", _device, "another GPU, by its peaks in 16 or 32 bits and of memory; CPU and links unchanged"
    ),
}
_ORDER = (
    *("hide-communication", "drop-sync", "pin", "hide-copies", "scale", "device", "prefetch", "skip"),
    *("fuse", "merge", "batch", "graph", "cpu"),
)
# What can be asked of a trace without GPU work; batch, merge, fuse and scale by what its operators cost (operators.py).
_ORDER_OF_CPU = ("merge", "fuse", "batch", "scale", "prefetch", "skip", "cpu")
OF_FORM = ("graph", "batch", "merge")  # what gives work another form: launched at once, for several at once
_K = re.compile(r"\bK\b")
_ONCE = ("device",)  # work runs on one; of two numbers of steps in one pass the larger counts
_COUNTS = {"batch": "steps", "merge": "micro batches of a step"}
FORMS = {name: (kind.form, kind.note) for name, kind in _KINDS.items()}
