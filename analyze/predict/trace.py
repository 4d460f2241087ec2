"""A source of a finished database, or a part of it, as the arrays that are replayed."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..attribute.intervals import NONE, Bools, Ints, grouped, numbered, place_of, take
from ..attribute.replay import Graph, Replayed, Weights
from ..attribute.replay_graph import LONGEST_LATENCY_NS, Operations, graph, origin_of
from ..attribute.replay_threads import ENGINE, MAIN, OTHER, Points
from ..store.database import Database
from .part import STEPS, Part

_OPERATIONS = """
    select gpu_op_id, start_ns, end_ns, process_id as process, device_id as device, context_id as context,
        stream_id as stream, api_call_id as call, name_id, is_kernel, is_page
    from _replayed_op
    where source_id = {id} and {within}"""
_CALLS = """
    select api_call_id as call, thread_id as thread, start_ns as begin, end_ns as "end"
    from api_call
    where source_id = {id} and not is_duplicate and {within}"""
_EVENTS = """
    select thread_id as thread, start_ns as begin
    from api_call
    where source_id = {id} and not is_duplicate and {within}
        and name_id in (select name_id from name where regexp_matches(text, '^(cu|cuda|hip)StreamWaitEvent'))"""
_WAITS = """
    select api_call_id as call, start_ns as begin, kind, is_pageable, process, stream_id as stream
    from _replayed_wait
    where source_id = {id} and {within}"""
_THREADS = f"""
    select thread_id as thread, process, if(is_main, {MAIN}, if(is_engine, {ENGINE}, {OTHER})) as role
    from _replayed_thread
    where source_id = {{id}}"""
_LAST = """
    select thread_id as thread, max(end_ns) as "end"
    from range
    where source_id = {id} and kind <> 'python' and {within}
    group by thread_id"""

Columns = dict[str, npt.NDArray[Any]]
_BORDER, _CALL = 0, 1  # of what begins at once the border of a step is first


@dataclass(frozen=True)
class Steps:
    """Steps in order of their start: their numbers, their measured length, the points at which they begin and end."""

    number: Ints
    measured_ns: Ints
    first: Ints
    last: Ints
    process: Ints  # of each step
    is_judged: Bools  # of each step: predictions are about it; cold ones are not (_steady_time)

    def __len__(self) -> int:
        return len(self.number)

    def of_points(self, count: int) -> Ints:
        """Of each of the trace's points the step that it is in, by its place; NONE outside, 0 of a trace without steps.

        points   . | a . . b | c . |        steps of a process do not overlap, and its points follow one another
        step    -1   0 0 0 0   1 1
        """
        if not len(self):
            return np.zeros(count, dtype=np.int64)
        order = np.argsort(self.first)
        point = np.arange(count)
        at = np.searchsorted(self.first[order], point, side="right") - 1
        return np.where((at >= 0) & (point <= self.last[order][at]), order[at], NONE)

    @property
    def count(self) -> int:
        """How many come one after another: those of processes run side by side. 1 for a trace without."""
        return int(max(np.unique(self.process[self.is_judged], return_counts=True)[1], default=1))


@dataclass(frozen=True)
class Trace:
    """One source, ready to be replayed. Times of `points` and `work` are the file's."""

    source_id: int
    points: Points
    work: Operations
    graph: Graph
    steps: Steps
    op_id: Ints  # of each operation its key, in order
    name_id: Ints  # of each operation
    is_kernel: Bools
    is_pageable: Bools  # of each point: it waits for a copy from or to pageable memory
    kind: list[str]  # of each wait what it waits for, as waiting_call has it

    @property
    def origin(self) -> int:
        """When the first thing begins."""
        return origin_of(self.points, self.work)

    @property
    def end(self) -> int:
        """When the last thing ends."""
        return int(max(self.points.end.max(), self.work.end.max(initial=self.points.end.max())))

    def place_of(self, op_id: Ints) -> Ints:
        """Where operations lie among those of the trace; NONE for what is not in its part."""
        return place_of(self.op_id, op_id)

    def lengths(self, weights: Weights) -> Ints:
        """From the start of the first judged step to the end of the last and of what it launched.

        Without steps how long each process takes: nobody knows what the others wait for in one of them.

        Behind other steps from the end of these, and of what they launched: a CPU that gets ahead begins sooner, and a
        window that began with it would be longer for that. Without such steps the time before the first stays as it
        was measured, for the same reason: work that was launched before holds the GPU as long as ever. Where the very
        first operation waited for what was not recorded, they begin with it: until then the CPU gets ahead.
        """
        steps = self.steps
        if not steps.is_judged.any():
            return self._ends(self.graph.replay(weights))
        first, last = int(steps.first[steps.is_judged].min()), steps.last[steps.is_judged]
        begin = self.points.begin
        before = steps.last[~steps.is_judged & (begin[steps.last] <= begin[first])]
        if not len(before):
            weights = self._as_measured_before(weights, first)
        replayed = self.graph.replay(weights)
        if len(before) or (self.work.point > int(last.max())).any():  # else all that was launched counts
            ended = self.graph.begin_of_operations(weights, replayed) + weights.length
            until = self._done(replayed, ended, last)
        else:
            until = max(int(replayed.begin[last].max()), int(replayed.group_end.max(initial=0)))
        if len(before):
            return np.array([until - self._done(replayed, ended, before)])
        begins = int(replayed.begin[first])
        if self._has_waited(first):
            begins = int(self.graph.begin_of_operations(weights, replayed)[0])
        return np.array([until - begins])

    def _has_waited(self, first: int) -> bool:
        """Whether the very first operation, launched at or after a point, waited for long: nothing recorded ran."""
        point = int(self.work.point[0]) if len(self.work) else NONE
        return point >= first and int(self.work.start[0]) - int(self.points.end[point]) > LONGEST_LATENCY_NS

    def _ends(self, replayed: Replayed) -> Ints:
        """When the last of each process ends."""
        processes, process = np.unique(self.points.process, return_inverse=True)
        if len(processes) == 1:
            return np.array([replayed.length_ns])
        ends = np.zeros(len(processes), dtype=np.int64)
        np.maximum.at(ends, process, replayed.done)
        launched = self.work.process[self.graph.by_stream[self.graph.groups.first]]
        at = np.minimum(np.searchsorted(processes, launched), len(processes) - 1)
        is_known = processes[at] == launched
        np.maximum.at(ends, at[is_known], replayed.group_end[is_known])
        return ends

    def _as_measured_before(self, weights: Weights, first: int) -> Weights:
        """The weights with those of what comes before a point, and of what is launched there, as they were measured."""
        measured, begin = self.graph.measured, self.points.begin
        is_before = begin < begin[first]
        is_earlier = np.append(is_before, False)[self.work.point]
        before = {
            "host": begin <= begin[first], "own": is_before, "waits": is_before,
            "length": is_earlier, "distance": is_earlier, "latency": is_earlier,
        }  # fmt: skip
        return Weights(**{
            name: known if changed is known else np.where(stays, known, changed)
            for name, stays in before.items()
            for known, changed in [(getattr(measured, name), getattr(weights, name))]
        })  # fmt: skip

    def _done(self, replayed: Replayed, ended: Ints, last: Ints) -> int:
        """When steps that end at these points have ended, and the operations that were launched until then."""
        launched = (self.work.point >= 0) & (self.work.point <= int(last.max()))
        return max(int(replayed.begin[last].max()), int(ended[launched].max(initial=0)))


