"""What is blamed for idle gaps: the rows of the views _blamed_gap and _judged_gap.

busy      [a   ]      [b  ]          a gap lies between two busy stretches, and b ended it
gap             |----|
launch            [b]                begins within it: the CPU was late
wait         [------]                ended within it: the CPU had waited for the device
input       [--------]               covers more than half of it, and so its middle: the CPU was fetching input,
                     [b]             by the thread that launches, or it ended in the gap before the launch
elsewhere   [-------]                other devices of the process worked for more than half of it
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from ..attribute.cover import Cover
from ..attribute.intervals import NONE, Bools, Ints, place_of, take
from ..store import arrow_functions as arrow
from ..store.database import Database
from .activity import BUSY, NO_DEVICE, Activity, Stretches, device_column
from .idle import CAUSES, DEPENDENCY, HOST, KERNEL_WAIT, NEVER, Columns, Gaps, causes_of, gaps_of

_WORK = f"""
    select gpu_op_id, coalesce(launch_start_ns, {NEVER}) as launch_start,
        coalesce(launch_end_ns, {NEVER}) as launch_end, coalesce(path_id, {NONE}) as path_id, name_id,
        kind = 'kernel' as is_kernel, kind in ('memcpy', 'memset') as is_move, process, gpu_op_ns as length
    from _gap_op
    where source_id = {{id}}"""
_OF_GRAPHS = f"""
    select gpu_op_id, api_call_id as graph, is_first_op, end_ns as "end", coalesce(device_id, {NO_DEVICE}) as device
    from _graph_op
    where source_id = {{id}}"""
_WAITS = f"""
    select process, start_ns, end_ns, kind in ('memcpy', 'memset') as is_move, kind, is_pageable, name_id,
        coalesce(path_id, {NONE}) as path_id
    from _gap_wait
    where source_id = {{id}}
    order by start_ns, end_ns, name_id desc"""
_INPUT = "select process, start_ns, end_ns, place from merged('_data_range') where source_id = {id}"
_FETCHED = "select process, thread_id, start_ns, end_ns from _data_range where source_id = {id}"
_COMPUTING = "select process, start_ns, end_ns from merged('_computing_range') where source_id = {id}"
_LAUNCHING = """
    select gpu_op_id, thread_id
    from gpu_op
    semi join ended using (gpu_op_id)
    join api_call using (api_call_id)"""
_COMPILING = """
    select process, start_ns, end_ns, place, contains(place, 'LaunchKernel') as is_launch
    from merged('_compiling')
    where source_id = {id}"""
_HOSTED = "select gpu_op_id from _hosted_op"
_RULES = (
    "compiling_or_loading", "late_input", "devices_in_turn", "unified_memory", "pageable_async_copy", "blocking_copy",
    "synchronisation", "unrecorded_graph", "unrecorded_work", "long_idle_gap", "long_dependency", "launch_bound_range",
)  # fmt: skip
_OF_WAITS = ("pageable_async_copy", "blocking_copy", "synchronisation")
_BESIDE = "select device_id as own, other_id as other from _device_beside where source_id = {id}"


_TEXT = pa.dictionary(pa.int32(), pa.string())
_TYPES = {
    "source_id": pa.int32(), "device_id": pa.int32(), "gpu_op_id": pa.int64(), "start_ns": pa.int64(),
    "end_ns": pa.int64(), "idle_ns": pa.int64(), "saving_ns": pa.float64(), "cause": _TEXT,
    "waited_name_id": pa.int64(), "waited_kind": _TEXT, "rule": _TEXT, "path_id": pa.int64(), "compiled": _TEXT,
    "ended_by_ns": pa.int64(),
}  # fmt: skip
_SCHEMA = pa.schema(list(_TYPES.items()))


@dataclass(frozen=True)
class _Around:
    """Of each gap the wait that ended in it, the one over most of it, the input and the compiling that it fell into:
    rows, NONE without.
    """

    wait: Ints
    covering: Ints
    input: Ints
    compiling: Ints


class Blame:
    """What is blamed for the gaps of all devices of a database, found when it is first asked for."""

    def __init__(self, database: Database, activity: Activity):
        self._database, self._activity = database, activity

    def rows(self) -> pa.Table:
        """The rows of the view _blamed_gap."""
        between = (of.rows.slice(0, len(of.rows) - of.gaps.lead_cnt) for of in self._sources)
        return pa.concat_tables([_SCHEMA.empty_table(), *between])

    def judged(self) -> pa.Table:
        """The rows of the view _judged_gap: gaps within the time that findings are about."""
        asked = self._database.rows("select source_id, start_ns, end_ns from _steady_time")
        within = {number: (start, end) for number, start, end in asked}
        found = [of.between(*within[of.source_id]) for of in self._sources if of.source_id in within]
        return pa.concat_tables([_SCHEMA.empty_table(), *found])

    def idle_ns(self, source_id: int, device_id: int, start: int, end: int) -> list[int]:
        """How long a device is idle between two moments by each of CAUSES."""
        for judged in self._sources:
            if judged.source_id == source_id:
                mine = judged.gaps.device_id == device_id
                length = np.minimum(judged.gaps.end[mine], end) - np.maximum(judged.gaps.start[mine], start)
                length, cause = np.maximum(length, 0), judged.cause[mine]
                return [int(length[cause == number].sum()) for number in range(len(CAUSES))]
        return [0] * len(CAUSES)

    @cached_property
    def _sources(self) -> "list[_Judged]":
        limits = dict(self._database.rows("select name, value from threshold"))
        leads = dict(self._database.rows("select source_id, start_ns from _steady_time where lead_ns > 0"))
        busy = [of for of in self._activity.stretches if of.activity == BUSY]
        return [
            _of_source(self._database, number, [of for of in busy if of.source_id == number], limits, leads.get(number))
            for number in sorted({of.source_id for of in busy})
        ]


@dataclass(frozen=True)
class _Judged:
    """The gaps of one source, why each is, and the rows of the view _blamed_gap."""

    source_id: int
    gaps: Gaps
    cause: Ints
    rows: pa.Table

    def between(self, begin: int, end: int) -> pa.Table:
        """Those that end after the start and not after the end, without what lies before the start."""
        chosen = np.flatnonzero((self.gaps.end > begin) & (self.gaps.end <= end))
        start = np.maximum(self.gaps.start[chosen], begin)
        idle = self.gaps.end[chosen] - start
        if len(chosen) and chosen[-1] - chosen[0] + 1 == len(chosen):  # as of one device: nothing is copied
            rows = self.rows.slice(int(chosen[0]), len(chosen))
        else:
            rows = arrow.take(self.rows, chosen)
        saving = rows["saving_ns"].to_numpy() * idle / self.gaps.idle[chosen]
        columns = {
            "start_ns": pa.array(start),
            "idle_ns": pa.array(idle),
            "saving_ns": pa.array(saving, mask=np.isnan(saving)),
        }
        return pa.table([columns.get(name, rows[name]) for name in rows.column_names], _SCHEMA)


def _of_source(
    database: Database, number: int, busy: list[Stretches], limits: dict[str, float], lead: int | None
) -> _Judged:
    def columns(statement: str, by: str) -> Columns:
        return database.columns(statement.format(id=number), by)

    work = columns(_WORK, "gpu_op_id")
    waits, inputs, compiling = (columns(asked, "start_ns") for asked in (_WAITS, _INPUT, _COMPILING))
    gaps = gaps_of(busy, work, lead)
    managed = database.columns("select name_id from name where moves_pages(text)")["name_id"]
    is_managed = np.isin(work["name_id"], managed)[gaps.row]
    cause = causes_of(gaps, work, is_managed, limits)
    around = _around(gaps, cause, waits, inputs, compiling, int(limits["clock_slack_ns"]))
    fetched = np.flatnonzero(around.input >= 0)
    if fetched.size:
        database.connection.register("ended", pa.table({"gpu_op_id": gaps.gpu_op_id[fetched]}))
        launching = columns(_LAUNCHING, "gpu_op_id")
        database.connection.unregister("ended")
        reading, computing = columns(_FETCHED, "start_ns"), columns(_COMPUTING, "start_ns")
        is_handed = _handed(gaps, fetched, work, reading, computing, launching)
        around.input[fetched[~is_handed]] = NONE
    is_unrecorded = _unrecorded(gaps, cause, columns(_OF_GRAPHS, "gpu_op_id"), limits["late_launch_ns"])
    devices = sum(of.device_id != NO_DEVICE for of in busy)
    if devices != 1:  # another one may be what is waited for
        around.covering[:] = NONE
    elif (around.covering >= 0).any():
        around.covering[np.isin(gaps.gpu_op_id, database.columns(_HOSTED, "gpu_op_id")["gpu_op_id"])] = NONE
    is_in_turn = np.zeros(len(gaps.row), dtype=bool)
    if devices > 1:
        is_in_turn = _elsewhere(gaps, busy, database.columns(_BESIDE.format(id=number)))
        is_in_turn &= (cause == DEPENDENCY) | (around.wait >= 0)
    rule = _rules(gaps, cause, around, waits, is_in_turn, is_managed, is_unrecorded, limits["long_gap_ns"])
    is_missing = rule == _RULES.index("unrecorded_work")
    path = np.select(
        [rule == _RULES.index("late_input"), np.isin(rule, [_RULES.index(name) for name in _OF_WAITS])],
        [take(inputs["place"], around.input), take(waits["path_id"], around.wait)],
        work["path_id"][gaps.row],
    )
    rows = {
        "source_id": pa.array(np.full(len(gaps.row), number, dtype=np.int32)),
        "device_id": device_column(gaps.device_id),
        "gpu_op_id": pa.array(gaps.gpu_op_id),
        "start_ns": pa.array(gaps.start),
        "end_ns": pa.array(gaps.end),
        "idle_ns": pa.array(gaps.idle),
        "saving_ns": pa.array(gaps.idle / max(devices, 1), mask=np.full(len(gaps.row), not devices)),
        "cause": _said(cause, CAUSES),
        "waited_name_id": _known(take(waits["name_id"], np.where(is_missing, around.covering, around.wait))),
        "waited_kind": _said(around.wait, waits["kind"].tolist()),
        "rule": _said(rule, _RULES),
        "path_id": _known(path),
        "compiled": _said(around.compiling, compiling["place"].tolist()),
        "ended_by_ns": pa.array(work["length"][gaps.row]),
    }
    return _Judged(number, gaps, cause, pa.table(rows, _SCHEMA))


def _around(gaps: Gaps, cause: Ints, waits: Columns, inputs: Columns, compiling: Columns, slack_ns: int) -> _Around:
    """What the CPU was in, of each kind the last that had begun in the process of the gap."""
    found = _Around(*(np.full(len(gaps.row), NONE, dtype=np.int64) for _ in range(4)))
    near = np.flatnonzero(np.logical_or.reduce([_near(gaps, of, slack_ns) for of in (waits, inputs, compiling)]))
    for process in np.unique(gaps.process[near]):
        mine = near[gaps.process[near] == process]
        start, end = gaps.start[mine], gaps.end[mine]
        wait = _last(waits, process, start)
        ended = take(waits["end_ns"], wait, NEVER)
        found.wait[mine] = np.where((cause[mine] == HOST) & (ended >= start - slack_ns) & (ended <= end), wait, NONE)
        over = _last(waits, process, (start + end) // 2 + 1)
        common = np.minimum(take(waits["end_ns"], over, NEVER), end) - np.maximum(
            take(waits["start_ns"], over, NEVER), start
        )
        found.covering[mine] = np.where(2 * common > end - start, over, NONE)
        fetched = _last(inputs, process, (start + end) // 2 + 1)
        found.input[mine] = np.where(2 * _within(inputs, process, start, end) > end - start, fetched, NONE)
        compiled = _last(compiling, process, end + 1)
        parts = np.where(take(compiling["is_launch"].astype(np.int64), compiled, 0) == 1, 2, 4)
        most = parts * _within(compiling, process, start, end) > end - start
        found.compiling[mine] = np.where(most, compiled, NONE)
    return found


def _handed(gaps: Gaps, chosen: Ints, work: Columns, fetched: Columns, computing: Columns, launching: Columns) -> Bools:
    """Which of the chosen gaps were ended by what had waited for input: see the view _explained_gap.

    launches  ------[read  ]--[b]           the thread that read launches
    reader     [read][read][read]           or a fetch of another one ended in the gap before the launch,
    computing    [ forward      ]           unless the process computed all the time
    gap              |-----------|
    """
    row, since = gaps.row[chosen], gaps.start[chosen]
    launch = np.where(work["launch_start"][row] == NEVER, gaps.end[chosen], work["launch_start"][row])
    thread = take(launching["thread_id"], place_of(launching["gpu_op_id"], work["gpu_op_id"][row]))
    until = np.full(len(chosen), NEVER)
    for number in np.unique(fetched["thread_id"]):
        mine, own = np.flatnonzero(thread == number), fetched["thread_id"] == number
        last = np.searchsorted(fetched["start_ns"][own], launch[mine], side="right") - 1
        until[mine] = take(np.maximum.accumulate(fetched["end_ns"][own]), last, NEVER)
    found = until > since
    for process in np.unique(gaps.process[chosen]):
        mine = np.flatnonzero(gaps.process[chosen] == process)
        ends = np.sort(fetched["end_ns"][fetched["process"] == process])
        is_behind = take(ends, np.searchsorted(ends, launch[mine], side="right") - 1, NEVER) > since[mine]
        stretch = _last(computing, process, since[mine] + 1)
        found[mine] |= is_behind & (take(computing["end_ns"], stretch, NEVER) < launch[mine])
    return found


def _near(gaps: Gaps, columns: Columns, slack_ns: int) -> Bools:
    """Which gaps any of these times reaches, or ends so short before: most gaps are far from all that took long.

    gap    |--|  |-|   |--|    |-|       of a device they are in order, so each time reaches a row of them
    time       [         ]
    """
    found = np.zeros(len(gaps.row), dtype=bool)
    if not len(columns["start_ns"]):
        return found
    for _, mine in gaps.of_devices:
        start, end = gaps.start[mine], gaps.end[mine]
        order = np.argsort(start, kind="stable") if (start[1:] < start[:-1]).any() else slice(None)
        first = np.searchsorted(end[order], columns["start_ns"], side="left")
        last = np.searchsorted(start[order], columns["end_ns"] + slack_ns, side="right")
        reached = np.bincount(first, minlength=len(start) + 1) - np.bincount(last, minlength=len(start) + 1)
        is_reached = np.empty(len(start), dtype=bool)
        is_reached[order] = np.cumsum(reached[:-1]) > 0
        found[mine] = is_reached
    return found


def _elsewhere(gaps: Gaps, busy: list[Stretches], beside: Columns) -> Bools:
    """In which gaps other devices with work of the same processes are busy for more than half."""
    found = np.zeros(len(gaps.row), dtype=bool)
    for device in np.unique(beside["own"]):
        mine = gaps.device_id == device
        others = [of.union for of in busy if of.device_id in beside["other"][beside["own"] == device]]
        worked = Cover.of(np.concatenate([of.start for of in others]), np.concatenate([of.end for of in others]))
        found[mine] = 2 * worked.within(gaps.start[mine], gaps.end[mine]) > gaps.idle[mine]
    return found


def _unrecorded(gaps: Gaps, cause: Ints, nodes: Columns, least_ns: float) -> Bools:
    """Gaps behind or before work of CUDA graphs that have such gaps between their nodes: some are not in the trace."""
    waiting = (cause == DEPENDENCY) & (gaps.idle > least_ns)
    node = np.where(waiting, place_of(nodes["gpu_op_id"], gaps.gpu_op_id), NONE)
    graph = take(nodes["graph"], node)
    hollow = np.unique(graph[(node >= 0) & (take(nodes["is_first_op"], node, 1) == 0)])
    found: Bools = (node >= 0) & np.isin(graph, hollow)
    of_hollow = np.isin(nodes["graph"], hollow)
    for device in np.unique(nodes["device"][of_hollow]):
        ends = nodes["end"][of_hollow & (nodes["device"] == device)]
        found |= waiting & (gaps.device_id == device) & np.isin(gaps.start, ends)
    return found


def _rules(
    gaps: Gaps, cause: Ints, around: _Around, waits: Columns, is_in_turn: Bools, is_managed: Bools,
    is_unrecorded: Bools, long_ns: float,
) -> Ints:  # fmt: skip
    """The rule that each gap is blamed on, NONE for none: the first that fits, see the view."""
    is_move = take(waits["is_move"], around.wait, 0) == 1
    is_late, is_long, is_waited_for = cause == HOST, gaps.idle > long_ns, around.covering >= 0
    fits = [
        ("unrecorded_work", gaps.is_lead & is_waited_for),
        ("compiling_or_loading", around.compiling >= 0),
        ("late_input", around.input >= 0),
        ("devices_in_turn", is_in_turn),
        ("unified_memory", is_managed),
        ("pageable_async_copy", is_move & (take(waits["is_pageable"], around.wait, 0) == 1)),
        ("blocking_copy", is_move),
        ("synchronisation", around.wait >= 0),
        ("unrecorded_graph", is_unrecorded),
        ("long_idle_gap", is_long & is_late),
        ("unrecorded_work", is_long & is_waited_for),
        ("long_dependency", is_long),
        ("launch_bound_range", is_late),
    ]
    numbers = [_RULES.index(name) for name, _ in fits]
    return np.select([cause == KERNEL_WAIT, *(fitting for _, fitting in fits)], [NONE, *numbers], NONE)


def _within(columns: Columns, process: int, start: Ints, end: Ints) -> Ints:
    """How much of each gap the times of a process take."""
    own = columns["process"] == process
    return Cover.of(columns["start_ns"][own], columns["end_ns"][own]).within(start, end)


def _last(columns: Columns, process: int, time: Ints) -> Ints:
    """The last row of a process that began before each moment, NONE without."""
    own = np.flatnonzero(columns["process"] == process)
    return take(own, np.searchsorted(columns["start_ns"][own], time, side="left") - 1)


def _known(column: Ints) -> pa.Array:
    """A column of keys, NULL for NONE."""
    return pa.array(column, pa.int64(), mask=column == NONE)


def _said(number: Ints, texts: Sequence[str]) -> pa.Array:
    """A column of texts by their numbers, NULL for NONE."""
    indices = pa.array(number.astype(np.int32), mask=number == NONE)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))
