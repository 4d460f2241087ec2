"""What devices do in the time that findings are about: the rows of the view _steady_spent.

stretches    [a   ]   [b    ]  [c]         counts what lies between the borders: of a stretch that they cut a part
borders         |                  |
"""

import numpy as np
import pyarrow as pa

from ..attribute.cover import Cover
from ..store.database import Database
from .activity import BUSY, COMPUTE, EITHER, NO_DEVICE, Activity, device_column
from .gaps import Blame
from .idle import CAUSES

_BORDERS = f"""
    select source_id, coalesce(device_id, {NO_DEVICE}) as device_id, start_ns, end_ns
    from _steady_device
    order by all"""
_SPENT = {"busy_ns": BUSY, "compute_ns": COMPUTE, "active_ns": EITHER}


def rows(database: Database, activity: Activity, blame: Blame) -> pa.Table:
    """The rows of the view."""
    unions = {(of.source_id, of.device_id, of.activity): of.union for of in activity.stretches}
    borders = database.rows(_BORDERS)
    found: dict[str, list[int]] = {name: [] for name in (*_SPENT, *(f"{cause}_ns" for cause in CAUSES))}
    for source_id, device_id, start, end in borders:
        spent = [_within(unions.get((source_id, device_id, kind)), start, end) for kind in _SPENT.values()]
        for column, ns in zip(found.values(), spent + blame.idle_ns(source_id, device_id, start, end), strict=True):
            column.append(ns)
    source, device, start, end = (np.array([row[place] for row in borders], dtype=np.int64) for place in range(4))
    keys = {"source_id": source.astype(np.int32), "device_id": device_column(device), "start_ns": start, "end_ns": end}
    return pa.table(keys | {name: np.array(column, dtype=np.int64) for name, column in found.items()})


def _within(union: Cover | None, start: int, end: int) -> int:
    """How much of a union lies between two moments."""
    return int(union.within(np.array([start]), np.array([end]))[0]) if union else 0
