"""Several steps in one pass, as of adapters that are trained together: which launches go, and whose work is whose."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...errors import UsageError
from ..attribute.cover import Cover
from ..attribute.intervals import Bools, Ints, take
from ..attribute.replay import Weights
from .scene import Scene

KERNEL_FLOOR_NS = 2_000  # a kernel takes no less, however little it computes


def batched(scene: Scene, weights: Weights, size: int) -> Weights:
    """The weights of so many steps in one: the CPU's work of one and all the GPU's, without what a kernel takes however
    little it computes.

    k (alpha + beta) becomes alpha + k beta. What is named as the optimizer stays (adapters have one each), and so do
    long stretches between two launches (input is read for all) and between two kernels (what ran there is unrecorded).
    Of n steps too few for a pass of k what is left of it costs n/k of one: K saves no less than fewer would.

    Raises UsageError for a trace of fewer than two steps.
    """
    steps, points = scene.trace.steps, scene.points
    if len(steps) < 2:
        raise UsageError(f"batch={size}: the trace has fewer than two steps")
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
    return scene.with_calls(replace(weights, host=host, waits=waits, length=length, distance=distance), own)


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

    Places are counted on each stream: threads that launch side by side do so in another order in each step. Where steps
    of a group have different numbers of operations on a stream all stay where they are.
    """
    steps, points, work = scene.trace.steps, scene.points, scene.work
    begin, end = points.begin[steps.first], points.begin[steps.last]
    launched = take(points.begin, work.point)
    step = np.searchsorted(begin, launched, side="right") - 1
    fits = (work.point >= 0) & (step >= 0) & (launched < take(end, step))
    rows = np.flatnonzero(fits & scene.of_points(chosen))
    streams = int(work.stream.max(initial=0)) + 1
    lane = step[rows] * streams + work.stream[rows]  # of a stream in a step
    order = np.argsort(lane, kind="stable")
    rows, lane = rows[order], lane[order]
    count = np.bincount(lane, minlength=len(steps) * streams)
    before = np.cumsum(count) - count
    first = leader[step[rows]] * streams + work.stream[rows]
    by_step = count.reshape(-1, streams)
    is_alike = np.ones(len(steps), dtype=bool)
    np.logical_and.at(is_alike, leader, (by_step == by_step[leader]).all(axis=1))
    moved = (lane != first) & is_alike[leader[step[rows]]]
    place = np.arange(len(rows)) - before[lane]
    result = length.copy()
    np.add.at(result, rows[before[first[moved]] + place[moved]], length[rows[moved]])
    result[rows[moved]] = 0
    return result
