"""Which call launched which GPU work.

The join is on (process, correlation id): a correlation id alone is unique within one process only. One call may own
many operations (CUDA graphs), one correlation may own several calls (nsys --cudabacktrace writes each call twice,
and ids wrap around); the launching call is then the last that began no later than the operation.
"""

from dataclasses import dataclass

import numpy as np

from .intervals import NONE, Bools, Ints


@dataclass(frozen=True)
class Calls:
    """CUDA API calls as arrays, one entry a call, in the order of the staged table."""

    process: Ints
    thread: Ints
    correlation: Ints
    start: Ints
    end: Ints
    event_class: Ints


@dataclass(frozen=True)
class Operations:
    """GPU operations as arrays, one entry an operation, in the order of the staged table."""

    process: Ints
    correlation: Ints
    device: Ints
    start: Ints
    end: Ints
    is_kernel: Bools


def link(calls: Calls, operations: Operations) -> tuple[Ints, Bools]:
    """The launching call of each operation (NONE without), and which calls are second copies of another.

    A copy has the same thread, correlation and times as another call; of several the one of the lowest event class
    is kept (67 marks the rows that --cudabacktrace adds).
    """
    call_key, operation_key = _keys(calls, operations)
    order = np.lexsort((calls.event_class, calls.start, call_key))
    key, start = call_key[order], calls.start[order]
    same = np.zeros(len(order), dtype=bool)
    if len(order):
        same[1:] = (
            (key[1:] == key[:-1])
            & (start[1:] == start[:-1])
            & (calls.end[order][1:] == calls.end[order][:-1])
            & (calls.thread[order][1:] == calls.thread[order][:-1])
        )
    is_duplicate = np.zeros(len(order), dtype=bool)
    is_duplicate[order[same]] = True
    order, key, start = order[~same], key[~same], start[~same]

    first = np.searchsorted(key, operation_key, side="left")
    at = np.searchsorted(key, operation_key, side="right") - 1
    unknown = (first > at) | (operation_key < 0)
    active = np.flatnonzero(~unknown & (at > first))
    while active.size:
        active = active[(at[active] > first[active]) & (start[at[active]] > operations.start[active])]
        at[active] -= 1
    launch = np.full(len(at), NONE, dtype=np.int64)
    launch[~unknown] = order[at[~unknown]]
    return launch, is_duplicate


def _keys(calls: Calls, operations: Operations) -> tuple[Ints, Ints]:
    """One integer for (process, correlation); negative where there is no correlation."""
    processes = np.unique(np.concatenate([calls.process, operations.process]))
    ids = np.unique(np.concatenate([calls.correlation, operations.correlation]))

    def key(process: Ints, correlation: Ints) -> Ints:
        number = np.searchsorted(processes, process) * len(ids) + np.searchsorted(ids, correlation)
        return np.where(correlation < 0, np.int64(NONE), number)

    return key(calls.process, calls.correlation), key(operations.process, operations.correlation)
