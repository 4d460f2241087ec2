"""Changes that can be asked for, and what each does to the weights of a trace.

Each is what its sentence says and nothing else: work that is not named stays as it was measured.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import UsageError
from ..attribute.cover import Cover
from ..attribute.intervals import NONE, Bools, Ints, take
from ..attribute.replay import Weights
from .scene import EVERYWHERE, Scene

GRAPH_LAUNCH_NS = 10_000  # what one launch of a CUDA graph takes the CPU
LAUNCH_NS = 5_000  # what one launch of a kernel takes the CPU
KERNEL_FLOOR_NS = 2_000  # a kernel takes no less, however little it computes


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
    """The weights after changes, one after another; None for what one rank cannot know.

    Raises UsageError for a place, a kernel or a device that is not there.
    """
    for change in changes:
        apply_one = _KINDS[change.kind].apply
        if apply_one is None:
            return None
        if change.kind not in _OF_CPU and not len(scene.work):
            raise UsageError(
                f"{change}: the trace has no GPU work; what the CPU computes cannot be told from launching"
            )
        weights = apply_one(scene, weights, change)
    return weights


def least_ns(scene: Scene, changes: Sequence[Change]) -> int:
    """What no step after these changes is shorter than: copies that are hidden still take their time on the link."""
    others = [change for change in changes if change.kind != "hide-copies"]
    if len(others) == len(changes):
        return 0
    weights = apply(scene, scene.trace.graph.measured, others)
    return 0 if weights is None else scene.link_ns(weights)


def describe(kind: str) -> str:
    """What a kind of change is, in one sentence."""
    return _KINDS[kind].note


def _graph(scene: Scene, weights: Weights, change: Change) -> Weights:
    """A CUDA graph over each range, or over each step: one launch, and nothing of the CPU between its kernels.

    Waits inside stay, and long stretches between two launches: what is done there is no launching. Kernels are compiled
    and loaded for a graph as well.
    """
    cover = scene.ranges(change.where)
    inside = cover.holds(scene.points.begin)
    kept = scene.launching_within(weights, cover.common(scene.loading))
    host = weights.host - np.maximum(scene.launching_within(weights, cover) - kept, 0)
    own = np.where(inside & ~scene.loading.holds(scene.points.begin), 0, weights.own)
    steps = scene.trace.steps
    graphs = steps.of_points(len(inside)) if change.where == EVERYWHERE else cover.number(scene.points.begin)
    host[_first_launches(scene, graphs)] += GRAPH_LAUNCH_NS
    return _with_calls(scene, replace(weights, host=host), own)


def _with_calls(scene: Scene, weights: Weights, own: Ints) -> Weights:
    """The weights with calls that take so long. What a long call launches begins so much sooner behind its start.

    call        |-- loads its kernel: 347 ms --|
    kernel                                    |--|      without the loading 5 us behind the call's begin
    """
    spared = np.maximum(weights.own - own - LAUNCH_NS, 0)
    latency = weights.latency - take(spared, scene.work.point, 0)
    return replace(weights, own=own, latency=np.maximum(latency, np.minimum(weights.latency, LAUNCH_NS)))


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
    return _with_calls(scene, replace(weights, host=weights.host - spared), own)


def _prefetch(scene: Scene, weights: Weights, change: Change) -> Weights:
    """The input is there when it is asked for."""
    return _cpu_within(scene, weights, scene.input(change.where), 0.0)


def _skip(scene: Scene, weights: Weights, change: Change) -> Weights:
    """What is done in these ranges is not done: neither the CPU's work nor what it launches there."""
    weights = _cpu(scene, weights, replace(change, factor=0.0))
    gone = scene.launched_in(scene.ranges(change.where))
    return replace(_scaled(weights, gone, 0.0), distance=np.where(gone, 0, weights.distance))


def micro_batches(scene: Scene, change: Change) -> Cover:
    """Where micro batches are trained. Raises UsageError where no range says so, and for a trace of a GPU.

    There which launches of which micro batch would be one is not known.
    """
    if len(scene.work):
        raise UsageError(f"{change}: is known of traces without GPU work alone; of whole steps batch=K says it")
    if not len(scene.phases("forward", "backward").start):
        raise UsageError(f"{change}: the trace has no range that means forward or backward")
    return scene.phases("h2d", "forward", "backward")


