"""Which changes are worth trying in a source, whatever was found in it."""

import numpy as np

from ..attribute.intervals import take
from .changes import Change, micro_batch_counts
from .scene import EVERYWHERE, RECOMPUTE, Scene

_PHASES = ("forward", "backward", "optimizer")
_LARGEST_CLASSES = 3
_MOST_PATHS = 3  # of a phase


def standard(scene: Scene) -> list[Change]:
    """The changes that are possible in a source, each once."""
    waits = scene.points.waits & ~scene.is_queue
    found = [Change("prefetch", path) for path in scene.phase_paths("data")[:_MOST_PATHS]]
    again = {path.rpartition("/")[2] for path in scene.phase_paths(RECOMPUTE)}  # in many modules, of one name
    unnamed = f"from _recomputing_stretch where source_id = {scene.trace.source_id} limit 1"
    if not again and scene.database.rows(unnamed):
        again = {RECOMPUTE}
    found += [Change("skip", name) for name in sorted(again)[:_MOST_PATHS]]
    adapter_cnt = scene.adapter_cnt
    if not len(scene.work):
        found += [Change("batch", str(adapter_cnt))] if adapter_cnt > 1 else []
        return [*found, *_micro_batches(scene)]
    if scene.trace.is_pageable.any():
        found.append(Change("pin", "*"))
    if (waits & ~scene.trace.is_pageable).any():
        found.append(Change("drop-sync", "*"))
    found += [Change("graph", path) for path in scene.step_paths() or [EVERYWHERE]]
    for phase in _PHASES:
        found += [Change("graph", path) for path in scene.phase_paths(phase)[:_MOST_PATHS]]
    paths = scene.phase_paths("optimizer")[:_MOST_PATHS]
    found += [Change("fuse", path) for path in paths if not _communicates(scene, path)]
    found += [Change("scale", name, 0.5) for name in scene.largest_classes(_LARGEST_CLASSES)]
    if scene.of_class("copy").any():
        found.append(Change("hide-copies", "*"))
    if scene.of_class("communication").any():
        found.append(Change("hide-communication", "*"))
    if adapter_cnt > 1:
        found.append(Change("batch", str(adapter_cnt)))
    return [*found, Change("cpu", "*", 0.0)]


def _micro_batches(scene: Scene) -> list[Change]:
    """Of a step's micro batches one, where all steps have as many forwards."""
    counts = np.unique(micro_batch_counts(scene))
    return [Change("merge", str(counts[0]))] if len(counts) == 1 and counts[0] > 1 else []


def _communicates(scene: Scene, path: str) -> bool:
    """Whether the ranges of a path launch communication: no kernel holds what waits for other ranks."""
    inside = scene.ranges(path).holds(scene.points.begin).astype(np.int64)
    return bool((scene.of_class("communication") & (take(inside, scene.work.point) > 0)).any())
