"""When devices do what: the rows of the views _device_activity and _exposed.

operations   [a   ][b]     [c  ]        a stretch is a union: its first operation, its start, its end
stretches    [a      ]     [c  ]
hidden by       [compute ]              what of it lies in another activity's stretches; the rest is exposed
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from ..attribute.cover import Cover
from ..attribute.intervals import Ints, distinct, grouped
from ..store.database import Database

_WORK = """
    select source_id, coalesce(device_id, {none}) as device_id, gpu_op_id, start_ns, end_ns,
        kind in ('memcpy', 'memset') as is_move, class = 'communication' as is_communication
    from _classed_op"""
NO_DEVICE = -(1 << 40)
BUSY, COMPUTE, _COMMUNICATION, _MEMORY, EITHER = range(5)
_ACTIVITIES = ("busy", "compute", "communication", "memory", "compute or communication")
# What hides a stretch: computing hides communication, both hide copies.
_HIDING = {_COMMUNICATION: COMPUTE, _MEMORY: EITHER}


@dataclass(frozen=True)
class Stretches:
    """Stretches of one activity on one device."""

    source_id: int
    device_id: int
    activity: int
    union: Cover
    gpu_op_id: Ints  # of each the first operation


class Activity:
    """The stretches of all devices of a database, made when they are first asked for."""

    def __init__(self, database: Database):
        self._database = database

    @cached_property
    def stretches(self) -> list[Stretches]:
        """By source, device and activity, each in order of time."""
        return list(_of_database(self._database))

    def tables(self) -> dict[str, Callable[[], pa.Table]]:
        """The functions that make the rows of both views."""
        return {"_device_activity": lambda: _activity(self.stretches), "_exposed": lambda: _exposed(self.stretches)}


def _of_database(database: Database) -> Iterator[Stretches]:
    rows = database.columns(_WORK.format(none=NO_DEVICE), "gpu_op_id")
    source, device = rows["source_id"].astype(np.int64), rows["device_id"].astype(np.int64)
    is_move, is_communication = (rows[name].astype(bool) for name in ("is_move", "is_communication"))
    devices, place = distinct(device)
    place += source * len(devices)
    order = grouped(place)
    for mine in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
        if not mine.size:
            continue
        chosen = slice(None) if len(mine) == len(place) else mine  # of one device they are in order as they are
        start, end, op = (rows[name][chosen] for name in ("start_ns", "end_ns", "gpu_op_id"))
        moves, communicates = is_move[chosen], is_communication[chosen] & ~is_move[chosen]
        masks = (np.ones(len(start), dtype=bool), ~moves & ~communicates, communicates, moves, ~moves)
        united: dict[bytes, tuple[Cover, Ints]] = {}  # without communication two of them are the same
        for activity, mask in enumerate(masks):
            if not mask.any():
                continue
            key = np.packbits(mask).tobytes()
            if key not in united:
                union = Cover.of(start[mask], end[mask])
                united[key] = union, op[mask][union.opened_by]
            yield Stretches(int(source[mine[0]]), int(device[mine[0]]), activity, *united[key])


def _activity(stretches: list[Stretches]) -> pa.Table:
    columns = _columns(stretches)
    columns["end_ns"] = _joined([of.union.end for of in stretches])
    return pa.table(columns)


def _exposed(stretches: list[Stretches]) -> pa.Table:
    known = {(of.source_id, of.device_id, of.activity): of for of in stretches}
    chosen, exposed = [of for of in stretches if of.activity in _HIDING], []
    for of in chosen:
        hiding = known.get((of.source_id, of.device_id, _HIDING[of.activity]))
        hidden = hiding.union.within(of.union.start, of.union.end) if hiding else 0
        exposed.append(of.union.end - of.union.start - hidden)
    return pa.table(_columns(chosen) | {"exposed_ns": _joined(exposed)})


def device_column(device: Ints) -> pa.Array:
    """Numbers of devices as a column, NULL for work without one."""
    return pa.array(np.where(device == NO_DEVICE, 0, device).astype(np.int32), mask=device == NO_DEVICE)


def _columns(stretches: list[Stretches]) -> dict[str, pa.Array]:
    """source_id, device_id, activity, gpu_op_id and start_ns of all stretches."""
    count = [len(of.gpu_op_id) for of in stretches]
    activity = np.repeat([of.activity for of in stretches], count).astype(np.int8)
    return {
        "source_id": pa.array(np.repeat([of.source_id for of in stretches], count).astype(np.int32)),
        "device_id": device_column(np.repeat([of.device_id for of in stretches], count).astype(np.int64)),
        "activity": pa.DictionaryArray.from_arrays(activity, _ACTIVITIES),
        "gpu_op_id": _joined([of.gpu_op_id for of in stretches]),
        "start_ns": _joined([of.union.start for of in stretches]),
    }


def _joined(columns: list[Ints]) -> pa.Array:
    return pa.array(np.concatenate([np.empty(0, dtype=np.int64), *columns]).astype(np.int64))
