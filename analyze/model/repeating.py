"""Steps that no range shows: the period of the names of a source's kernels, or of its operators, in, found_step out.

Without GPU work the outermost operators of the busiest thread are what repeats, where each step has a backward: layers
of one pass repeat as well, and have none of their own.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ... import sql
from ..attribute.period import MOST_OF_A_LAYER, around, steps
from ..read.staging import Staging

# What is looked at first is cheap: an annotation that is called a step by its number and nothing else, of which
# _step_range has one at least.
CALLED_STEP = "(?i)^[^a-z]*(profiler)?step[^a-z]*$"
_NUMBERED = f"""
    select exists (
        from name
        where regexp_matches(text, {sql.literal(CALLED_STEP)}) and step_number(text) is not null
            and name_id in (select text_id from range semi join reading using (source_id) where kind = 'annotation')
    )"""
_SHOWN_BY = ("is_stepped_by_range", "is_stepped_by_optimizer")
_MANY = 100_000  # kernels: to look for what repeats in fewer takes less than to plan these
_LEAST_OF_TIME = 0.25  # that steps of few kernels cover: what takes less is the layers of one pass behind a long start
_KERNELS = """
    select name, start, "end", thread, graph_ns
    from ({kernels})
    where process_id is not distinct from ? and device_id is not distinct from ?
    order by start, ran, number"""
_MODULES = """
    select start_ns as start, end_ns as "end"
    from range
    semi join reading using (source_id)
    where text_id in (select name_id from name where starts_with(text, 'nn.Module: '))"""
_LEAST_GRAPH_NS = 1_000_000
_ALIKE, _NEARLY_ALL = 0.2, 0.8  # of the median graph; of the graphs
_MOST_IN_A_MODULE = 2  # steps that begin in one call of a module; if there are more, they are its layers


def write(staging: Staging) -> None:
    """Nothing where ranges show steps. Called when range, api_call, gpu_op and name hold the source."""
    if staging.scalar(_NUMBERED):
        return
    devices = staging.database.connection.execute(sql.staging("repeated_device")).fetchall()
    kernel_cnt = sum(cnt for _, _, cnt in devices)
    if kernel_cnt > _MANY and _are_shown(staging):
        return
    found = [
        columns for process, rows in _sequences(staging, devices) if (columns := _repeated(staging, process, rows))
    ]
    if found and kernel_cnt <= _MANY and _are_shown(staging):
        return
    for columns in found:
        staging.write("found_step", columns)


def _are_shown(staging: Staging) -> bool:
    """Whether ranges show steps, or the ends of steps."""
    return any(staging.scalar(sql.staging(by)) for by in _SHOWN_BY)


def _sequences(
    staging: Staging, devices: list[tuple[int | None, int | None, int]]
) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Of each process what it launched on its device, in order; without any GPU work a thread's operators."""
    run = staging.database.connection.execute
    for process, device, _ in devices:
        statement = _KERNELS.format(kernels=sql.staging("repeated_kernel"))
        yield process, run(statement, [process, device]).fetchnumpy()
    if not devices:
        operators = run(sql.staging("repeated_operator")).fetchnumpy()
        process = operators["process_id"][:1].tolist()  # None where it is not recorded
        yield (process[0] if process else None), operators


def _repeated(staging: Staging, process: int | None, kernels: dict[str, Any]) -> dict[str, Any] | None:
    """Columns of found_step of a process by a sequence of kernels (or operators), None where nothing repeats."""
    names = kernels["name"].astype(np.int64)
    begin, end = steps(names)
    if not begin.size:
        begin, end = around(names, np.flatnonzero(_are_long_graphs(kernels["graph_ns"])))
    if not begin.size or not _learns_in_each(kernels, begin, end):
        return None
    begins, ends = kernels["start"][begin], _ends(kernels, begin, end)
    if (ends <= begins).any():  # one launch of a graph holds several
        return None
    covered = len(begins) * np.median(ends - begins)
    is_most = covered >= _LEAST_OF_TIME * (kernels["end"].max() - kernels["start"].min())
    if np.median(end - begin) < MOST_OF_A_LAYER and not is_most:
        return None
    modules = staging.database.columns(_MODULES)
    inside = np.searchsorted(begins, modules["end"]) - np.searchsorted(begins, modules["start"])
    if inside.max(initial=0) > _MOST_IN_A_MODULE:
        return None
    threads, counts = np.unique(kernels["thread"], return_counts=True)
    thread = int(threads[counts.argmax()])
    none = np.ones(begin.size, dtype=bool)
    return {
        "process_id": pa.array(np.full(begin.size, process or 0), mask=none if process is None else ~none),
        "thread_id": pa.array(np.full(begin.size, thread), mask=none if thread < 0 else ~none),
        "step": np.arange(1, begin.size + 1),
        "start_ns": begins,
        "end_ns": ends,
    }


def _learns_in_each(rows: dict[str, Any], begin: Any, end: Any) -> bool:
    """Whether of operators each step has some of a backward and some that are of none; of kernels nobody asks."""
    if "is_backward" not in rows:
        return True
    before = np.append(0, np.cumsum(rows["is_backward"]))
    count = before[end] - before[begin]
    return bool(((count > 0) & (count < end - begin)).all())


def _are_long_graphs(length: Any) -> Any:
    """Which operations are graphs that were recorded whole, and long enough to be a step: nearly all as long."""
    is_long = length >= _LEAST_GRAPH_NS
    of_graphs = length[is_long]
    is_usual = np.abs(of_graphs - np.median(of_graphs)) <= _ALIKE * np.median(of_graphs) if of_graphs.size else is_long
    return is_long & (is_usual.mean() >= _NEARLY_ALL if is_usual.size else False)


def _ends(kernels: dict[str, Any], begin: Any, end: Any) -> Any:
    """When each step ends: at the next one's begin, else with the end of its own last launch."""
    found = kernels["end"][end - 1].copy()
    is_followed = np.append(end[:-1] == begin[1:], False)
    found[is_followed] = kernels["start"][begin[1:]][is_followed[:-1]]
    return found
