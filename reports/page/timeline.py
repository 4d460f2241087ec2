"""The timeline of a page: lanes of ranges over lanes of streams, as columns that a browser draws from.

Up to OP_CNT operations are there one by one. Above that a stream is cells of equal width: how busy each was, and the
name with the most time in it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .packing import packed

Row = dict[str, Any]
Numbers = npt.NDArray[np.int64]
OP_CNT = 300_000
_CELL_CNT = 160_000  # of all streams together
STREAM_CNT = 24
RANGE_CNT = 10_000  # of a lane: of more it is drawn in cells, too
_WHOLE = 255  # the level of a cell that was busy throughout


@dataclass(frozen=True)
class Lane:
    """Stretches of time in the order of their begins: what each is (a place in the names), and how full, 0 to 255."""

    title: str
    starts: Numbers
    ends: Numbers
    names: Numbers
    levels: Numbers | None = None

    def as_json(self, begin: int) -> Row:
        """The lane as a browser unpacks it, times from `begin` on."""
        order = np.lexsort((-self.ends, self.starts))
        starts, ends = self.starts[order] - begin, self.ends[order] - begin
        lead = max(0, -int(starts.min(initial=0)))  # before the start of a window
        columns = [np.diff(starts + lead, prepend=0), ends - starts, self.names[order]]
        if self.levels is not None:
            columns.append(self.levels[order])
        return {
            "title": self.title, "cnt": len(order), "has_levels": self.levels is not None, "lead": lead,
            "data": packed(columns),
        }  # fmt: skip


def stream_lanes(ops: dict[str, Numbers], names: Numbers) -> tuple[list[Lane], int, int]:
    """A lane for each of the busiest streams, in the order of their numbers.

    ops: device_id, stream_id, start_ns, end_ns of each operation; names: its place in the names. Also: how many streams
    are left out, and the width of a cell, 0 where operations are there one by one.
    """
    streams, which = pairs_of(ops["device_id"], ops["stream_id"])
    busy = np.bincount(which, weights=ops["end_ns"] - ops["start_ns"])
    kept = np.sort(np.argsort(-busy, kind="stable")[:STREAM_CNT])
    is_whole = len(which) <= OP_CNT
    span = int(ops["end_ns"].max() - ops["start_ns"].min())
    width = 0 if is_whole else max(1, -(-span * len(kept) // _CELL_CNT))
    lanes = []
    for number in kept:
        mine = which == number
        title = _title(int(streams[0, number]), int(streams[1, number]), len(set(streams[0])) > 1)
        lane = Lane(title, ops["start_ns"][mine], ops["end_ns"][mine], names[mine])
        lanes.append(lane if is_whole else in_cells(lane, width, int(ops["start_ns"].min())))
    return lanes, len(busy) - len(kept), width


def pairs_of(first: Numbers, second: Numbers) -> tuple[Numbers, Numbers]:
    """The different pairs of two columns, sorted, as two rows; and of each place which one it has."""
    low, low_place = np.unique(second, return_inverse=True)
    codes, which = np.unique(first.astype(np.int64) * len(low) + low_place, return_inverse=True)
    return np.stack((codes // len(low), low[codes % len(low)].astype(np.int64))), which


def _title(device: int, stream: int, has_devices: bool) -> str:
    told = f"stream {stream}" if stream >= 0 else "no stream"
    return f"GPU {device}, {told}" if has_devices else told


def in_cells(lane: Lane, width: int, begin: int) -> Lane:
    """The lane as cells of equal width: how busy each was, and the name that took most of it.

    ops    [--a--][b]        [----a----]
    cells  |  a 255 |  a 40  |   a 255   |   (equal neighbours that are full are one)
    """
    order = np.lexsort((-lane.ends, lane.starts))
    starts, ends, names = lane.starts[order] - begin, lane.ends[order] - begin, lane.names[order]
    covered = np.maximum.accumulate(np.concatenate(([0], ends[:-1])))
    starts = np.maximum(starts, np.minimum(covered, ends))  # of what overlaps each moment counts once
    first, last = starts // width, np.maximum(ends - 1, starts) // width
    repeats = last - first + 1
    op = np.repeat(np.arange(len(starts)), repeats)
    cell = np.arange(len(op)) - np.repeat(np.cumsum(repeats) - repeats, repeats) + first[op]
    length = np.minimum(ends[op], (cell + 1) * width) - np.maximum(starts[op], cell * width)
    name_cnt = int(names.max(initial=0)) + 1
    pair, which = np.unique(cell * name_cnt + names[op], return_inverse=True)
    times = np.bincount(which, weights=length).astype(np.int64)
    pair_cell, pair_name = pair // name_cnt, pair % name_cnt
    cells, starts_of = np.unique(pair_cell, return_index=True)
    sums = np.add.reduceat(times, starts_of)
    by_time = np.lexsort((-times, pair_cell))
    names = pair_name[by_time][starts_of]
    levels = np.where(sums > 0, np.maximum(1, np.rint(_WHOLE * sums / width)), 0).astype(np.int64)
    return _joined(lane.title, cells, names, np.minimum(levels, _WHOLE), width, begin)


def _joined(title: str, cells: Numbers, names: Numbers, levels: Numbers, width: int, begin: int) -> Lane:
    """Cells with what lies side by side and is equal as one, those with nothing left out."""
    kept = levels > 0
    cells, names, levels = cells[kept], names[kept], levels[kept]
    is_new = np.ones(len(cells), bool)
    is_new[1:] = (np.diff(cells) != 1) | (np.diff(names) != 0) | (np.diff(levels) != 0)
    firsts = np.flatnonzero(is_new)
    lasts = np.append(firsts[1:], len(cells)) - 1
    return Lane(title, cells[firsts] * width + begin, (cells[lasts] + 1) * width + begin, names[firsts], levels[firsts])


def range_lanes(rows: dict[str, npt.NDArray[Any]], names: Numbers) -> list[tuple[Lane, str, int]]:
    """A lane for each thread and depth, with both; rows have thread, place, depth, start_ns and end_ns."""
    if not len(names):
        return []
    pairs, which = pairs_of(rows["place"], rows["depth"])
    lanes = []
    for number in range(pairs.shape[1]):
        mine = which == number
        thread = str(rows["thread"][mine][0])
        lane = Lane(thread, rows["start_ns"][mine], rows["end_ns"][mine], names[mine])
        if len(lane.starts) > RANGE_CNT:
            begin = int(lane.starts.min())
            lane = in_cells(lane, max(1, -(-int(lane.ends.max() - begin) // RANGE_CNT)), begin)
        lanes.append((lane, thread, int(pairs[1, number])))
    return lanes


def name_places(known: tuple[Numbers, Numbers], asked: tuple[Numbers, Numbers]) -> Numbers:
    """Where each pair of a name and a path (-1 without) stands among the known pairs.

    Raises KeyError for one that is not known.
    """
    paths = int(max(known[1].max(initial=-1), asked[1].max(initial=-1))) + 2
    codes = known[0] * paths + known[1] + 1
    wanted = asked[0] * paths + asked[1] + 1
    order = np.argsort(codes)
    found = np.searchsorted(codes, wanted, sorter=order)
    if (found == len(codes)).any() or (codes[order[found]] != wanted).any():
        raise KeyError("an operation has no name")
    return order[found]