def fetch(database: Database, source_id: int, part: Part | None = None) -> Trace | None:
    """The arrays of a source, or of what it does in some of its steps, of which those behind the first are judged.

    None for a source without calls and steps, in which nothing can be replayed.
    """

    def columns(statement: str, by: str | None = None, when: str = "start_ns") -> Columns:
        within = "true" if part is None else f"{when} between {part.start_ns} and {part.end_ns}"
        return database.columns(statement.replace("{id}", str(source_id)).replace("{within}", within), by)

    threads, steps, waits = columns(_THREADS, "thread"), columns(STEPS, "begin"), columns(_WAITS)
    if part is not None:
        inside = (steps["begin"] >= part.start_ns) & (steps["end"] <= part.end_ns)
        steps = {name: column[inside] for name, column in steps.items()}
        steps["is_judged"] = steps["is_judged"].astype(bool) & (steps["begin"] >= part.first_ns)
    work = columns(_OPERATIONS, "gpu_op_id", "coalesce(launch_start_ns, start_ns)")
    calls = columns(_CALLS, "call")
    chosen = np.flatnonzero(_among(calls["call"], np.concatenate([work["call"], waits["call"]])))
    calls = {name: column[chosen] for name, column in calls.items()}
    wait_row = place_of(calls["call"], waits["call"])
    is_known = wait_row >= 0
    waits = {name: column[is_known] for name, column in waits.items()}
    begin = calls["begin"].copy()  # of calls that ask over and over the first one's
    begin[wait_row[is_known]] = np.minimum(begin[wait_row[is_known]], waits["begin"])
    calls["begin"] = begin
    rows = _rows(calls, steps, columns(_LAST, when="end_ns"))
    if not len(rows["begin"]):
        return None
    for name in ("process", "role"):
        rows[name] = _looked_up(rows["thread"], threads["thread"], threads[name])
    point, kept = _points_of(rows)
    waiting = point[: len(calls["call"])]  # calls are the first rows
    waiter = waiting[wait_row[is_known]]
    launch = take(waiting, place_of(calls["call"], work["call"]))
    process, stream = _streams(work)
    asked = _asked(waits, work, stream)
    points = _with_waits({name: column[kept] for name, column in rows.items()}, waits, waiter, asked, launch, stream)
    staged = _staged(
        points, launch, work["end_ns"], waiter[(waits["kind"] == "memcpy") & waits["is_pageable"].astype(bool)]
    )
    points = replace(points, wait_until=staged)
    is_told = take(_told(points, columns(_EVENTS, "begin")), launch, 0) == 1
    operations = Operations(
        work["start_ns"], work["end_ns"], process, work["device"].astype(np.int64), stream, launch,
        work["is_kernel"].astype(bool), is_told, work["is_page"].astype(bool),
    )  # fmt: skip
    borders = point[len(calls["call"]) :]
    count = len(steps["step"])
    is_pageable = np.zeros(len(points), dtype=bool)
    is_pageable[waiter] = waits["is_pageable"].astype(bool)
    kind = dict(zip(waiter.tolist(), waits["kind"].tolist(), strict=True))
    return Trace(
        source_id, points, operations, graph(points, operations),
        Steps(
            steps["step"], steps["end"] - steps["begin"], borders[:count], borders[count : 2 * count],
            points.process[borders[:count]], steps["is_judged"].astype(bool),
        ),
        work["gpu_op_id"], work["name_id"], work["is_kernel"].astype(bool), is_pageable,
        [kind[at] for at in np.flatnonzero(points.waits).tolist()],
    )  # fmt: skip


