"""How far clocks are apart, from collectives in which nobody can end before all have begun.

Of two members a and b of such a collective b begins before a ends, so d = clock of b - clock of a is known to lie in
[start of b - end of a, end of b - start of a]; all collectives together leave an interval, and so do all ways from one
clock to another over third ones. Where the interval is empty the clocks drift: then it is so in pieces.

    a  [start      end]              d <= end of b - start of a
    b        [start   end]           d >= start of b - end of a

    a  [0         10]                ahead[a, b] = 15 - 0: the most that b can be ahead of a
    b       [5         15]           ahead[b, a] = 10 - 5: the most that a can be ahead of b
    more collectives                 of each entry the least
    a third clock c                  ahead[a, b] at most ahead[a, c] + ahead[c, b]
    offset of b against a            (15 - 5) / 2 = 5, and at most (15 + 5) / 2 = 10 off
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .intervals import Ints

Floats = npt.NDArray[np.float64]
_UNKNOWN = np.inf
_AT_ONCE = 1 << 22  # numbers in an array


@dataclass(frozen=True)
class Piece:
    """A stretch of collectives in which clocks run alike; `ahead[a, b]` is the most that b can be ahead of a."""

    first: int
    end: int
    ahead: Floats

    @property
    def width(self) -> Floats:
        """Of each two clocks the length of the interval, infinite where nothing is known."""
        return self.ahead + self.ahead.T

    def offset(self, reference: int) -> tuple[Floats, Floats]:
        """How far each clock is ahead of a reference, and how wrong that can be; NaN where it is unknown."""
        with np.errstate(invalid="ignore"):
            middle = (self.ahead[reference] - self.ahead[:, reference]) / 2
        return middle, (self.ahead[reference] + self.ahead[:, reference]) / 2


@dataclass(frozen=True)
class Meetings:
    """Collectives in order of time: of each clock when the last of its members began and the first one ended.

    Both are infinite for clocks that take no part, so that they say nothing.
    """

    start: Floats
    end: Floats

    @classmethod
    def of(cls, collective: Ints, clock: Ints, start: Ints, end: Ints) -> "Meetings":
        """From rows of members, collectives and clocks numbered from 0."""
        shape = int(collective.max(initial=-1)) + 1, int(clock.max(initial=-1)) + 1
        last, first = np.full(shape, -_UNKNOWN), np.full(shape, _UNKNOWN)
        np.maximum.at(last, (collective, clock), start)
        np.minimum.at(first, (collective, clock), end)
        return cls(last, first)

    def limits(self, begin: int, end: int) -> Floats:
        """The limits of some collectives: [a, b] is how far b can be ahead of a."""
        clocks = self.start.shape[1]
        found = np.full((clocks, clocks), _UNKNOWN)
        rows = max(1, _AT_ONCE // max(clocks * clocks, 1))
        for at in range(begin, end, rows):
            part = slice(at, min(at + rows, end))
            found = np.minimum(found, (self.end[part, None, :] - self.start[part, :, None]).min(axis=0))
        np.fill_diagonal(found, 0)
        return found


def pieces(meetings: Meetings) -> Iterator[Piece]:
    """The longest stretches in which the clocks can run alike, one after the other."""
    count, first = len(meetings.start), 0
    while first < count:
        nothing = np.full((meetings.start.shape[1],) * 2, _UNKNOWN)
        limits, end = _extended(meetings, nothing, first, count)
        end = max(end, first + 1)  # members whose own times contradict each other
        yield Piece(first, end, limits)
        first = end


def _extended(meetings: Meetings, limits: Floats, begin: int, end: int) -> tuple[Floats, int]:
    """Closed limits with those of as many more collectives as go together with them, and the first that does not."""
    more = closed(np.minimum(limits, meetings.limits(begin, end)))
    if not (np.diagonal(more) < 0).any():
        return more, end
    if end - begin == 1:
        return limits, begin
    middle = (begin + end) // 2
    limits, reached = _extended(meetings, limits, begin, middle)
    return (limits, reached) if reached < middle else _extended(meetings, limits, middle, end)


def closed(limits: Floats) -> Floats:
    """The limits over all ways between the clocks; negative on the diagonal where they contradict each other."""
    found, over_it = limits.copy(), np.empty_like(limits)
    for over in range(len(found)):
        np.add(found[:, over, None], found[over], out=over_it)
        np.minimum(found, over_it, out=found)
    return found


def reference_of(found: list[Piece], among: Any) -> int:
    """Of some clocks the one against which the others are known best, the first of equals."""
    width = sum(np.where(np.isfinite(piece.width), piece.width, 1e15) for piece in found)
    return int(among[np.argmin(np.asarray(width)[np.ix_(among, among)].sum(axis=1))])


def islands(found: list[Piece]) -> Ints:
    """A number for each clock, the same for those that have met directly or over others."""
    met = np.zeros(found[0].ahead.shape, dtype=bool)
    for piece in found:
        met |= np.isfinite(piece.ahead)
    met |= met.T
    for over in range(len(met)):
        met |= met[:, over, None] & met[over]
    np.fill_diagonal(met, True)
    number: Ints = np.argmax(met, axis=1)
    return number