def _merge(scene: Scene, weights: Weights, change: Change) -> Weights:
    """K micro batches of a step in one: forward and backward are called once in each step, their work stays."""
    size = int(change.where)
    called = scene.called_within(weights, micro_batches(scene, change))
    return replace(weights, host=weights.host - called * (size - 1) // size)


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
    return _with_calls(scene, replace(weights, waits=weights.waits & ~pinned, length=lengths), own)


def _fuse(scene: Scene, weights: Weights, change: Change) -> Weights:
    """One launch and one kernel in each range, as long as its kernels together; element-wise work, reductions and casts
    pass once over it.

    Without a GPU one operator, which works as long as those in the range together.
    """
    cover = scene.ranges(change.where)
    if not len(scene.work):
        return replace(weights, host=weights.host - scene.called_within(weights, cover))
    points = scene.points
    first = np.zeros(len(points), dtype=bool)
    first[_first_launches(scene, cover.number(points.begin))] = True
    inside = points.is_launch & cover.holds(points.begin)
    own = np.where(inside, np.where(first, LAUNCH_NS, 0), weights.own)
    spared = scene.launching_within(weights, cover) - scene.launching_within(weights, cover.common(scene.loading))
    host = weights.host - np.where(inside & ~first, np.maximum(spared, 0), 0)
    launched = take(np.where(inside, cover.number(points.begin), -1), scene.work.point)
    fused = np.flatnonzero((launched >= 0) & scene.trace.is_kernel)
    length, distance = weights.length.copy(), weights.distance.copy()
    is_unrecorded = distance[fused] > scene.long_gap_ns  # what ran there
    distance[fused] = np.where(scene.of_points(first)[fused] | is_unrecorded, distance[fused], 0)
    passes = fused[scene.is_fusible[fused]]
    longest = np.zeros(len(cover.start), dtype=np.int64)
    np.maximum.at(longest, launched[passes], weights.length[passes])
    keeps = np.zeros(len(length), dtype=bool)
    of = launched[passes]
    is_longest = weights.length[passes] == longest[of]
    _, at = np.unique(of[is_longest], return_index=True)
    keeps[passes[is_longest][at]] = True
    length[passes] = np.where(keeps[passes], length[passes], 0)
    return _with_calls(scene, replace(weights, host=host, length=length, distance=distance), own)


def _batch(scene: Scene, weights: Weights, change: Change) -> Weights:
    """K steps in one: the CPU's work of one and all the GPU's, without what a kernel takes however little it computes.

    k (alpha + beta) becomes alpha + k beta. What is named as the optimizer stays (adapters have one each), and so do
    long stretches between two launches (input is read for all) and between two kernels (what ran there is unrecorded).
    Of n steps too few for a pass of k what is left of it costs n/k of one: K saves no less than fewer would.
    """
    steps, points, size = scene.trace.steps, scene.points, int(change.where)
    if len(steps) < 2:
        raise UsageError(f"{change}: the trace has fewer than two steps")
    leader = _leaders(scene, size)
    number = np.arange(len(steps))
    spared = np.flatnonzero(leader != number)
    cover = Cover.of(points.begin[steps.first[spared]], points.begin[steps.last[spared]])
    count = np.bincount(leader, minlength=len(steps))
    partly = np.flatnonzero((leader == number) & steps.is_judged & (count < size))
    parts = [(Cover.of(points.begin[steps.first[[n]]], points.begin[steps.last[[n]]]), count[n] / size) for n in partly]
    if not len(scene.work):
        return _batch_on_cpu(scene, weights, [(cover, 0.0), *parts])
    stays = scene.phase("optimizer").holds(points.begin)
    inside = cover.holds(points.begin) & ~stays
    host = weights.host - np.where(stays, 0, scene.launching_within(weights, cover))
    own = np.where(inside, 0, weights.own)
    for part, share in parts:
        launching = np.rint(scene.launching_within(weights, part) * (1 - share)).astype(np.int64)
        host -= np.where(stays, 0, launching)
        own = np.where(part.holds(points.begin) & ~stays, np.rint(own * share).astype(np.int64), own)
    of = scene.of_points(inside)
    length = np.where(of & scene.trace.is_kernel, np.maximum(weights.length - KERNEL_FLOOR_NS, 0), weights.length)
    length = _merged(scene, length, leader, ~stays)
    waits = weights.waits & ~inside
    behind, is_last = _behind_optimizer(scene, leader, stays)
    waits = np.where(behind, weights.waits & is_last, waits)
    distance = np.where(of & (weights.distance <= scene.long_gap_ns), 0, weights.distance)
    return _with_calls(scene, replace(weights, host=host, waits=waits, length=length, distance=distance), own)


def _behind_optimizer(scene: Scene, leader: Ints, stays: Bools) -> tuple[Bools, Bools]:
    """Points behind the start of their step's optimizer, and whether theirs is the last step of its group.

    Of a loss that is read at the end of each step the last is left, behind the optimizers of all.
    """
    points, steps = scene.points, scene.trace.steps
    step = steps.of_points(len(points))
    begin = np.full(len(steps) + 1, np.iinfo(np.int64).max)
    known = stays & (step >= 0)
    np.minimum.at(begin, step[known], points.begin[known])
    last = np.zeros(len(steps), dtype=np.int64)
    np.maximum.at(last, leader, np.arange(len(steps)))
    behind = (step >= 0) & ~stays & (points.begin >= begin[step])
    return behind, np.append(last[leader] == np.arange(len(steps)), False)[step]


def _batch_on_cpu(scene: Scene, weights: Weights, shares: Sequence[tuple[Cover, float]]) -> Weights:
    """The operators of one step are called, and work for all; the optimizer and the input stay.

    shares: what is left of calling in parts of the trace.
    """
    stays = scene.phases("data", "optimizer")
    host = weights.host.copy()
    for part, share in shares:
        called = np.maximum(scene.called_within(weights, part) - scene.called_within(weights, stays.common(part)), 0)
        host -= np.rint(called * (1 - share)).astype(np.int64)
    return replace(weights, host=host)


def _leaders(scene: Scene, size: int) -> Ints:
    """Of each step the first of its group. Cold steps are groups of their own: what is saved is asked of the others."""
    number = np.arange(len(scene.trace.steps))
    is_judged = scene.trace.steps.is_judged
    begin = int(np.argmax(is_judged)) if is_judged.any() else 0
    return np.where(number < begin, number, begin + (number - begin) // size * size)


def _merged(scene: Scene, length: Ints, leader: Ints, chosen: Bools) -> Ints:
    """The lengths with those of the same place in the steps of each group in the group's first step.

        step 0  |a|b|c|   step 1  |a|b|c|   step 2 …      a of 0 takes as long as all a of the group, the others nothing

    Where steps of a group have different numbers of operations all stay where they are.
    """
    steps, points = scene.trace.steps, scene.points
    begin, end = points.begin[steps.first], points.begin[steps.last]
    launched = take(points.begin, scene.work.point)
    step = np.searchsorted(begin, launched, side="right") - 1
    fits = (scene.work.point >= 0) & (step >= 0) & (launched < take(end, step))
    rows = np.flatnonzero(fits & scene.of_points(chosen))
    rows = rows[np.lexsort((rows, scene.work.point[rows], step[rows]))]
    count = np.bincount(step[rows], minlength=len(steps))
    before = np.cumsum(count) - count
    first = leader[step[rows]]
    is_alike = np.ones(len(steps), dtype=bool)
    np.logical_and.at(is_alike, leader, count == count[leader])
    moved = (step[rows] != first) & is_alike[first]
    place = np.arange(len(rows)) - before[step[rows]]
    result = length.copy()
    np.add.at(result, rows[before[first[moved]] + place[moved]], length[rows[moved]])
    result[rows[moved]] = 0
    return result


def _device(scene: Scene, weights: Weights, change: Change) -> Weights:
    """Another GPU: matrix products and attention by its peak, all else on the device by its memory; the CPU stays."""
    compute, memory = scene.peaks_relative_to(change.where)
    products = scene.of_class("matmul", "attention", "lora")
    moved = scene.trace.is_kernel & ~products & ~scene.of_class("communication")
    return _scaled(_scaled(weights, products & scene.trace.is_kernel, 1 / compute), moved, 1 / memory)


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


_KINDS = {
    "prefetch": _Kind("PATH", _prefetch, "input is there when it is asked for; * is all that is named as reading it"),
    "pin": _Kind(
        "PATH",
        _pin,
        "copies from and to pageable memory no longer block the CPU (synchronisations behind them do), "
        "and are as fast as others of the trace",
    ),
    "skip": _Kind(
        "PATH",
        _skip,
        "what is done here is not done, neither the CPU's work nor what it launches; of recomputing: no checkpointing, "
        "if memory suffices",
    ),
    "drop-sync": _Kind("PATH", _drop_sync, "the CPU no longer waits for the GPU here"),
    "graph": _Kind("PATH", _graph, "a CUDA graph: one launch instead of all in the range; waits inside stay"),
    "fuse": _Kind(
        "PATH", _fuse, "one kernel in each range, element-wise work, casts and reductions in one pass over memory"
    ),
    "scale": _Kind(
        "REGEX:FACTOR", _scale, "these kernels, or without a GPU these operators, take so much of their time"
    ),
    "cpu": _Kind(
        "PATH:FACTOR", _cpu, "the CPU takes so much of its time here; 0 is the limit for whatever makes it faster"
    ),
    "hide-copies": _Kind("PATH", _hide, "nothing waits for copies and memsets; on the link they take their time"),
    "hide-communication": _Kind(
        "PATH", None, "communication ends when all ranks have come, and each is replayed alone"
    ),
    "batch": _Kind("K", _batch, "K steps in one pass: launching costs once instead of K times, the GPU's work stays"),
    "merge": _Kind(
        "K", _merge, "K micro batches of a step in one, without a GPU: forward and backward are called once"
    ),
    "device": _Kind("NAME", _device, "kernels on another GPU, by its peaks; the CPU stays"),
}
# What can be asked of a trace without GPU work; batch, merge, fuse and scale by what its operators cost (operators.py).
_OF_CPU = {"prefetch", "cpu", "skip", "batch", "merge", "fuse", "scale"}
_COUNTS = {"batch": "steps", "merge": "micro batches of a step"}
FORMS = {name: (kind.form, kind.note) for name, kind in _KINDS.items()}
