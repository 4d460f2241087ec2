"""Unions of intervals: how much of other intervals lies in them, and which moments."""

from dataclasses import dataclass

import numpy as np

from .intervals import Bools, Ints


@dataclass(frozen=True)
class Cover:
    """Disjoint intervals in order, and how long they are together up to each of them."""

    start: Ints
    end: Ints
    before: Ints
    opened_by: Ints  # of each of them which of the united intervals it begins with

    @classmethod
    def of(cls, start: Ints, end: Ints) -> "Cover":
        """The union of intervals in any order. Those that touch are one.

        given  [a   ][b]     [c  ]
        union  [a      ]     [c  ]
        """
        return cls._united(start, end, np.greater)

    @classmethod
    def apart(cls, start: Ints, end: Ints) -> "Cover":
        """The same, but those that touch are not one: steps, each of which begins where the one before it ends."""
        return cls._united(start, end, np.greater_equal)

    @classmethod
    def _united(cls, start: Ints, end: Ints, is_behind: np.ufunc) -> "Cover":
        order = None
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        latest = np.maximum.accumulate(end)
        is_new = np.ones(len(start), dtype=bool)
        is_new[1:] = is_behind(start[1:], latest[:-1])
        first = np.flatnonzero(is_new)
        start, end = start[first], latest[np.append(first, len(latest))[1:] - 1]
        return cls(start, end, np.cumsum(end - start) - (end - start), first if order is None else order[first])

    def common(self, other: "Cover") -> "Cover":
        """What lies in both.

        this   [    ]   [     ]
        other    [   ] [   ]
        common   [  ]   [  ]
        """
        borders = np.unique(np.concatenate([self.start, self.end, other.start, other.end]))
        begin, end = borders[:-1], borders[1:]
        inside = self.holds(begin) & other.holds(begin)
        return Cover.of(begin[inside], end[inside])

    def within(self, start: Ints, end: Ints) -> Ints:
        """How much of each interval lies in this; of one that ends before it begins nothing."""
        if not len(self.start):
            return np.zeros(len(start), dtype=np.int64)
        found: Ints = np.maximum(self._until(end) - self._until(start), 0)
        return found

    def holds(self, time: Ints) -> Bools:
        """Whether each moment lies in this, the ends of its intervals excluded."""
        found: Bools = self.number(time) >= 0
        return found

    def number(self, time: Ints) -> Ints:
        """The place of the interval that each moment lies in, -1 without."""
        if not len(self.start):
            return np.full(len(time), -1, dtype=np.int64)
        at = self.begun(time)
        return np.where((at >= 0) & (time < self.end[np.maximum(at, 0)]), at, -1)

    def begun(self, time: Ints) -> Ints:
        """The place of the last interval that has begun at each moment, -1 without."""
        return np.searchsorted(self.start, time, side="right") - 1

    def _until(self, time: Ints) -> Ints:
        at = self.begun(time)
        inside = np.minimum(time, self.end[np.maximum(at, 0)]) - self.start[np.maximum(at, 0)]
        until: Ints = np.where(at >= 0, self.before[np.maximum(at, 0)] + inside, 0)
        return until
