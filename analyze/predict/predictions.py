"""Rows of the tables of predictions: every step replayed, the standard changes, and what findings advise."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...errors import UsageError
from ...sql import TABLES, in_folder
from ..attribute.intervals import take
from ..attribute.replay import Weights
from ..store.database import Database
from ..store.jobs import require_no_job
from . import advice, suggestions
from .changes import OF_FORM, Change, apply, describe, least_ns, parse
from .part import part_of
from .scene import Scene
from .trace import Trace, fetch

if TYPE_CHECKING:
    import polars

Row = dict[str, Any]
_MOST_UNLAUNCHED = 0.9  # of the operations: when work begins hangs on nothing
_MOST_UNLAUNCHED_NS = 0.5  # of the work's time: what a change of lengths brings is not known
_OF_LENGTHS = ("scale", "device", "fuse", "batch")
_LAUNCHED_BEFORE = "not known, as most of the GPU's work was launched before the recording began"
_TYPES = {"integer": pa.int32(), "bigint": pa.int64(), "varchar": pa.string()}


def what_if(database: Database, changes: Sequence[str] = ()) -> "polars.DataFrame":
    """The view what_if: of the standard changes, or of these made together. Raises UsageError for what cannot be."""
    if not changes:
        return database.view("what_if")
    require_no_job(database, "what-if --change")
    predictions = Predictions(database)
    database.filling(predictions.asked(changes))
    try:
        return database.view("what_if")
    finally:  # who asks for the view next means the standard changes
        database.filling({"predicted_change": predictions.tables()["predicted_change"]})


class Predictions:
    """What is predicted of a database's sources."""

    def __init__(self, database: Database):
        self._database = database
        self._kept: tuple[int, Scene | None] | None = None

    def tables(self) -> dict[str, Callable[[], pa.Table]]:
        """For each table of predictions the function that makes its rows."""
        made = {"replayed_step": self._replayed, "predicted_change": self._standard, "followed_rule": self._rules}
        return {name: partial(_filled, name, rows) for name, rows in made.items()}

    def asked(self, changes: Sequence[str]) -> dict[str, Callable[[], pa.Table]]:
        """The table of predicted changes with these, made together in each source, in the place of the standard ones.

        Raises UsageError for what is no change; its function does for places that are in no source. One that lacks them
        has no rows.
        """
        found = [parse(text) for text in changes]

        def rows() -> list[Row]:
            predicted: list[Row] = []
            refused: list[UsageError] = []
            for scene in self._scenes():
                try:
                    predicted += predict(scene, [found])
                except UsageError as error:
                    refused.append(error)
            if refused and not predicted:
                raise refused[0]
            return predicted

        return {"predicted_change": partial(_filled, "predicted_change", rows)}

    def _sources(self) -> list[int]:
        ids = self._database.rows("select source_id from source where kind_has_work(kind) order by source_id")
        return [number for (number,) in ids]

    def _scene(self, source_id: int) -> Scene | None:
        """The whole of a source, kept for the next table; None where nothing can be replayed."""
        if self._kept is None or self._kept[0] != source_id:
            self._kept = None  # one in memory at a time
            trace = fetch(self._database, source_id)
            self._kept = source_id, None if trace is None else Scene(self._database, trace)
        return self._kept[1]

    def _scenes(self) -> Iterator[Scene]:
        """The sources in which something can be replayed."""
        for number in self._sources():
            if (scene := self._scene(number)) is not None:
                yield scene

    def _replayed(self) -> list[Row]:
        return [row for scene in self._scenes() for row in replayed(scene.trace)]

    def _standard(self) -> list[Row]:
        return [row for scene in self._scenes() for row in predict(scene, [[c] for c in suggestions.standard(scene)])]

    def _rules(self) -> list[Row]:
        return [row for number in self._sources() for row in self._rules_of(number)]

    def _rules_of(self, source_id: int) -> list[Row]:
        """What the advice of each rule saves in a source, by a part of its steps where that stands for all of them.

        Nothing where hardly any work has a launch, as pages that move by themselves: when it begins hangs on nothing.
        """
        part = part_of(self._database, source_id)
        trace = None if part is None else fetch(self._database, source_id, part)
        scene = None if trace is None else Scene(self._database, trace)
        found = None if scene is None else advice.rules(scene, part)
        if found is None:
            scene = self._scene(source_id)
            found = None if scene is None else advice.rules(scene)
        if scene is None or found is None:
            return []
        if np.count_nonzero(scene.work.point < 0) > _MOST_UNLAUNCHED * len(scene.work):
            return []
        saved = {rule: _saved(scene, of) / of.share for rule, of in found.items()}
        for rule, of in found.items():
            if of.alone is not None:
                others = sum(saved.get(name, 0) for name in (*advice.OF_WAITS, "lost_lead"))
                saved[rule] = max(saved[rule], scene.saved_ns(of.alone) / of.share - others)
        return [{"source_id": source_id, "rule": rule, "saving_ns": round(ns)} for rule, ns in saved.items()]


