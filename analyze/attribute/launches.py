"""Which call launched which GPU work.

The join is on (process, correlation id): a correlation id alone is unique within one process only. One call may own
many operations (CUDA graphs), one correlation may own several calls (ids wrap around); the launching call is then the
last that began no later than the operation. nsys --cudabacktrace writes each call twice: the outer copy is left out.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from .intervals import NONE, Bools, Ints, distinct, overlapping, take

# An operation that begins later than this after its launch, though its stream was free, waited for something else.
LONG_DELAY_NS = 10_000

_EMPTY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Calls:
    """CUDA API calls as arrays, one entry a call, in the order of the staged table."""

    process: Ints
    thread: Ints
    correlation: Ints
    start: Ints
    end: Ints
    event_class: Ints

    def without_keys(self) -> "Calls":
        """The same without what only `link` needs."""
        return replace(self, process=_EMPTY, correlation=_EMPTY, event_class=_EMPTY)


@dataclass(frozen=True)
class Operations:
    """GPU operations as arrays, one entry an operation, in the order of the staged table."""

    process: Ints
    correlation: Ints
    device: Ints
    stream: Ints
    start: Ints
    end: Ints
    is_kernel: Bools

    def without_keys(self) -> "Operations":
        """The same without what only `link` needs."""
        return replace(self, correlation=_EMPTY)


@dataclass(frozen=True)
class Launched:
    """GPU operations and their launching calls, NONE without: `call` among all, `launch` among those with work."""

    calls: Calls
    operations: Operations
    call: Ints
    launch: Ints

    @cached_property
    def by_start(self) -> Ints:
        """The operations in order of their start, which is the order of their ids."""
        return np.argsort(self.operations.start, kind="stable")


@dataclass(frozen=True)
class Work:
    """GPU operations in order of their start, which is that of their ids, with what launched them (NONE without)."""

    start: Ints
    end: Ints
    device: Ints
    stream: Ints  # a number for each device and stream
    process: Ints
    is_kernel: Bools
    launch_start: Ints
    launch_end: Ints
    launch_thread: Ints
    is_first_op: Bools

    @cached_property
    def shares_device(self) -> Bools:
        """Which operations share time with another one on their device."""
        return overlapping(self.device, self.start, self.end)

    @cached_property
    def by_end(self) -> Ints:
        """The operations in order of their end, of several that end at once by their start."""
        return np.lexsort((self.start, self.end))

    def only(self, chosen: slice | Ints) -> "Work":
        """Some of the operations."""
        return Work(*(getattr(self, f.name)[chosen] for f in fields(self)))


WRAPPER_CLASS = 67  # eventClass of the rows that nsys --cudabacktrace adds around each call


def link(calls: Calls, operations: Operations) -> tuple[Ints, Bools]:
    """The launching call of each operation (NONE without), and which calls are second copies of another.

    calls by key        5  5  5  8        in order of key and begin: a run for each correlation id
    operation of id 5         |           the last of its run ...
      begins behind        ^              ... is left, call by call, for one that began no later than the operation
    """
    key, operation_key = _keys(calls, operations)
    is_duplicate = _second_copies(calls, key)
    key[is_duplicate] = NONE
    start, order = calls.start, None
    if (key[1:] <= key[:-1]).any():  # a file lists calls in order, those of one process have rising ids
        order = np.lexsort((start, key))
        key, start = key[order], start[order]
    first, at = _runs(key, operation_key)
    at -= 1
    unknown = (first > at) | (operation_key < 0)
    active = np.flatnonzero(~unknown & (at > first))
    while active.size:
        active = active[(at[active] > first[active]) & (start[at[active]] > operations.start[active])]
        at[active] -= 1
    at[unknown] = NONE
    return at if order is None else take(order, at), is_duplicate


def _runs(key: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Where the run of each wanted key begins among keys in order, and where it ends: there, too, if there is none.

    Ids of CUDA lie close together: then a table says how many keys lie below each. Negative ones are not looked for.
    """
    width = int(max(key.max(initial=NONE), wanted.max(initial=NONE))) + 1
    if width > 8 * len(key) + 1024:
        return np.searchsorted(key, wanted, side="left"), np.searchsorted(key, wanted, side="right")
    negative_cnt = int(np.searchsorted(key, 0))
    below = np.cumsum(np.bincount(key[negative_cnt:] + 1, minlength=width + 2)) + negative_cnt
    looked_for = np.maximum(wanted, 0)
    return below[looked_for], below[looked_for + 1]


def _second_copies(calls: Calls, key: Ints) -> Bools:
    """Wrapper rows around a call of the same thread and correlation that is in the file itself."""
    is_duplicate = np.zeros(len(key), dtype=bool)
    wrappers = np.flatnonzero((calls.event_class == WRAPPER_CLASS) & (key >= 0))
    if not wrappers.size:
        return is_duplicate
    inner = np.flatnonzero((calls.event_class != WRAPPER_CLASS) & (key >= 0))
    inner = inner[np.argsort(key[inner], kind="stable")]
    at = np.searchsorted(key[inner], key[wrappers])
    known = at < len(inner)
    known[known] &= key[inner[at[known]]] == key[wrappers[known]]
    known[known] &= calls.thread[inner[at[known]]] == calls.thread[wrappers[known]]
    is_duplicate[wrappers[known]] = True
    return is_duplicate


def _keys(calls: Calls, operations: Operations) -> tuple[Ints, Ints]:
    """One integer for (process, correlation); negative where there is no correlation."""
    processes = np.unique(np.concatenate([distinct(of.process)[0] for of in (calls, operations)]))
    width = int(max(calls.correlation.max(initial=0), operations.correlation.max(initial=0))) + 1
    if width * len(processes) < 1 << 62:
        return _key(processes, calls, width), _key(processes, operations, width)
    # these are no ids of CUDA, but a file can hold anything
    known = np.unique(np.concatenate([calls.correlation, operations.correlation]))
    numbered = (replace(of, correlation=_places(known, of.correlation)) for of in (calls, operations))
    return _key(processes, next(numbered), len(known)), _key(processes, next(numbered), len(known))


def _places(known: Ints, correlation: Ints) -> Ints:
    """The place of each correlation id among those known, negative ones as they are."""
    return np.where(correlation < 0, np.int64(NONE), np.searchsorted(known, correlation))


def _key(processes: Ints, of: Calls | Operations, width: int) -> Ints:
    if len(processes) == 1:
        return np.maximum(of.correlation, NONE)
    key: Ints = np.searchsorted(processes, of.process)
    key *= width
    key += of.correlation
    key[of.correlation < 0] = NONE
    return key
