"""The critical path of a source: what its tables hold in, critical_segment out."""

import numpy as np
import pyarrow as pa

from ..vocabulary import RANGE_PYTHON, SOURCE_KINETO
from .critical_path import KINDS, Chain, critical_path, lend
from .intervals import NONE, Ints, distinct, take
from .staging import Staging

# What the CPU did, and where it waited for the GPU. A Kineto trace does not say which process GPU work belongs to.
_CPU_EVENT = f"""
    create or replace temp table cpu_event as
    select
        if(source.kind = '{SOURCE_KINETO}', 0, thread.process_id) as process, thread_id as thread,
        thread.pid = thread.tid as is_main, what.start_ns as start, what.end_ns as "end", what.is_wait,
        what.is_outermost
    from (
        select thread_id, start_ns, end_ns, false as is_wait, parent_id is null as is_outermost
        from range semi join reading using (source_id)
        where kind <> '{RANGE_PYTHON}'
        union all
        select thread_id, start_ns, end_ns, call.is_wait, false as is_outermost
        from api_call semi join reading using (source_id)
        join (
            select name_id, regexp_matches(
                text, '^(cu|cuda|hip)((Device|Ctx|Context|Stream|Event)Synchronize|Memcpy[A-Za-z0-9]*$)'
            ) and not regexp_matches(text, '(?i)async') as is_wait
            from staged_name
        ) as call using (name_id)
        where not is_duplicate
    ) as what
    join thread using (thread_id)
    join reading using (source_id)
    join source using (source_id)"""
# Of each process the main thread (or else the one with the most time), and from when until when its CPU was seen.
_PROCESSES = """
    select process, arg_max(thread, (is_main, time)), min(start), max("end")
    from (
        select process, thread, any_value(is_main) as is_main, sum("end" - start) as time, min(start) as start,
            max("end") as "end"
        from cpu_event
        group by all
    )
    group by process
    order by process"""


def write(staging: Staging) -> None:
    """A chain for each process that has GPU work; Kineto does not say whose it is and has one for all.

    Called when range, api_call and gpu_op hold the source; GPU operations have their ids in order of their begin.
    """
    run = staging.database.connection.execute
    work, process, first = _work(staging)
    if not process.size:
        return
    run(_CPU_EVENT)
    waits = run('select process, start, "end" from cpu_event where is_wait').fetchnumpy()
    others = run("from cpu_event where is_outermost and not is_main order by start").fetchnumpy()
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
    staging.drop("cpu_event")


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
