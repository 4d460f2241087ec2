"""What the GPU work of each range and of each name path adds up to.

Almost everything is a sum: an operation counts once in each range on the way from its innermost ranges to the top, so
sums are taken at the innermost ranges and handed up the tree, and no (operation, range) pair is ever written down. The
length of a union is such a sum too, for operations that no other one overlaps; only the others are looked at range by
range.
"""

from collections import defaultdict
from itertools import pairwise

import numpy as np

from .intervals import Bools, Ints, Tree, blocks, overlapping, slices, take, union_length
from .launches import Work
from .reach import Reach, spread

Columns = dict[str, Ints]
_LATEST = np.iinfo(np.int64).max


def by_range(reach: Reach, launch: Ints, work: Work, start: Ints, end: Ints) -> Columns:
    """Columns of the table range_measure; range_id is the index of the range.

    `launch` is the launch of each operation (NONE without), `start` and `end` are the ranges'.

    tree of ranges      step ── forward ── mm           an operation is added at the innermost range of each rule ...
                             └─ backward ── MmBackward      +1 at mm (sequence), +1 at MmBackward (direct)
    where chains meet   step                            ... and taken off again there: -1 at step
    handed up           mm 1, forward 1, MmBackward 1, backward 1, step 1
    """
    tree = reach.tree
    shares = work.shares_device
    if _device_cnt(work) > 1:
        shares = shares | overlapping(work.process, work.start, work.end)
    sums: Columns = defaultdict(lambda: np.zeros(len(start), dtype=np.int64))
    first, last = np.full(len(start), _LATEST), np.full(len(start), -_LATEST)
    whole, inside = np.zeros((2, len(start)), dtype=np.int64)
    for rows in slices(len(launch)):
        part = work.only(rows)
        op, tip, sign = _tips([take(chain, launch[rows]) for chain in reach.chains], tree)
        for name, value in _contributions_to_range(part, shares[rows]).items():
            np.add.at(sums[name], tip, value[op] * sign)
        np.minimum.at(first, tip, part.start[op])
        np.maximum.at(last, tip, part.end[op])
        alone = ~shares[rows][op]
        _add_inside(whole, inside, part, (op[alone], tip[alone], sign[alone]), tree, start, end)
    for sum_ in (*sums.values(), whole):
        tree.hand_up(np.add, sum_)
    tree.hand_up(np.minimum, first)
    tree.hand_up(np.maximum, last)

    op, range_ = reach.extra_of(launch)
    pairs = work.only(op)
    for name, value in _contributions_to_range(pairs, shares[op]).items():
        np.add.at(sums[name], range_, value)
    np.minimum.at(first, range_, pairs.start)
    np.maximum.at(last, range_, pairs.end)
    alone = ~shares[op]
    np.add.at(inside, range_[alone], _inside(pairs.start, pairs.end, start[range_], end[range_])[alone])

    busy_union, inside_union = _unions(reach, launch, work, start, end, np.flatnonzero(shares))
    sums["gpu_busy_ns"] += busy_union
    inside += whole
    inside += inside_union
    del whole, busy_union, inside_union
    sums |= {"gpu_busy_inside_ns": inside, "first_gpu_start_ns": first, "last_gpu_end_ns": last}
    filled = np.flatnonzero(sums["gpu_op_cnt"])
    for name in sums:  # one after another: only one is in memory twice
        sums[name] = sums[name][filled]
    return {"range_id": filled} | sums


def _contributions(work: Work) -> Columns:
    """What each operation adds to every range that it belongs to."""
    length = work.end - work.start
    return {
        "gpu_op_cnt": np.ones(len(length), dtype=np.int64),
        "kernel_cnt": work.is_kernel.astype(np.int64),
        "launch_cnt": work.is_first_op.astype(np.int64),
        "launch_api_ns": (work.launch_end - work.launch_start) * work.is_first_op,
        "queue_ns": np.maximum(0, work.start - work.launch_end),
        "launch_latency_ns": work.start - work.launch_start,
        "gpu_op_ns": length,
        "kernel_ns": length * work.is_kernel,
    }


