"""What the GPU work of each range and of each name path adds up to.

Sums, extents and unions are taken level by level of the tree: at one level every operation belongs to at most one
range of each rule, so a stable sort by range leaves the operations of a range together and in order of their start.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .attribution import Attribution
from .intervals import Bools, Ints, is_first, union_length


@dataclass(frozen=True)
class Work:
    """GPU operations sorted by start, with what each contributes."""

    start: Ints
    end: Ints
    device: Ints
    is_kernel: Bools
    launch_start: Ints
    launch_end: Ints
    is_first_op: Bools


Columns = dict[str, Ints]


def by_range(found: Attribution, work: Work, start: Ints, end: Ints) -> Iterator[Columns]:
    """Columns of the table range_measure, level by level; range_id is the index of the range.

    `start` and `end` are the ranges'.
    """
    values = _values(work)
    own = _self(found, work, len(start))
    for op, range_, _ in found.levels():
        if op.size:
            level = _of_level(op, range_, work, values, start, end)
            yield level | {name: total[level["range_id"]] for name, total in own.items()}


def _values(work: Work) -> Columns:
    """What one operation adds to the sums of a range."""
    duration = work.end - work.start
    launch = work.launch_end - work.launch_start
    return {
        "gpu_op_cnt": np.ones(len(duration), dtype=np.int64),
        "kernel_cnt": work.is_kernel.astype(np.int64),
        "launch_cnt": work.is_first_op.astype(np.int64),
        "launch_api_ns": np.where(work.is_first_op, launch, 0),
        "queue_ns": np.maximum(0, work.start - work.launch_end),
        "launch_latency_ns": work.start - work.launch_start,
        "gpu_op_ns": duration,
        "kernel_ns": np.where(work.is_kernel, duration, 0),
    }


def _of_level(op: Ints, range_: Ints, work: Work, values: Columns, start: Ints, end: Ints) -> Columns:
    if not (op[1:] > op[:-1]).all():
        order = np.argsort(op, kind="stable")
        op, range_ = op[order], range_[order]
    order = np.argsort(range_, kind="stable")
    op, range_ = op[order], range_[order]
    first = np.flatnonzero(is_first(range_))
    begin, finish = work.start[op], work.end[op]
    cut_begin = np.clip(begin, start[range_], end[range_])
    cut_finish = np.clip(finish, start[range_], end[range_])
    _, inside = union_length(range_, cut_begin, cut_finish)
    sums = {name: np.add.reduceat(value[op], first) for name, value in values.items()}
    return {"range_id": range_[first]} | sums | {
        "gpu_busy_ns": _busy(range_, op, work)[1],
        "first_gpu_start_ns": np.minimum.reduceat(begin, first),
        "last_gpu_end_ns": np.maximum.reduceat(finish, first),
        "gpu_busy_inside_ns": inside,
    }


def _busy(group: Ints, op: Ints, work: Work) -> tuple[Ints, Ints]:
    """Groups and the length of the union of their operations, per device, added up; rows sorted by (group, op)."""
    group_device, length = _busy_by_device(group, op, work)
    groups = group_device // (int(work.device.max()) + 1)
    first = np.flatnonzero(is_first(groups))
    return groups[first], np.add.reduceat(length, first)


def _busy_by_device(group: Ints, op: Ints, work: Work) -> tuple[Ints, Ints]:
    """The same for every (group, device), as one number each: group * devices + device."""
    device_cnt = int(work.device.max()) + 1
    if device_cnt == 1:
        return union_length(group, work.start[op], work.end[op])
    key = group * device_cnt + work.device[op]
    order = np.argsort(key, kind="stable")
    key, op = key[order], op[order]
    return union_length(key, work.start[op], work.end[op])


def _self(found: Attribution, work: Work, range_cnt: int) -> Columns:
    """Sums over the operations that each range owns itself."""
    owned = np.flatnonzero(found.owner >= 0)
    kernel = work.is_kernel[owned]
    duration = (work.end - work.start)[owned]
    sums = {
        "self_gpu_op_cnt": np.ones(len(owned), dtype=np.int64),
        "self_kernel_cnt": kernel.astype(np.int64),
        "self_gpu_op_ns": duration,
        "self_kernel_ns": np.where(kernel, duration, 0),
    }
    totals = {name: np.zeros(range_cnt, dtype=np.int64) for name in sums}
    for name, value in sums.items():
        np.add.at(totals[name], found.owner[owned], value)
    return totals


def busy_by_path(found: Attribution, work: Work) -> Columns:
    """Columns of the table path_busy; path_id is the index of the path."""
    paths, devices, lengths = [], [], []
    device_cnt = int(work.device.max(initial=0)) + 1
    for op, range_, _ in found.levels():
        if not op.size:
            continue
        pair = np.sort(found.path[range_] * len(work.start) + op)
        pair = pair[is_first(pair)]
        key, length = _busy_by_device(pair // len(work.start), pair % len(work.start), work)
        paths.append(key // device_cnt)
        devices.append(key % device_cnt)
        lengths.append(length)
    empty = np.empty(0, np.int64)
    columns = (np.concatenate(c) if c else empty for c in (paths, devices, lengths))
    return dict(zip(("path_id", "device_id", "gpu_busy_ns"), columns, strict=True))