def _filled(table: str, rows: Callable[[], list[Row]]) -> pa.Table:
    (file,) = (file for file in in_folder(TABLES) if file.name == table)
    return pa.Table.from_pylist(rows(), pa.schema([(c.name, _TYPES[c.type]) for c in file.columns]))


def replayed(trace: Trace) -> list[Row]:
    """Each step until it and the work launched in it are done, as it was and replayed; a trace without steps as one."""
    found = trace.graph.replay(trace.graph.measured)
    if not len(trace.steps):
        return [{"source_id": trace.source_id, "step": None, "start_ns": trace.origin,
                 "measured_ns": trace.end - trace.origin, "replayed_ns": found.length_ns}]  # fmt: skip
    steps, work, begin = trace.steps, trace.work, trace.points.begin
    ended = trace.graph.begin_of_operations(trace.graph.measured, found) + trace.graph.measured.length
    step = take(steps.of_points(len(begin)), work.point)
    inside = np.flatnonzero(step >= 0)
    measured, length = steps.measured_ns.copy(), found.begin[steps.last] - found.begin[steps.first]
    np.maximum.at(measured, step[inside], work.end[inside] - begin[steps.first][step[inside]])
    np.maximum.at(length, step[inside], ended[inside] - found.begin[steps.first][step[inside]])
    columns = (steps.number, begin[steps.first], measured, length)
    names = ("step", "start_ns", "measured_ns", "replayed_ns")
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [{"source_id": trace.source_id, **dict(zip(names, row, strict=True))} for row in rows]


def predict(scene: Scene, asked: Iterable[Sequence[Change]]) -> list[Row]:
    """What each combination of changes saves, NULL where one rank cannot know.

    Raises UsageError for a place that is not there.
    """
    window, step_cnt = scene.window_ns, scene.trace.steps.count
    is_launched_before = _is_launched_before(scene)
    rows = []
    for changes in asked:
        saving, left_out = saved_by(scene, changes)
        if is_launched_before and any(change.kind in _OF_LENGTHS for change in changes):
            saving, left_out = None, ()
        notes = [
            f"{change} left out: with it steps are no shorter" if change in left_out else describe(scene, change)
            for change in changes
        ]
        notes += [_LAUNCHED_BEFORE] if saving is None and is_launched_before else []
        rows.append(
            {
                "source_id": scene.trace.source_id,
                "change": " ".join(map(str, changes)),
                "place": ", ".join(change.where for change in changes),
                "step_ns": None if saving is None else round((window - saving) / step_cnt),
                "saving_ns": saving,
                "window_ns": window,
                "step_cnt": step_cnt,
                "note": "; ".join(notes),
            }
        )
    return rows


def _is_launched_before(scene: Scene) -> bool:
    """Whether launches of most of the work are not recorded: it stays where it was measured, whatever gets shorter.

    Pages of managed memory move by themselves.
    """
    length = np.where(scene.work.is_page, 0, scene.trace.graph.measured.length)
    return bool(length[scene.work.point < 0].sum() > _MOST_UNLAUNCHED_NS * length.sum())


def saved_by(scene: Scene, changes: Sequence[Change]) -> tuple[int | None, Sequence[Change]]:
    """By how much all steps are shorter with changes made together, and which of them were left out.

    None for what one rank cannot know. A change that gives work another form (a CUDA graph, steps in one pass) is left
    out where it makes the steps longer: a launch of a graph takes time as well, and what communicates longer at once
    may hide behind less. Raises UsageError for a place that is not there.
    """
    others = [change for change in changes if change.kind not in OF_FORM]
    chosen, best = others, _saved_with_all(scene, others) if others else 0
    for change in (change for change in changes if change.kind in OF_FORM):
        for asked in ([*chosen, change], [*others, change]) if chosen != others else ([*chosen, change],):
            saving = _saved_with_all(scene, asked)
            if best is None or saving is None:
                return None, ()
            if saving > best:
                chosen, best = asked, saving
    return best, [change for change in changes if change not in chosen]


def _saved_with_all(scene: Scene, changes: Sequence[Change]) -> int | None:
    weights = apply(scene, scene.trace.graph.measured, changes)
    return None if weights is None else _saved_down_to(scene, weights, least_ns(scene, changes))


def _saved(scene: Scene, followed: advice.Followed) -> int:
    """By how much all is shorter with advice followed, beside that of others."""
    alone = _saved_down_to(scene, followed.weights, followed.least_ns)
    if followed.beside is None:
        return alone
    without, both = followed.beside
    left_ns = scene.window_ns - scene.saved_ns(without) - followed.least_ns  # what the link has time for
    return min(alone, scene.saved_ns(both, since=without), max(0, left_ns))


def _saved_down_to(scene: Scene, weights: Weights, shortest_ns: int) -> int:
    """What weights save where all takes no less than so long."""
    return min(scene.saved_ns(weights), max(0, scene.window_ns - shortest_ns))
