"""What the GPU work of each range and of each name path adds up to.

Almost everything is a sum: an operation counts once in each range on the way from its innermost ranges to the top, so
sums are taken at the innermost ranges and handed up the tree, and no (operation, range) pair is ever written down. The
length of a union is such a sum too, for operations that no other one overlaps; only the others are looked at range by
range.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .attribution import Attribution
from .intervals import Bools, Ints, Tree, blocks, overlapping, union_length


@dataclass(frozen=True)
class Work:
    """GPU operations sorted by start, with what each contributes."""

    start: Ints
    end: Ints
    device: Ints
    process: Ints
    is_kernel: Bools
    launch_start: Ints
    launch_end: Ints
    is_first_op: Bools


Columns = dict[str, Ints]


def by_range(found: Attribution, work: Work, start: Ints, end: Ints) -> Columns:
    """Columns of the table range_measure; range_id is the index of the range. `start` and `end` are the ranges'."""
    tree = Tree.of(found.parent, found.depth)
    op, tip, sign = _tips(found, tree)
    extra_op, extra_range, _ = found.extra
    length = work.end - work.start

    def total(value: Ints | Bools) -> Ints:
        sums = np.zeros(len(found.parent), dtype=np.int64)
        np.add.at(sums, tip, value[op] * sign)
        tree.hand_up(np.add, sums)
        np.add.at(sums, extra_range, value[extra_op].astype(np.int64))
        return sums

    def extreme(pick: np.ufunc, value: Ints, nothing: int) -> Ints:
        found_so_far = np.full(len(found.parent), nothing)
        pick.at(found_so_far, tip, value[op])
        tree.hand_up(pick, found_so_far)
        pick.at(found_so_far, extra_range, value[extra_op])
        return found_so_far

    count = total(np.ones(len(length), dtype=np.int64))
    filled = np.flatnonzero(count)
    shares_device = overlapping(work.device, work.start, work.end)
    shares_process = overlapping(work.process, work.start, work.end)
    busy, inside = _unions(found, work, start, end, np.flatnonzero(shares_device | shares_process))
    alone = ~(shares_device | shares_process)
    inside += _alone_inside(tree, (op, tip, sign), found.extra, work, alone, start, end)
    columns = {
        "gpu_op_cnt": count,
        "kernel_cnt": total(work.is_kernel),
        "launch_cnt": total(work.is_first_op),
        "launch_api_ns": total((work.launch_end - work.launch_start) * work.is_first_op),
        "queue_ns": total(np.maximum(0, work.start - work.launch_end)),
        "launch_latency_ns": total(work.start - work.launch_start),
        "gpu_op_ns": total(length),
        "kernel_ns": total(length * work.is_kernel),
        "gpu_busy_ns": total(length * alone) + busy,
        "first_gpu_start_ns": extreme(np.minimum, work.start, np.iinfo(np.int64).max),
        "last_gpu_end_ns": extreme(np.maximum, work.end, np.iinfo(np.int64).min),
        "gpu_busy_inside_ns": inside,
    }
    return {"range_id": filled} | {name: column[filled] for name, column in columns.items()}


_Signed = tuple[Ints, Ints, Ints]


def _tips(found: Attribution, tree: Tree) -> _Signed:
    """(operation, range, sign): what is handed up from these ranges counts each operation once in each of its ranges.

    An operation with several chains begins at the innermost range of each; where two of them meet it is taken off
    again. (Of nodes in the order of a walk, each two neighbours meet at their lowest common ancestor.)
    """
    known = [np.flatnonzero(chain >= 0) for chain in found.chains]
    op = np.concatenate(known)
    tip = np.concatenate([chain[index] for chain, index in zip(found.chains, known, strict=True)])
    several = np.flatnonzero(np.bincount(op, minlength=len(found.owner)) > 1)
    ends = np.sort(np.stack([chain[several] for chain in found.chains]), axis=0)
    meeting_op, meeting = [op[:0]], [tip[:0]]
    for left, right in pairwise(ends):
        both = np.flatnonzero(left >= 0)
        ancestor = tree.common_ancestor(left[both], right[both])
        meeting_op.append(several[both][ancestor >= 0])
        meeting.append(ancestor[ancestor >= 0])
    taken_off = sum(map(len, meeting))
    sign = np.concatenate([np.ones(len(op), dtype=np.int64), np.full(taken_off, -1)])
    return np.concatenate([op, *meeting_op]), np.concatenate([tip, *meeting]), sign


