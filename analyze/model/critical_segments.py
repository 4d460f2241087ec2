"""The critical path of a source: what its tables hold in, critical_segment out."""

import numpy as np
import pyarrow as pa

from ... import sql
from ..attribute.critical_path import KINDS, critical_path, lend
from ..attribute.intervals import NONE, take
from ..attribute.launches import Work
from ..read.staging import Staging
from ..store import arrow_functions as arrow


def write(staging: Staging, work: Work, first: int) -> None:
    """A path for each process that has GPU work; Kineto does not say whose it is and has one for all.

    Called when range and api_call hold the source; `first` is the id of the first operation.
    """
    if not work.start.size:
        return
    run = staging.database.connection.execute
    is_fed = np.zeros(work.start.size, dtype=bool)
    is_fed[staging.database.columns(sql.staging("critical_fed"))["gpu_op_id"] - first] = True
    waits, others = (staging.database.columns(sql.staging(name)) for name in ("critical_wait", "critical_other"))
    for number, main, begin, end in run(sql.staging("critical_process")).fetchall():
        mine = np.flatnonzero(work.process == number)
        if not mine.size:
            continue
        own = work if mine.size == work.process.size else work.only(mine)
        extent = min(begin, int(own.start.min())), max(end, int(own.end.max()))
        asked = waits["process"] == number
        found = critical_path(own, waits["start"][asked], waits["end"][asked], *extent, main, is_fed[mine])
        asked = (others["process"] == number) & np.isin(others["thread"], np.unique(own.launch_thread))
        asked &= others["thread"] != main
        found = lend(found, main, *(others[column][asked] for column in ("start", "end", "thread")))
        columns = {
            "process_id": pa.array(np.full(len(found.kind), number), mask=np.full(len(found.kind), number == 0)),
            "kind": arrow.cast(pa.DictionaryArray.from_arrays(found.kind, KINDS), pa.string()),
            "start_ns": found.start,
            "end_ns": found.end,
            "gpu_op_id": pa.array(take(mine + first, found.operation), mask=found.operation < 0),
            "thread_id": pa.array(found.thread, mask=found.thread == NONE),
        }
        staging.write("critical_segment", columns)
