"""The critical path of a source: what its tables hold in, critical_segment out."""

import numpy as np
import pyarrow as pa

from ...vocabulary import RANGE_PYTHON
from ..attribute.critical_path import KINDS, critical_path, lend
from ..attribute.intervals import NONE, take
from ..attribute.launches import Work
from ..read.staging import Staging

_RANGE = f"(from range semi join reading using (source_id) where kind <> '{RANGE_PYTHON}')"
_CALL = "(from api_call semi join reading using (source_id) where not is_duplicate)"
# Of each process the main thread (or else the one with the most time), and from when until when its CPU was seen.
_PROCESSES = f"""
    select work_process_id, arg_max(thread_id, (is_main, time)), min(start), max("end")
    from (
        select thread_id, sum(end_ns - start_ns) as time, min(start_ns) as start, max(end_ns) as "end"
        from (
            select thread_id, start_ns, end_ns from {_RANGE}
            union all
            select thread_id, start_ns, end_ns from {_CALL}
        )
        group by thread_id
    )
    join work_thread using (thread_id)
    group by work_process_id
    order by work_process_id"""
# Where the CPU waited for the GPU.
_WAITS = """
    select work_process_id as process, start_ns as start, end_ns as "end"
    from (from _waiting_call semi join reading using (source_id))
    join work_thread using (thread_id)"""
# What threads other than the main one did.
_OTHERS = f"""
    select work_process_id as process, thread_id as thread, start_ns as start, end_ns as "end"
    from {_RANGE} as range
    join work_thread using (thread_id)
    where range.parent_id is null and not is_main
    order by start"""


def write(staging: Staging, work: Work, first: int) -> None:
    """A chain for each process that has GPU work; Kineto does not say whose it is and has one for all.

    Called when range and api_call hold the source; `first` is the id of the first operation.
    """
    if not work.start.size:
        return
    run = staging.database.connection.execute
    waits, others = run(_WAITS).fetchnumpy(), run(_OTHERS).fetchnumpy()
    for number, main, begin, end in run(_PROCESSES).fetchall():
        mine = np.flatnonzero(work.process == number)
        if not mine.size:
            continue
        chain = work if mine.size == work.process.size else work.only(mine)
        extent = min(begin, int(chain.start.min())), max(end, int(chain.end.max()))
        asked = waits["process"] == number
        found = critical_path(chain, waits["start"][asked], waits["end"][asked], *extent, main)
        asked = (others["process"] == number) & np.isin(others["thread"], np.unique(chain.launch_thread))
        asked &= others["thread"] != main
        found = lend(found, main, *(others[column][asked] for column in ("start", "end", "thread")))
        columns = {
            "process_id": pa.array(np.full(len(found.kind), number), mask=np.full(len(found.kind), number == 0)),
            "kind": pa.DictionaryArray.from_arrays(found.kind, KINDS).cast(pa.string()),
            "start_ns": found.start,
            "end_ns": found.end,
            "gpu_op_id": pa.array(take(mine + first, found.operation), mask=found.operation < 0),
            "thread_id": pa.array(found.thread, mask=found.thread == NONE),
        }
        staging.write("critical_segment", columns)