def _alone_inside(
    tree: Tree, signed: _Signed, extra: _Signed, work: Work, alone: Bools, start: Ints, end: Ints
) -> Ints:
    """For each range the time inside its own extent of operations that nothing overlaps.

    A range encloses those below it: where an operation lies wholly inside it does so all the way up.
    """
    op, at, sign = (column[alone[signed[0]]] for column in signed)
    whole = np.zeros(len(start), dtype=np.int64)
    inside = np.zeros(len(start), dtype=np.int64)
    while op.size:
        begin, finish = work.start[op], work.end[op]
        is_whole = (begin >= start[at]) & (finish <= end[at])
        np.add.at(whole, at[is_whole], ((finish - begin) * sign)[is_whole])
        part = np.flatnonzero(~is_whole)
        op, at, sign = op[part], at[part], sign[part]
        np.add.at(inside, at, _inside(begin[part], finish[part], start[at], end[at]) * sign)
        at = tree.parent[at]
        up = at >= 0
        op, at, sign = op[up], at[up], sign[up]
    tree.hand_up(np.add, whole)
    op, at = (column[alone[extra[0]]] for column in extra[:2])
    np.add.at(inside, at, _inside(work.start[op], work.end[op], start[at], end[at]))
    return whole + inside


def _inside(begin: Ints, finish: Ints, low: Ints, high: Ints) -> Ints:
    """Length of the part of each interval that lies between two bounds."""
    length: Ints = np.maximum(np.minimum(finish, high) - np.maximum(begin, low), 0)
    return length


def _unions(found: Attribution, work: Work, start: Ints, end: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """For each range the union of the chosen operations: per device added up, and inside its extent over all devices.

    Level by level of the tree: at one level an operation belongs to at most one range of each rule, so a stable sort
    by range leaves the operations of a range together and in order of their start.
    """
    busy, inside = np.zeros((2, len(start)), dtype=np.int64)
    if not chosen.size:
        return busy, inside
    for member, around, _ in found.of_operations(chosen).levels():
        ops, ranges = _together(chosen[member], around)
        for rows in blocks(ranges):
            op, range_ = ops[rows], ranges[rows]
            key, length = _busy_by_device(range_, op, work)
            np.add.at(busy, key // _device_cnt(work), length)
            low, high = start[range_], end[range_]
            owner, length = union_length(range_, np.clip(work.start[op], low, high), np.clip(work.end[op], low, high))
            inside[owner] += length
    return busy, inside


def _together(op: Ints, range_: Ints) -> tuple[Ints, Ints]:
    """The pairs with the operations of each range together, in order of their start."""
    if not (op[1:] > op[:-1]).all():
        order = np.argsort(op, kind="stable")
        op, range_ = op[order], range_[order]
    order = np.argsort(range_, kind="stable")
    return op[order], range_[order]


def _device_cnt(work: Work) -> int:
    return int(work.device.max(initial=0)) + 1


def _busy_by_device(group: Ints, op: Ints, work: Work) -> tuple[Ints, Ints]:
    """The length of the union for every group * devices + device, for rows sorted by (group, op)."""
    device_cnt = _device_cnt(work)
    if device_cnt == 1:
        return union_length(group, work.start[op], work.end[op])
    key = group * device_cnt + work.device[op]
    order = np.argsort(key, kind="stable")
    key, op = key[order], op[order]
    return union_length(key, work.start[op], work.end[op])


def busy_by_path(work: Work, set_of: Ints, sets: tuple[Ints, Ints]) -> Columns:
    """Columns of the table path_busy; path_id is the index of the path.

    `set_of` is the set of paths of each operation (NONE without), `sets` the rows of all sets: set, in order, and path.
    """
    device_cnt = _device_cnt(work)
    shares = overlapping(work.device, work.start, work.end)
    alone = np.flatnonzero(~shares & (set_of >= 0))
    keys, member = np.unique(set_of[alone] * device_cnt + work.device[alone], return_inverse=True)
    sums = np.zeros(len(keys), dtype=np.int64)
    np.add.at(sums, member, (work.end - work.start)[alone])
    key, path = _paths_of(keys // device_cnt, sets)
    found = [(path * device_cnt + keys[key] % device_cnt, sums[key])]
    shared = np.flatnonzero(shares & (set_of >= 0))
    member, path = _paths_of(set_of[shared], sets)
    order = np.lexsort((member, path))
    op, path = shared[member[order]], path[order]
    found += [_busy_by_device(path[rows], op[rows], work) for rows in blocks(path)]
    key, length = (np.concatenate(column) for column in zip(*found, strict=True))
    keys, member = np.unique(key, return_inverse=True)
    busy = np.zeros(len(keys), dtype=np.int64)
    np.add.at(busy, member, length)
    return {"path_id": keys // device_cnt, "device_id": keys % device_cnt, "gpu_busy_ns": busy}


def _paths_of(set_of: Ints, sets: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """(index into set_of, path) for every path of each set."""
    begin = np.searchsorted(sets[0], set_of)
    count = np.searchsorted(sets[0], set_of, side="right") - begin
    index = np.repeat(np.arange(len(set_of)), count)
    position = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
    return index, sets[1][position]
