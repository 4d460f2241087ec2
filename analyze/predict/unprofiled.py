"""What becomes of a step without a profiler when something changes: from a trace and the timing pass of the same work.

With a GPU a replay says which part of a profiled step a change saves, and of the step without a profiler it saves the
same part. Without one a profiler may cost as much as what it records. All of that is in the calls, in equal parts for
all ranges that it recorded: what the profiled step takes beyond the unprofiled one is taken off them.

    profiled      | calls, recorded ============= | work ======= |
    unprofiled    | calls ======= | work ======= |                   a change saves so much of the calls, so much work

The fastest step of either counts: the others had to share the machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import UsageError
from ...vocabulary import PHASES
from ..attribute.cover import Cover
from ..store.database import Database
from .changes import Change, apply, merged, parse
from .operators import Parts, fastest, of_interval
from .scene import Scene
from .trace import fetch

_TIMED = """
    select source.source_id
    from source
    where kind_has_work(kind)
    order by exists (select 1 from gpu_op where gpu_op.source_id = source.source_id) desc, source_id"""


@dataclass(frozen=True)
class Prediction:
    """What is left of a step, as a part of it, or why nobody knows."""

    frac: float | None
    why: str = ""


def fractions(database: Database, step_ns: float, asked: Sequence[Sequence[str]]) -> list[Prediction]:
    """What each combination of changes leaves of a step.

    `step_ns` is the fastest without a profiler, of what the trace calls a step. The first input counts that has GPU
    work, else the first.
    """
    scene = _scene(database)
    if scene is None:
        return [Prediction(None, "the trace has no steps that can be replayed")] * len(asked)
    find = _replayed if len(scene.work) else _Without(scene, step_ns).left
    found = []
    for changes in asked:
        try:
            found.append(find(scene, [change for text in changes for change in _written(scene, text)]))
        except UsageError as error:
            found.append(Prediction(None, str(error)))
    return found


def _scene(database: Database) -> Scene | None:
    rows = database.rows(_TIMED)
    trace = fetch(database, rows[0][0]) if rows else None
    if trace is None or not (len(trace.steps) or len(trace.work.start)):
        return None
    return Scene(database, trace)


def _written(scene: Scene, text: str) -> list[Change]:
    """The change that a text asks for; {optimizer} in it stands for each range that means this phase."""
    phase = next((name for name in (*PHASES, "recompute") if f"{{{name}}}" in text), None)
    if phase is None:
        return [parse(text)]
    paths = scene.phase_paths(phase)
    if not paths:
        raise UsageError(f"the trace has no range that means {phase}")
    return [parse(text.replace(f"{{{phase}}}", path)) for path in paths]


def _replayed(scene: Scene, changes: list[Change]) -> Prediction:
    weights = apply(scene, scene.trace.graph.measured, changes)
    if weights is None or not scene.window_ns:
        return Prediction(None, "one rank cannot know")
    return Prediction(1 - scene.saved_ns(weights) / scene.window_ns)


class _Without:
    """The fastest step of a trace without GPU work, in calls and work; what it waits for other ranks is neither."""

    def __init__(self, scene: Scene, step_ns: float):
        steps, begin = scene.trace.steps, scene.points.begin
        first, last = begin[steps.first], begin[steps.last]
        chosen = fastest(last - first)
        self._everything = Cover.of(first[chosen : chosen + 1], last[chosen : chosen + 1])
        self._begin, self._end = int(first[chosen]), int(last[chosen])
        self._measure = of_interval(scene.operators, self._begin, self._end)
        self._waiting = scene.waiting
        whole = self._profiled(self._everything)
        self._step_ns = step_ns
        self._waited_ns = min(step_ns, self._end - self._begin - whole.called - whole.worked)
        own_ns = step_ns - self._waited_ns  # waiting takes as long without a profiler
        self._each_ns = max(0.0, (whole.called + whole.worked - own_ns) / max(whole.recorded, 1))

    def left(self, scene: Scene, changes: list[Change]) -> Prediction:
        """What changes leave; of what they have in common each saves its own."""
        saved = [self._saved(scene, change) for change in changes]
        ns = sum(part.called + part.worked for part in saved)
        return Prediction(max(0.0, 1 - ns / self._step_ns))

    def _profiled(self, cover: Cover) -> Parts:
        found = self._measure(cover)
        return found.less(self._measure(cover.common(self._waiting))) if len(self._waiting.start) else found

    def _parts(self, cover: Cover) -> Parts:
        return self._profiled(cover).without_profiler(self._each_ns)

    def _saved(self, scene: Scene, change: Change) -> Parts:
        kind, parts = change.kind, self._parts
        if kind == "batch":
            size = int(change.where)
            called = parts(self._everything).less(parts(scene.phases("data", "optimizer")))
            return called.times((size - 1) / size, 0)
        if kind == "hide-communication":
            return Parts(self._waited_ns, 0, 0)
        if kind == "merge":
            cover, spared = merged(scene, change)
            return parts(cover).times(spared, 0)
        if kind == "fuse":
            return parts(scene.ranges(change.where)).times(1, 0)
        if kind in ("skip", "prefetch", "cpu"):
            rest = change.factor if kind == "cpu" else 0.0
            cover = scene.input(change.where) if kind == "prefetch" else scene.ranges(change.where)
            return parts(cover).times(1 - rest, 1 - rest)
        if kind == "scale":
            # work alone: what it is called by was recorded, and is not changed
            begin, end = np.array([self._begin]), np.array([self._end])
            worked = float(scene.operators.named(change.where).work_in(begin, end)[0])
            # a busy machine may have recorded more of it than the whole step takes without a profiler
            return Parts(0, min(worked, self._step_ns) * (1 - change.factor), 0)
        raise UsageError(f"{change}: the trace has no GPU work")
