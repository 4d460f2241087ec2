"""The period of a sequence of kernels: the steps of a program that opened no range.

    names     s t a b b c a b b c a b b c x      by launch order; here s, t are warm-up and x is cut off
    grams     each place with the 16 names from it on, as one hash; equal hashes are grouped
    anchors   c: 3 times, 4 places apart         of the rarest grams that come at equal distances: once a step
    known         - - - - y y y y y y y y        the gram was in this step before, or in the one before it
    steps         [2, 6) [6, 10) [10, 14)        cut at the anchor that comes first

The rarest anchor wins, because layers repeat within a step and what is once in a step does not: steps are the largest
thing that repeats. Only when a more frequent anchor comes at the very same distances throughout (every tenth step
logs something) is that one taken. n log n for n kernels.
"""

from collections.abc import Iterator

import numpy as np

from .intervals import Ints

LEAST_REPEATS = 3
LEAST_LENGTH = 8  # kernels
_LEAST_NAMES = 3
_GRAM = 16  # a power of two
_SAME_LENGTH = 0.2  # distances that differ from the median by no more than this share are steps
_EQUAL_LENGTH = 0.01  # and by no more than this for what is below a rarer anchor
_LEAST_COVERED = 0.8  # of what follows the first step
_MOST_WARM_UP = 0.5
_LEAST_KNOWN = 0.7
_MOST_OTHERS = 1  # names that are in no step, but between steps or behind them
_ODD = 1  # names that may differ among three
MOST_OF_A_LAYER = 500  # kernels
_MOST_TRIED = 64  # anchors that come at equal distances, each a pass over the sequence

_NO_STEPS = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
_Steps = tuple[Ints, Ints]


def steps(names: Ints) -> _Steps:
    """Where steps begin and end (behind their last) in a sequence of names; both empty where nothing repeats."""
    if len(names) < LEAST_REPEATS * LEAST_LENGTH:
        return _NO_STEPS
    grams = _grams(names)
    groups = _Groups(grams), _Groups(names)
    before = groups[0].before()
    found, tried = _NO_STEPS, 0
    for count in np.unique(np.concatenate([group.counts for group in groups])):
        if count < 2 or count * LEAST_LENGTH > len(names) or tried >= _MOST_TRIED:
            continue
        places = _first_and_regular(groups, int(count), len(names))
        if places is None:
            continue
        length = int(np.median(np.diff(places)))
        cut = _cut(places, length, len(names))
        if len(found[0]) and not _is_better(places, cut, found):
            continue
        tried += 1
        if len(cut[0]) >= LEAST_REPEATS and _is_most(*cut, len(names)) and _known_share(before, *cut) >= _LEAST_KNOWN:
            found = cut
    found = _from_the_first_on(names, *found) if len(found[0]) else found
    return _NO_STEPS if _are_layers(names, *found) else found


def around(names: Ints, places: Ints) -> _Steps:
    """Where steps begin and end of which each has one of these places; both empty where these do not repeat.

    names     a G b b a G b b a G b b      G is a graph that was recorded whole, with next to nothing beside it
    steps     [0, 4) [4, 8) [8, 12)        too short for a period of names
    """
    if len(places) < LEAST_REPEATS:
        return _NO_STEPS
    begins, ends = _cut(places, int(np.median(np.diff(places))), len(names))
    if len(begins) < LEAST_REPEATS or (ends - begins).sum() < _LEAST_COVERED * (places[-1] - places[0]):
        return _NO_STEPS
    return _from_the_first_on(names, begins, ends)


class _Groups:
    """The places of each value of a sequence, in groups of one value."""

    def __init__(self, values: Ints) -> None:
        self.order = np.argsort(values, kind="stable")
        ordered = values[self.order]
        self.starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        self.sizes = np.diff(np.append(self.starts, len(values)))
        self.counts = np.unique(self.sizes)

    def of_size(self, count: int) -> Ints:
        """The places of the values that occur so often, a row for each value."""
        return np.asarray(self.order[self.starts[self.sizes == count][:, None] + np.arange(count)])

    def before(self) -> Ints:
        """For each place the last one before it with the same value, -1 without."""
        found = np.empty_like(self.order)
        found[self.order[1:]] = self.order[:-1]
        found[self.order[self.starts]] = -1
        return found


def _grams(names: Ints) -> Ints:
    """A number for each place that says what the next names are; behind the last one nothing follows.

    The hash of twice as many names is made of two: 1, 2, 4, 8, 16.
    """
    _, number = np.unique(names, return_inverse=True)
    random = np.random.default_rng(1).integers(1, 1 << 63, size=int(number.max()) + 2, dtype=np.uint64)
    found = np.append(random[number], np.full(_GRAM, random[-1]))
    width = 1
    while width < _GRAM:
        found = (found[:-width] * np.uint64(0x9E3779B97F4A7C15)) ^ (found[width:] + np.uint64(width))
        found ^= found >> np.uint64(29)
        width *= 2
    return found[: len(names)].view(np.int64)


