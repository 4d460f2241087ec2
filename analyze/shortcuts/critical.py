"""The CPU's time on the critical path in each range of a step: the rows of the view _critical_range.

step        |---------------------------------|
range           |-----------------|                   within it
stretches    [==]  [====]      [==]    [==]           sum before its end less sum before its start
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..attribute.intervals import Ints, numbered
from ..store.database import Database

_NO_STEP = -(1 << 62)
_STRETCHES = """
    select source_id, thread_id, start_ns, end_ns
    from _critical_piece
    where kind = 'cpu'
    order by source_id, thread_id, start_ns"""
_RANGES = """
    select range.source_id, coalesce(thread.process_id, 0) as process, range.thread_id, range.path_id,
        coalesce(range_path.parent_path_id, -1) as outer_path_id, range.start_ns, range.end_ns
    from range join range_path using (path_id)
    left join thread on thread.source_id = range.source_id and thread.thread_id = range.thread_id
    where range_path.kind = 'annotation'"""
_STEPS = f"""
    select source_id, process, start_ns, coalesce(first(step_id order by end_ns desc, step_id), {_NO_STEP}) as step_id,
        max(end_ns) as end_ns
    from _critical_extent
    group by source_id, process, start_ns
    order by source_id, process, start_ns"""
_Columns = dict[str, npt.NDArray[np.int64]]


def rows(database: Database) -> pa.Table:
    """The rows of the view."""
    ranges: _Columns = {name: column.astype(np.int64) for name, column in database.columns(_RANGES).items()}
    critical = _critical_in(ranges, database.columns(_STRETCHES))
    steps = database.columns(_STEPS)
    key = numbered(*(np.concatenate([steps[name].astype(np.int64), ranges[name]]) for name in ("source_id", "process")))
    count = len(steps["start_ns"])
    place = _begun(key[:count], steps["start_ns"], key[count:], ranges["start_ns"])
    chosen = np.flatnonzero((critical > 0) & (place >= 0))
    chosen = chosen[ranges["end_ns"][chosen] <= steps["end_ns"][place[chosen]]]
    source, path, outer = (ranges[name][chosen] for name in ("source_id", "path_id", "outer_path_id"))
    step = steps["step_id"].astype(np.int64)[place[chosen]]
    # of each path in a step one number, and whether that of the path around is among them
    number = place[chosen]
    span = int(max(path.max(initial=0), outer.max(initial=0))) + 2
    is_here = np.isin(number * span + outer, number * span + path)
    return pa.table(
        {
            "source_id": source.astype(np.int32),
            "step_id": pa.array(step, mask=step == _NO_STEP),
            "path_id": path,
            "outer_path_id": pa.array(outer, mask=~is_here),
            "critical_ns": critical[chosen],
        }
    )


def _critical_in(ranges: _Columns, stretches: _Columns) -> Ints:
    """Of each range how much of the stretches of its thread lies in it."""
    count = len(stretches["start_ns"])
    key = numbered(*(np.concatenate([stretches[name], ranges[name]]) for name in ("source_id", "thread_id")))
    found = np.zeros(len(ranges["start_ns"]), dtype=np.int64)
    for thread in np.unique(key[:count]):
        first, last = np.searchsorted(key[:count], [thread, thread + 1])
        mine = np.flatnonzero(key[count:] == thread)
        start, end = (stretches[name][first:last] for name in ("start_ns", "end_ns"))
        found[mine] = _until(start, end, ranges["end_ns"][mine]) - _until(start, end, ranges["start_ns"][mine])
    return found


def _until(start: Ints, end: Ints, time: Ints) -> Ints:
    """The sum of the stretches before each moment."""
    place = np.searchsorted(start, time, side="right") - 1
    before = np.append(0, np.cumsum(end - start))
    at = np.maximum(place, 0)
    found: Ints = np.where(place >= 0, before[at] + np.minimum(time, end[at]) - start[at], 0)
    return found


def _begun(process: Ints, start: Ints, asked_process: Ints, asked: Ints) -> Ints:
    """For each moment of a process the last of its steps that has begun by then, negative for none."""
    found = np.full(len(asked), -1, dtype=np.int64)
    for number in np.unique(process):
        first, last = np.searchsorted(process, [number, number + 1])
        mine = np.flatnonzero(asked_process == number)
        place = np.searchsorted(start[first:last], asked[mine], side="right") - 1
        found[mine] = np.where(place >= 0, place + first, -1)
    return found