def _contributions_to_range(work: Work, shares: Bools) -> Columns:
    """The same with the time that it keeps its device busy, where it shares no time with another."""
    return _contributions(work) | {"gpu_busy_ns": (work.end - work.start) * ~shares}


_Signed = tuple[Ints, Ints, Ints]


def _tips(chains: list[Ints], tree: Tree) -> _Signed:
    """(operation, range, sign): what is handed up from these ranges counts each operation once in each of its ranges.

    An operation with several chains begins at the innermost range of each; where two of them meet it is taken off
    again. (Of nodes in the order of a walk, each two neighbours meet at their lowest common ancestor.)
    """
    known = [np.flatnonzero(chain >= 0) for chain in chains]
    op = np.concatenate(known)
    tip = np.concatenate([chain[index] for chain, index in zip(chains, known, strict=True)])
    several = np.flatnonzero(np.bincount(op, minlength=len(chains[0])) > 1)
    ends = np.sort(np.stack([chain[several] for chain in chains]), axis=0)
    meeting_op, meeting = [op[:0]], [tip[:0]]
    for left, right in pairwise(ends):
        both = np.flatnonzero(left >= 0)
        ancestor = tree.common_ancestor(left[both], right[both])
        meeting_op.append(several[both][ancestor >= 0])
        meeting.append(ancestor[ancestor >= 0])
    taken_off = sum(map(len, meeting))
    sign = np.concatenate([np.ones(len(op), dtype=np.int64), np.full(taken_off, -1)])
    return np.concatenate([op, *meeting_op]), np.concatenate([tip, *meeting]), sign


def _add_inside(whole: Ints, inside: Ints, work: Work, signed: _Signed, tree: Tree, start: Ints, end: Ints) -> None:
    """Add operations' time inside each range's own extent: to `whole` what is to be handed up, to `inside` the rest.

    A range encloses those below it: where an operation lies wholly inside it does so all the way up.
    """
    op, at, sign = signed
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


def _inside(begin: Ints, finish: Ints, low: Ints, high: Ints) -> Ints:
    """Length of the part of each interval that lies between two bounds."""
    length: Ints = np.maximum(np.minimum(finish, high) - np.maximum(begin, low), 0)
    return length


def _unions(reach: Reach, launch: Ints, work: Work, start: Ints, end: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """For each range the union of the chosen operations: per device added up, and inside its extent over all devices.

    Level by level of the tree: at one level an operation belongs to at most one range of each rule, so a stable sort
    by range leaves the operations of a range together and in order of their start.
    """
    busy, inside = np.zeros((2, len(start)), dtype=np.int64)
    if not chosen.size:
        return busy, inside
    for member, around, _ in reach.of_operations(launch[chosen]).levels():
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

    device        [a     ][b ]  [c  ]        nothing beside a, b: their lengths add up, by set, then by path
                                  [d  ]      c and d overlap: of each path they have the length of their union
    """
    device_cnt = _device_cnt(work)
    is_known = set_of >= 0
    alone = np.flatnonzero(~work.shares_device & is_known)
    key, length = _sums(set_of[alone] * device_cnt + work.device[alone], (work.end - work.start)[alone])
    member, path = spread(key // device_cnt, np.arange(len(key)), *sets)
    found = [(path * device_cnt + key[member] % device_cnt, length[member])]
    shared = np.flatnonzero(work.shares_device & is_known)
    op, path = spread(set_of[shared], shared, *sets)
    order = np.lexsort((op, path))
    op, path = op[order], path[order]
    found += [_busy_by_device(path[rows], op[rows], work) for rows in blocks(path)]
    key, length = _sums(*(np.concatenate(column) for column in zip(*found, strict=True)))
    return {"path_id": key // device_cnt, "device_id": key % device_cnt, "gpu_busy_ns": length}


def _sums(key: Ints, value: Ints) -> tuple[Ints, Ints]:
    """The distinct keys in order, and what the values of each add up to."""
    keys, member = np.unique(key, return_inverse=True)
    sums = np.zeros(len(keys), dtype=np.int64)
    np.add.at(sums, member, value)
    return keys, sums
