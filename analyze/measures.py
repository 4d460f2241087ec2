"""What the GPU work of each range and of each name path adds up to.

Sums, extents and unions are taken level by level of the tree: at one level every operation belongs to at most one
range of each rule, so a stable sort by range leaves the operations of a range together and in order of their start.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .attribution import Attribution
from .intervals import Bools, Ints, blocks, is_first, union_length


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
    for operations, ranges, _ in found.levels():
        op, range_ = _together(operations, ranges)
        for rows in blocks(range_):
            yield _of_block(op[rows], range_[rows], work, start, end)


def _together(op: Ints, range_: Ints) -> tuple[Ints, Ints]:
    """The pairs with the operations of each range together, in order of their start."""
    if not (op[1:] > op[:-1]).all():
        order = np.argsort(op, kind="stable")
        op, range_ = op[order], range_[order]
    order = np.argsort(range_, kind="stable")
    return op[order], range_[order]


def _of_block(op: Ints, range_: Ints, work: Work, start: Ints, end: Ints) -> Columns:
    """Sums, extents and unions for pairs sorted by (range, operation)."""
    first = np.flatnonzero(is_first(range_))
    begin, finish = work.start[op], work.end[op]
    launch_begin, launch_finish = work.launch_start[op], work.launch_end[op]
    is_kernel, is_first_op = work.is_kernel[op], work.is_first_op[op]
    low, high = start[range_], end[range_]
    _, inside = union_length(range_, np.clip(begin, low, high), np.clip(finish, low, high))

    def total(value: Ints | Bools) -> Ints:
        return np.add.reduceat(value, first, dtype=np.int64)

    return {
        "range_id": range_[first],
        "gpu_op_cnt": np.diff(first, append=len(range_)),
        "kernel_cnt": total(is_kernel),
        "launch_cnt": total(is_first_op),
        "launch_api_ns": total((launch_finish - launch_begin) * is_first_op),
        "queue_ns": total(np.maximum(0, begin - launch_finish)),
        "launch_latency_ns": total(begin - launch_begin),
        "gpu_op_ns": total(finish - begin),
        "kernel_ns": total((finish - begin) * is_kernel),
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


def busy_by_path(found: Attribution, work: Work) -> Columns:
    """Columns of the table path_busy; path_id is the index of the path."""
    paths, devices, lengths = [], [], []
    device_cnt = int(work.device.max(initial=0)) + 1
    for op, range_, _ in found.levels():
        if not op.size:
            continue
        pair = np.sort(found.path[range_] * len(work.start) + op)
        pair = pair[is_first(pair)]
        path = pair // len(work.start)
        for rows in blocks(path):
            key, length = _busy_by_device(path[rows], pair[rows] % len(work.start), work)
            paths.append(key // device_cnt)
            devices.append(key % device_cnt)
            lengths.append(length)
    empty = np.empty(0, np.int64)
    columns = (np.concatenate(c) if c else empty for c in (paths, devices, lengths))
    return dict(zip(("path_id", "device_id", "gpu_busy_ns"), columns, strict=True))
