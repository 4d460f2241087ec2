"""Steps that no range shows: the period of the kernels' names of a source in, found_step out."""

from typing import Any

import numpy as np
import pyarrow as pa

from ..attribute.period import steps
from ..read.staging import Staging

_HAS_STEPS = "select exists (from _step semi join reading using (source_id))"
# Of each process the device with the most kernels: others wait for it, or do the same.
_DEVICES = """
    select process_id, arg_max(device_id, (kernel_cnt, -device_id))
    from (
        select process_id, device_id, count(*) as kernel_cnt
        from gpu_op
        semi join reading using (source_id)
        where kind in ('kernel', 'graph')
        group by all
    )
    group by process_id
    order by process_id"""
# What is launched when; a graph has one launch and its kernels the order in which they ran.
_KERNELS = """
    select
        op.name_id as name,
        coalesce(op.launch_start_ns, op.start_ns) as start,
        coalesce(op.launch_end_ns, op.end_ns) as "end",
        coalesce(call.thread_id, -1) as thread
    from gpu_op as op
    semi join reading using (source_id)
    left join api_call as call using (api_call_id)
    where op.kind in ('kernel', 'graph')
        and op.process_id is not distinct from ?
        and op.device_id is not distinct from ?
    order by start, op.start_ns, op.gpu_op_id"""


def write(staging: Staging) -> None:
    """Nothing where ranges show steps. Called when range, api_call, gpu_op and name hold the source."""
    run = staging.database.connection.execute
    devices = run(_DEVICES).fetchall()
    if not devices or staging.scalar(_HAS_STEPS):
        return
    for process, device in devices:
        kernels = run(_KERNELS, [process, device]).fetchnumpy()
        begin, end = steps(kernels["name"].astype(np.int64))
        if not begin.size:
            continue
        begins, ends = kernels["start"][begin], _ends(kernels, begin, end)
        if (ends <= begins).any():  # one launch of a graph holds several
            continue
        threads, counts = np.unique(kernels["thread"], return_counts=True)
        thread = int(threads[counts.argmax()])
        none = np.ones(begin.size, dtype=bool)
        columns = {
            "process_id": pa.array(np.full(begin.size, process or 0), mask=none if process is None else ~none),
            "thread_id": pa.array(np.full(begin.size, thread), mask=none if thread < 0 else ~none),
            "step": np.arange(1, begin.size + 1),
            "start_ns": begins,
            "end_ns": ends,
        }
        staging.write("found_step", columns)


def _ends(kernels: dict[str, Any], begin: Any, end: Any) -> Any:
    """When each step ends: at the next one's begin, else with the end of its own last launch."""
    found = kernels["end"][end - 1].copy()
    is_followed = np.append(end[:-1] == begin[1:], False)
    found[is_followed] = kernels["start"][begin[1:]][is_followed[:-1]]
    return found