def _among(keys: Ints, wanted: Ints) -> Bools:
    """Which keys are wanted; by a table where keys lie close together, as ours do."""
    low = int(keys.min(initial=0))
    span = int(keys.max(initial=0)) - low + 1
    if span > 8 * len(keys) + 1024:
        return np.isin(keys, wanted)
    table = np.zeros(span, dtype=bool)
    table[wanted[(wanted >= low) & (wanted < low + span)] - low] = True
    return table[keys - low]


def _rows(calls: Columns, steps: Columns, last: Columns) -> Columns:
    """Calls, begins of steps, their ends, and the ends of the threads that have steps or calls, one after another."""
    working = np.isin(last["thread"], np.concatenate([calls["thread"], steps["thread"]]))
    borders = (steps["begin"], steps["end"], last["end"][working])
    threads = (steps["thread"], steps["thread"], last["thread"][working])
    return {
        "thread": np.concatenate([calls["thread"], *threads]),
        "begin": np.concatenate([calls["begin"], *borders]),
        "end": np.concatenate([calls["end"], *borders]),
        "rank": np.repeat([_CALL, _BORDER], [len(calls["begin"]), sum(map(len, borders))]),
    }


def _points_of(rows: Columns) -> tuple[Ints, Ints]:
    """Of each row its point, and of each point its row. What lies within a call of its thread is a part of that.

    call     |--------------|
    inner        |----|          (a runtime's call and the driver's that it makes)
    """
    count = len(rows["begin"])
    order = np.argsort(2 * rows["begin"] + rows["rank"], kind="stable")
    order = order[grouped(rows["process"][order])]
    thread, begin, end = (rows[name][order] for name in ("thread", "begin", "end"))
    outer = np.arange(count)
    by_thread = grouped(thread)
    for mine in np.split(by_thread, np.flatnonzero(np.diff(thread[by_thread])) + 1):
        latest = np.maximum.accumulate(end[mine])
        holder = np.maximum.accumulate(np.where(end[mine] >= latest, np.arange(len(mine)), 0))
        inside = np.flatnonzero(begin[mine[1:]] < latest[:-1]) + 1
        outer[mine[inside]] = mine[holder[inside - 1]]
    while (jumped := outer[outer] != outer).any():
        outer[jumped] = outer[outer[jumped]]
    is_point = outer == np.arange(count)
    number = np.cumsum(is_point) - 1
    point = np.empty(count, dtype=np.int64)
    point[order] = number[outer]
    return point, order[is_point]