def _first_and_regular(groups: tuple[_Groups, ...], count: int, size: int) -> Ints | None:
    """Of what occurs so often the places of the one that is at equal distances; of several the first; None without."""
    best, key = None, None
    for group in groups:
        for places in _blocks(group.of_size(count)):
            distance = np.diff(places, axis=1)
            length = np.median(distance, axis=1).astype(np.int64)
            is_step = np.abs(distance - length[:, None]) <= _SAME_LENGTH * length[:, None]
            covered = (distance * is_step).sum(axis=1)
            tail = size - places[:, -1]
            whole = is_step.sum(axis=1) + (tail >= length)
            rest = size - places[:, 0] - np.minimum(tail, length)
            fits = (length >= LEAST_LENGTH) & (covered >= _LEAST_COVERED * rest) & (whole >= LEAST_REPEATS)
            for row in np.flatnonzero(fits & (whole == whole[fits].max(initial=0))):
                now = -int(whole[row]), int(places[row, 0])
                if key is None or now < key:
                    best, key = places[row], now
    return best


def _blocks(places: Ints) -> Iterator[Ints]:
    """Rows in blocks of at most a million places."""
    rows = max(1, (1 << 20) // max(1, places.shape[1]))
    for first in range(0, len(places), rows):
        yield places[first : first + rows]


def _is_better(places: Ints, cut: _Steps, found: _Steps) -> bool:
    """Whether a more frequent anchor finds one more of the same steps, or divides each into equal ones."""
    distance, length = np.diff(places), np.median(found[1] - found[0])
    if len(cut[0]) <= len(found[0]) or not len(distance):
        return False
    if np.abs(np.median(distance) - length) <= _EQUAL_LENGTH * length:
        return True
    return bool((np.abs(distance - np.median(distance)) <= _EQUAL_LENGTH * np.median(distance)).all())


def _cut(places: Ints, length: int, size: int) -> _Steps:
    """The steps between anchors; behind the last anchor one more as long as the others where that much is left."""
    begins, ends = places, np.append(places[1:], min(size, int(places[-1]) + length))
    is_step = np.abs(ends - begins - length) <= _SAME_LENGTH * length
    is_step[-1] = size - places[-1] >= length
    return begins[is_step], ends[is_step]


def _known_share(before: Ints, begins: Ints, ends: Ints) -> float:
    """The share of places of all steps but the first whose gram was in the same step before, or in the one before."""
    length = (ends - begins)[1:]
    offset = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    place = np.repeat(begins[1:], length) + offset
    return float((before[place] >= np.repeat(begins[:-1], length)).mean())


def _is_most(begins: Ints, ends: Ints, size: int) -> bool:
    """Whether steps are most of what follows the first, and that begins early."""
    first, rest = int(begins[0]), size - int(begins[0]) - min(size - int(ends[-1]), int(np.median(ends - begins)))
    return first <= _MOST_WARM_UP * size and int((ends - begins).sum()) >= _LEAST_COVERED * rest


def _from_the_first_on(names: Ints, begins: Ints, ends: Ints) -> _Steps:
    """The same steps cut where the repetition begins, not where the anchor is: one more may be whole then.

    e a b c | e a b c | e a b c      the anchor is c
    1 1 1     2 2 2                  steps begin at e
    """
    while True:
        length = int(ends[0] - begins[0])
        reach = min(int(begins[0]), length)
        differs = names[begins[0] - reach : begins[0]][::-1] != names[ends[0] - reach : ends[0]][::-1]
        odd = np.append(differs, [False, False]).astype(np.int64)
        stops = np.flatnonzero(odd[:-2] + odd[1:-1] + odd[2:] > _ODD)
        shift = int(stops[0] + differs[stops[0] :].argmax()) if stops.size else reach
        if shift < length:
            break
        begins, ends = np.append(begins[0] - length, begins), np.append(begins[0], ends)
    begins, ends = begins - shift, ends - shift
    last = int(ends[-1])
    if (
        len(names) - last >= length
        and (names[last : last + length] == names[begins[-1] :][:length]).mean() >= _LEAST_KNOWN
    ):
        begins, ends = np.append(begins, last), np.append(ends, last + length)
    return begins, ends


def _are_layers(names: Ints, begins: Ints, ends: Ints) -> bool:
    """Whether what repeats looks like the layers of one step or two: few kernels, and others behind the last of them.

    embed | layer layer layer layer | head loss       head and loss are in no layer
    """
    if not len(begins):
        return False
    inside = np.zeros(len(names) + 1, dtype=np.int64)
    inside[begins] += 1
    inside[ends] -= 1
    is_inside = np.cumsum(inside)[:-1] > 0
    of_steps = np.unique(names[is_inside])
    if len(np.unique(names[begins[0] : ends[0]])) < _LEAST_NAMES:
        return True
    outside = names[begins[0] :][~is_inside[begins[0] :]]
    others = np.setdiff1d(outside, of_steps)
    return bool(np.median(ends - begins) < MOST_OF_A_LAYER and len(others) > _MOST_OTHERS)
