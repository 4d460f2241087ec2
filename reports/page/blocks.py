"""Blocks of memory as a browser stacks them: columns of the largest, and steps of what the others add up to.

live in total   ▁▂▅▇█▇▅▃    as the file counts
drawn           ▁▂▄▅▅▅▄▃    the largest blocks, each from its allocation to its free, and what was there before
the rest          ▁▂▃▂▁     a band on top: so the upper edge of the picture is the total
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .packing import Numbers, packed, packed_json, packed_steps

Row = dict[str, Any]
_REST_CNT = 8_000  # changes of the rest that a page carries; of more it has the most of each stretch
_STRETCH_CNT = 2_000
BAND_CNT = 2_000
_FRAME_CNT = 4
_LONGEST = 1_000  # characters of a text
_CALLING = re.compile(r"torch/nn/modules/module\.py:\d+ (inner|_call_impl|_wrapped_call_impl)$")


@dataclass(frozen=True)
class Axis:
    """Where times of the file are: ns from the device's first event on, or numbers of events where it has no times."""

    first_ns: int
    last_ns: int
    is_timed: bool

    def places(self, times: Numbers) -> Numbers:
        """Where times are."""
        return times - self.first_ns if self.is_timed else (times - self.first_ns) // 1000

    def place(self, time_ns: int) -> int:
        """Where a time is."""
        return int(self.places(np.array([time_ns], np.int64))[0])

    @property
    def span(self) -> int:
        """How long the axis is."""
        return self.place(self.last_ns)


@dataclass(frozen=True)
class Level:
    """What is live and held after each moment at which something changes, on an axis; and the peak."""

    places: Numbers
    live: Numbers
    held: Numbers  # -1 where not recorded
    peak: tuple[int, int]  # its place and bytes

    @classmethod
    def of(cls, axis: Axis, rows: dict[str, Numbers]) -> "Level":
        """rows: time_ns, live_bytes, reserved_bytes of each event, in order."""
        places = axis.places(rows["time_ns"])
        last = np.append(np.diff(places) != 0, True)  # of several at once the last counts
        top = int(np.argmax(rows["live_bytes"]))
        return cls(places[last], rows["live_bytes"][last], rows["reserved_bytes"][last],
                   (int(places[top]), int(rows["live_bytes"][top])))  # fmt: skip


def columns(blocks: Sequence[Row], axis: Axis) -> tuple[Numbers, Numbers, Numbers]:
    """Starts, ends (-1: never) and sizes of blocks; what was there before starts at 0."""
    starts = [axis.first_ns if row["start_ns"] is None else row["start_ns"] for row in blocks]
    ends = [axis.first_ns if row["free_ns"] is None else row["free_ns"] for row in blocks]
    is_kept = np.array([row["free_ns"] is None for row in blocks], bool)
    return (
        axis.places(np.array(starts, np.int64)),
        np.where(is_kept, -1, axis.places(np.array(ends, np.int64))),
        np.array([row["bytes"] for row in blocks], np.int64),
    )


def sum_at(places: Numbers, blocks: tuple[Numbers, Numbers, Numbers]) -> Numbers:
    """What blocks add up to at each of these places, which rise."""
    starts, ends, sizes = blocks
    freed = ends >= 0
    at = np.concatenate((starts, ends[freed]))
    order = np.argsort(at, kind="stable")
    sums = np.concatenate(([0], np.cumsum(np.concatenate((sizes, -sizes[freed]))[order])))
    return np.asarray(sums[np.searchsorted(at[order], places, side="right")], np.int64)


def rest(level: Level, drawn: Numbers, span: int) -> Row:
    """The band on top: how much is live beside what is drawn, after each change.

    Of very many changes the most of it in each stretch of time, and the most that all was in it (`tops`): so what is
    drawn is never higher than what was live in the stretch, and as high at its highest moment.
    """
    left = np.maximum(level.live - drawn, 0)
    places, values = changes(level.places, left)
    if len(places) <= _REST_CNT:
        return {"rest": packed_steps(places, values), "tops": None}
    width = -(-(span + 1) // _STRETCH_CNT)
    edges: Numbers = np.arange(-(-(span + 1) // width), dtype=np.int64) * width
    made = {}
    for name, line in (("rest", left), ("tops", level.live)):
        most = line[np.maximum(np.searchsorted(level.places, edges, side="right") - 1, 0)]
        np.maximum.at(most, level.places // width, line)
        made[name] = packed_steps(*changes(edges, most))
    return made


def changes(places: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """The steps of a line that change it."""
    kept = np.append(True, np.diff(values) != 0)[: len(values)]
    return places[kept], values[kept]


def picture(
    blocks: Sequence[Row], before_bytes: int, axis: Axis, level: Level, categories: Sequence[tuple[str, str]],
    bands: Sequence[Row],
) -> Row:  # fmt: skip
    """What a browser draws: blocks in the order of the stack, with before_bytes below them in which no block is known.

    categories: names with their colours; bands: phases with their times. lack_bytes: by how much blocks are at most
    above the total, where the file counts otherwise.
    """
    taken = columns(blocks, axis)
    drawn = sum_at(level.places, taken)
    base = max(0, min(before_bytes, int((level.live - drawn).min(initial=before_bytes))))
    starts, ends, sizes = taken
    names = [name for name, _ in categories]
    texts: dict[str, int] = {}
    abouts: dict[tuple[int, ...], int] = {}
    which = [abouts.setdefault(_about(row, names, texts), len(abouts)) for row in blocks]
    before = sum(row["start_ns"] is None for row in blocks)
    drawn = drawn + base
    held = changes(level.places, level.held)
    lengths = np.where(ends < 0, 0, ends - starts + 1)  # 0: never freed
    return {
        "span": axis.span, "is_timed": axis.is_timed, "cnt": len(blocks), "before": before, "base": base,
        "data": packed([np.diff(starts, prepend=0), lengths, sizes, np.array(which, np.int64)]),
        "abouts": packed_json({"texts": list(texts), "rows": list(abouts)}),
        **rest(level, drawn, axis.span), "lack_bytes": max(0, -int((level.live - drawn).min(initial=0))),
        "held": packed_steps(*held) if held[1].max(initial=-1) > 0 and held[1].min() >= 0 else None,
        "peak": level.peak, "categories": list(categories),
        "bands": [[row["phase"], axis.place(row["start_ns"]), axis.place(row["end_ns"])] for row in bands],
    }  # fmt: skip


def _about(row: Row, categories: list[str], texts: dict[str, int]) -> tuple[int, ...]:
    """Places of a block's category and texts; -1 without."""
    said = (row["name"], row["adapter"], frames(row["stack"]))
    name, adapter, stack = (text and text[:_LONGEST] for text in said)
    return (
        categories.index(row["category"]),
        # of a path all: a part of it would choose another range
        *(-1 if not text else texts.setdefault(text, len(texts)) for text in (name, adapter, row["path"], stack)),
    )


def placed(stack: str | None) -> str | None:
    """The frames of a stack with the ends of their files' paths: a cell has room for few, and all begin alike."""
    known = frames(stack)
    if known is None:
        return None
    return " < ".join("/".join(frame.split("/")[-2:]) for frame in known.split(" < "))


def frames(stack: str | None) -> str | None:
    """The innermost frames of a stack, without those by which torch calls modules."""
    if stack is None:
        return None
    every = stack.split(" < ")
    kept = [frame for frame in every if not _CALLING.search(frame)] or every
    return " < ".join(kept[:_FRAME_CNT])
