"""Kernels in a row that one kernel could be: the rows of the view _fusible_run.

stream    add mul gemm add add mul silu sort  by launches; any other work ends a row, and so does a border between two
                                              launches: a step, or a wait of the CPU for the GPU
row       1   1        2       2   2          of three or more, at most ten; of one name behind each other the first
blamed                 x           x          all but the longest, which one pass over memory takes
"""

import numpy as np
import pyarrow as pa

from ..attribute.intervals import Ints, grouped, is_first, numbered
from ..store.database import Database
from .idle import Columns

_FEWEST, _MOST = 3, 10
_NONE = -(1 << 40)
_STREAM = f"coalesce(device_id, {_NONE}) as device, coalesce(stream_id, {_NONE}) as stream"
_ASKED = f"select source_id, {_STREAM} from _critical_stream"
_WORK = f"""
    select gpu_op_id, source_id, {_STREAM}, gpu_op_ns as length, is_fusible, name_id as name, process,
        launch_ns as launch
    from _fusible_op"""
_BORDERS = "select source_id, process, at_ns as at from _launch_border"


def rows(database: Database) -> pa.Table:
    """The rows of the view."""
    asked = database.columns(_ASKED)
    if not len(asked["stream"]):
        return _table(asked["stream"], asked["stream"])
    work = database.columns(_WORK, "gpu_op_id")
    key = numbered(*(np.concatenate([asked[name], work[name]]) for name in ("source_id", "device", "stream")))
    asked_key, key = key[: len(asked["stream"])], key[len(asked["stream"]) :]
    order = grouped(key)
    if len(asked_key) <= key.max(initial=0):
        order = order[np.isin(key[order], asked_key)]
    is_fusible = work["is_fusible"].astype(bool)[order]
    # of each operation the row it would be in: a new one behind other work, behind a border and on another stream
    begins = is_first(key[order]) | ~is_fusible | ~np.append(False, is_fusible[:-1])
    border = np.zeros(len(order), dtype=np.int64)
    border[is_fusible] = _border(work, order[is_fusible], database.columns(_BORDERS, "at"))
    begins |= is_first(border)
    row = np.cumsum(begins)
    is_in_row = is_fusible & (begins | is_first(work["name"][order]))
    op, row, length = (column[is_in_row] for column in (work["gpu_op_id"][order], row, work["length"][order]))
    if not len(row):
        return _table(op, op)
    first = np.flatnonzero(is_first(row))
    behind = np.arange(len(row)) - np.repeat(first, np.diff(np.append(first, len(row))))
    first = np.flatnonzero(behind % _MOST == 0)
    count = np.diff(np.append(first, len(row)))
    at_most = np.repeat(np.maximum.reduceat(length, first), count)
    place = np.arange(len(row))
    longest = np.minimum.reduceat(np.where(length == at_most, place, len(row)), first)
    chosen = (np.repeat(count, count) >= _FEWEST) & (place != np.repeat(longest, count))
    return _table(op[chosen], np.repeat(op[first], count)[chosen])


def _border(work: Columns, order: Ints, borders: Columns) -> Ints:
    """Of each operation how many borders of its process are before its launch."""
    launch = work["launch"][order]
    number = numbered(*(np.concatenate([borders[name], work[name]]) for name in ("source_id", "process")))
    of_border, of_work = number[: len(borders["at"])], number[len(borders["at"]) :][order]
    found = np.zeros(len(order), dtype=np.int64)
    for process in np.unique(of_border):
        mine = slice(None) if number.max() == 0 else np.flatnonzero(of_work == process)
        found[mine] = np.searchsorted(borders["at"][of_border == process], launch[mine], side="right")
    return found


def _table(op: Ints, run: Ints) -> pa.Table:
    return pa.table({"gpu_op_id": op.astype(np.int64), "run_id": run.astype(np.int64)})