def _asked(waits: Columns, work: Columns, stream: Ints) -> Ints:
    """Of each wait the number of the stream that it is said to wait for, NONE where nothing is said.

    A stream without work has a number of its own: nothing holds who waits for it. Which device it is on is not said: of
    several with a stream of that name it may be each.
    """
    names = ("process", "stream")
    count = len(waits["call"])
    number = numbered(*(np.concatenate([waits[name], work[name]]).astype(np.int64) for name in names))
    asked, of_work = number[:count], number[count:]
    first, last = (np.full(int(number.max(initial=0)) + 1, NONE, dtype=np.int64) for _ in range(2))
    last[of_work] = stream
    first[of_work[::-1]] = stream[::-1]
    found = np.where(last[asked] >= 0, last[asked], int(stream.max(initial=0)) + 1)
    found[(waits["stream"] < 0) | (first[asked] != last[asked])] = NONE
    return found


def _with_waits(rows: Columns, waits: Columns, waiter: Ints, asked: Ints, launch: Ints, stream: Ints) -> Points:
    """The points; a call that waits for what it launched itself waits for the stream of that, unless one is `asked`."""
    count = len(rows["begin"])
    own_stream = np.full(count, NONE, dtype=np.int64)
    own_stream[launch[launch >= 0]] = stream[launch >= 0]
    own_stream[waiter[asked >= 0]] = asked[asked >= 0]
    is_waiting = np.zeros(count, dtype=bool)
    is_waiting[waiter] = True
    is_launch = np.zeros(count, dtype=bool)
    is_launch[launch[launch >= 0]] = True
    wait_begin = rows["begin"].copy()
    wait_begin[waiter] = waits["begin"]
    return Points(
        rows["process"], rows["thread"], rows["begin"], rows["end"], is_launch, is_waiting, wait_begin,
        np.where(is_waiting, own_stream, NONE), rows["end"], rows["role"],
    )  # fmt: skip


def _staged(points: Points, launch: Ints, end: Ints, waiter: Ints) -> Ints:
    """Of each point its end, and of these that wait that of the last copy that they launched, if it is later.

    call    |---------------------|          fills staging buffers, of which the last are under way as it returns
    copy        [--------------------]
    """
    until = points.end.copy()
    is_waiter = np.zeros(len(points) + 1, dtype=bool)  # the last one is that of no launch
    is_waiter[waiter] = True
    own = is_waiter[launch]
    np.maximum.at(until, launch[own], end[own])
    return until


def _told(points: Points, events: Columns) -> Ints:
    """1 for points that launch where their thread made a stream wait for an event since the launch before, else 0."""
    found = np.zeros(len(points), dtype=np.int64)
    for thread in np.unique(events["thread"]):
        mine = np.flatnonzero((points.thread == thread) & points.is_launch)
        place = np.searchsorted(points.begin[mine], events["begin"][events["thread"] == thread])
        found[mine[place[place < len(mine)]]] = 1
    return found


def _streams(work: Columns) -> tuple[Ints, Ints]:
    """Of each operation the process and a number for each process, device, context and stream."""
    number = numbered(*(work[name] for name in ("process", "device", "context", "stream")))
    return work["process"].astype(np.int64), number


def _looked_up(asked: Ints, keys: Ints, values: Ints) -> Ints:
    return take(values.astype(np.int64), place_of(keys, asked), 0)
