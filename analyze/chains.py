"""The critical path of a source: what its tables hold in, critical_segment out."""

import numpy as np
import pyarrow as pa

from ..vocabulary import RANGE_PYTHON
from .critical_path import KINDS, Chain, critical_path, lend
from .intervals import NONE, Ints, distinct, take
from .staging import Staging

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
_WAITS = f"""
    select work_process_id as process, start_ns as start, end_ns as "end"
    from {_CALL} as call
    semi join (
        from staged_name
        where regexp_matches(text, '^(cu|cuda|hip)((Device|Ctx|Context|Stream|Event)Synchronize|Memcpy[A-Za-z0-9]*$)')
            and not regexp_matches(text, '(?i)async')
    ) using (name_id)
    join work_thread using (thread_id)"""
# What threads other than the main one did.
_OTHERS = f"""
    select work_process_id as process, thread_id as thread, start_ns as start, end_ns as "end"
    from {_RANGE} as range
    join work_thread using (thread_id)
    where range.parent_id is null and not is_main
    order by start"""


def write(staging: Staging) -> None:
    """A chain for each process that has GPU work; Kineto does not say whose it is and has one for all.

    Called when range, api_call and gpu_op hold the source; GPU operations have their ids in order of their begin.
    """
    run = staging.database.connection.execute
    work, process, first = _work(staging)
    if not process.size:
        return
    waits, others = run(_WAITS).fetchnumpy(), run(_OTHERS).fetchnumpy()
    for number, main, begin, end in run(_PROCESSES).fetchall():
        mine = np.flatnonzero(process == number)
        if not mine.size:
            continue
        chain = work if mine.size == process.size else work.only(mine)
        extent = min(begin, int(chain.start.min())), max(end, int(chain.end.max()))
        asked = waits["process"] == number
        found = critical_path(chain, waits["start"][asked], waits["end"][asked], *extent, main)
        asked = (others["process"] == number) & np.isin(others["thread"], np.unique(chain.call_thread))
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
        staging.database.connection.register("computed", pa.table(columns))
        run("insert into critical_segment by name select reading.source_id, c.* from computed as c cross join reading")


def _work(staging: Staging) -> tuple[Chain, Ints, int]:
    """GPU operations in order of their ids with what launched them, the process of each, and the first id."""
    run = staging.database.connection.execute
    calls = run("select api_call_id, thread_id from api_call semi join reading using (source_id)").fetchnumpy()
    first_call = int(calls["api_call_id"].min(initial=0))
    threads = _by_id(calls["api_call_id"], first_call, calls["thread_id"])
    del calls
    row = run(
        f"""select gpu_op_id, coalesce(process_id, 0) as process, coalesce(device_id, {NONE})::bigint as device,
            coalesce(stream_id, {NONE}) as stream, start_ns, end_ns, coalesce(launch_start_ns, {NONE}) as call_start,
            coalesce(launch_end_ns, {NONE}) as call_end, coalesce(api_call_id, {NONE}) as call
        from gpu_op semi join reading using (source_id)"""
    ).fetchnumpy()
    ids = row.pop("gpu_op_id")
    first = int(ids.min()) if len(ids) else 0
    call = _by_id(ids, first, row.pop("call"))
    thread = take(threads, np.where(call >= 0, call - first_call, NONE))
    stream = distinct(row.pop("stream"))[1] * (int(row["device"].max(initial=0)) + 2) + row["device"]
    ordered = {name: _by_id(ids, first, row.pop(name)) for name in list(row)}
    chain = Chain(
        ordered["start_ns"], ordered["end_ns"], ordered["device"], _by_id(ids, first, stream), ordered["call_start"],
        ordered["call_end"], thread,
    )  # fmt: skip
    return chain, ordered["process"], first


def _by_id(ids: Ints, first: int, values: Ints) -> Ints:
    """A column in the order of dense ids that begin with `first`."""
    result = np.empty(len(ids), dtype=np.int64)
    result[ids - first] = values
    return result
