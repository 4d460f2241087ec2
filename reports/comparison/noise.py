"""Whether two rows of steps differ by more than their noise, and how small a difference would not show.

    A  x x x xxx x     the middle of each, and how far it may be off: the more the steps differ among themselves,
    B    x xxx x x x   the fewer they are, and the more each is like the one before it, the further

The middle is the mean without a fifth of the steps at each end, its error that of the winsorised variance (K. Yuen,
"The two-sample trimmed t for unequal population variances", Biometrika 61, 1974). Steps that are like those before them
(a clock that falls, a machine that warms up) say less than as many others: the variance is multiplied by
(1 + r) / (1 - r), r being the correlation of each with the next, and its degrees of freedom are divided by that. Two
differ where their middles are further apart than noise puts them in one of a hundred pairs (Student's t, degrees of
freedom by Welch), and where they are apart, however few they are and however alike in a row:

    A  x xx  x             none of A is among those of B, and between them is more room
    B              xxx x   than either takes

So they do where all of A are on one side of all of B, however little room is between, if chance does that in less than
one of a hundred pairs (as with five and five, of steps that are not like those before them).

How often two alike are said to differ (per cent of drawn pairs; r is the correlation of each step with the next):

    steps     3 and 3   4 and 4   5 and 5   8 and 8   12 and 12   20 and 20   3 and 20
    r = 0        1         1         1         1          1           1           2
    r = 0.5      4         6         4         2          1           1           4
    r = 0.7     12        15         9         4          2           1           8
    r = 0.8     18        27        11         8          4           1           8

Of three or four steps nobody can tell whether they are like those before them: such drift is no noise to them.
"""

import math
import statistics
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .student import quantile

LEAST_STEPS = 3  # of fewer nothing is known
_LEAST_TURNS = 2 * LEAST_STEPS  # steps, of which pairs are looked at
_TRIMMED, _TRIMMED_FROM = 0.2, 6  # at each end, of as many values: one that is far out says nothing of the others
_MOST_ALIKE = 0.9
_HARDLY_REPEATED = 1.5  # a variance so much larger by steps that are like those before them
_SELDOM = 0.01
_IN_TURNS = -0.5  # each is unlike the one before it: long and short by turns
_COVERED = 0.8  # of the steps of both: kinds that hold as many stand for all
Sample = tuple[Hashable, float]  # of a step its kind, which others may have, and how long it is


@dataclass(frozen=True)
class Centre:
    """Where the middle of some values is, the square of its standard error, and the degrees of freedom of that.

    low, high: between which they lie, without those that are left out; infinite where it is not known.
    """

    value: float
    variance: float
    freedom: float
    low: float = -math.inf
    high: float = math.inf
    # the least, the most and the number of values that come in any order
    extent: tuple[float, float, int] | None = None


@dataclass(frozen=True)
class Difference:
    """What two take, whether noise alone may put them so far apart, and how far it may; None of too few steps."""

    before: float
    after: float
    is_noise: bool
    least: float | None
    of: str = "median of"  # what is compared


def between(first: Sequence[Sample], other: Sequence[Sample]) -> Difference | None:
    """The difference of two rows of steps, each in the order in which they ran; None without steps.

    Steps of several kinds (training and evaluation) are set beside those of their own kind, where both have three of
    each. Where each step of one has its twin in the other (as many tokens), they are compared twin by twin.
    """
    if not first or not other:
        return None
    kinds = _shared_kinds(first, other)
    if len(kinds) > 1:
        return _by_kind(first, other, kinds)
    values = [value for _, value in first], [value for _, value in other]
    medians = statistics.median(values[0]), statistics.median(values[1])
    if min(map(len, values)) < LEAST_STEPS:
        return Difference(*medians, is_noise=is_among(*values) and medians[0] != medians[1], least=None)
    if _are_twins(first, other):
        return _of_twins(*values)
    is_in_turns = all(_correlation(row) < _IN_TURNS for row in values) or any(map(_comes_in_turns, values))
    if is_in_turns and min(map(len, values)) >= _LEAST_TURNS:
        values = _pairs(values[0]), _pairs(values[1])
        medians = statistics.median(values[0]), statistics.median(values[1])
    centres = trimmed(values[0]), trimmed(values[1])
    return _judged(medians, centres)


def is_among(first: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the middle of one row of values lies among those of the other: of few, whose spread nobody knows."""
    sides = (first, other), (other, first)
    return any(min(row) <= statistics.median(beside) <= max(row) for row, beside in sides)


def centre(values: Sequence[float], is_in_order: bool) -> Centre:
    """The middle of what steps have of a row: where that is much and little by turns, of pairs of steps."""
    is_in_turns = is_in_order and len(values) >= _LEAST_TURNS and _comes_in_turns(values)
    return trimmed(_pairs(values) if is_in_turns else values, is_in_order)


def trimmed(values: Sequence[float], is_in_order: bool = True) -> Centre:
    """The mean without a fifth at each end (of few without that), of three values or more.

    is_in_order: whether they are in the order in which they ran.
    """
    ordered, count = sorted(values), len(values)
    cut = int(_TRIMMED * count) if count >= _TRIMMED_FROM else 0
    low, high = ordered[cut], ordered[count - 1 - cut]
    kept = count - 2 * cut
    squares = (count - 1) * statistics.variance([min(max(value, low), high) for value in values])
    widened = repeated(values) if is_in_order else 1.0
    extent = None if widened > _HARDLY_REPEATED else (ordered[0], ordered[-1], count)
    middle = statistics.fmean(ordered[cut : count - cut])
    freedom = max(1.0, (kept - 1) / widened)
    return Centre(middle, squares / (kept * (kept - 1)) * widened, freedom, low, high, extent)


def weighted(parts: Iterable[tuple[float, Centre]]) -> Centre:
    """The sum of several centres, each times its weight."""
    parts = list(parts)
    variances = [weight**2 * centre.variance for weight, centre in parts]
    value, variance = sum(weight * centre.value for weight, centre in parts), sum(variances)
    known = [own**2 / centre.freedom for own, (_, centre) in zip(variances, parts, strict=True) if own]
    extremes = [sorted((weight * centre.low, weight * centre.high)) for weight, centre in parts if weight]
    low, high = (sum(each[side] for each in extremes) for side in (0, 1))
    extent = None
    if len(parts) == 1 and parts[0][0] > 0 and parts[0][1].extent is not None:
        weight, (least, most, count) = parts[0][0], parts[0][1].extent
        extent = weight * least, weight * most, count
    return Centre(value, variance, variance**2 / sum(known) if any(known) else 1.0, low, high, extent)


def least_seen(first: Centre, other: Centre) -> float:
    """How far apart the centres of two alike would be in one of a hundred pairs."""
    both = weighted([(1.0, other), (-1.0, first)])
    return quantile(both.freedom) * math.sqrt(both.variance)


def may_be_noise(first: Centre, other: Centre) -> bool:
    """Whether noise alone may put two so far apart."""
    if abs(other.value - first.value) > least_seen(first, other):
        return False
    if first.extent is not None and other.extent is not None and _are_apart(first.extent, other.extent):
        return False
    between = max(other.low - first.high, first.low - other.high)
    return not between > max(first.high - first.low, other.high - other.low)


def _are_apart(first: tuple[float, float, int], other: tuple[float, float, int]) -> bool:
    """Whether all values of one are above all of the other, and chance seldom does that with so many."""
    is_beside = other[0] > first[1] or first[0] > other[1]
    return is_beside and 2 / math.comb(first[2] + other[2], first[2]) < _SELDOM


def _judged(said: tuple[float, float], centres: tuple[Centre, Centre], of: str = Difference.of) -> Difference:
    """The difference of what is said, which is noise where the centres say so, or that it went the other way."""
    change, least = centres[1].value - centres[0].value, least_seen(*centres)
    goes_alike = (said[1] - said[0]) * change > 0
    return Difference(*said, is_noise=may_be_noise(*centres) or not goes_alike, least=least, of=of)


def _by_kind(first: Sequence[Sample], other: Sequence[Sample], kinds: list[Hashable]) -> Difference:
    """Of each kind its middle, by how often it comes in both."""
    sides: tuple[list[tuple[float, Centre]], ...] = ([], [])
    middles = [0.0, 0.0]
    rows = [{kind: [value for own, value in side if own == kind] for kind in kinds} for side in (first, other)]
    for kind in kinds:
        weight = sum(len(row[kind]) / sum(map(len, row.values())) for row in rows) / len(rows)
        for number, row in enumerate(rows):
            sides[number].append((weight, trimmed(row[kind])))
            middles[number] += weight * statistics.median(row[kind])
    centres = weighted(sides[0]), weighted(sides[1])
    return _judged((middles[0], middles[1]), centres, "of each kind the median,")


def _of_twins(first: Sequence[float], other: Sequence[float]) -> Difference:
    """How much longer each step is than its twin, at the mean step of the first."""
    ratio = trimmed([math.log(two / one) for one, two in zip(first, other, strict=True)])
    before, least = statistics.fmean(first), quantile(ratio.freedom) * math.sqrt(ratio.variance)
    return Difference(
        before,
        before * math.exp(ratio.value),
        may_be_noise(Centre(0.0, 0.0, ratio.freedom, 0.0, 0.0), ratio),
        before * math.expm1(least),
        "mean, each beside its twin, of",
    )


def _shared_kinds(first: Sequence[Sample], other: Sequence[Sample]) -> list[Hashable]:
    """The kinds of which both have three steps or more, if these are nearly all steps."""
    counts = [
        {kind: sum(own == kind for own, _ in side) for kind in {own for own, _ in side}} for side in (first, other)
    ]
    kinds = [kind for kind, count in counts[0].items() if min(count, counts[1].get(kind, 0)) >= LEAST_STEPS]
    held = [sum(count[kind] for kind in kinds) / sum(count.values()) for count in counts]
    return kinds if min(held) >= _COVERED else []


def _are_twins(first: Sequence[Sample], other: Sequence[Sample]) -> bool:
    """Whether both have steps of the same kinds in the same order, and of more than one."""
    kinds = [kind for kind, _ in first]
    is_alike = kinds == [kind for kind, _ in other] and len(set(kinds)) > 1
    return is_alike and all(value > 0 for _, value in (*first, *other))


def _pairs(values: Sequence[float]) -> list[float]:
    return [(one + two) / 2 for one, two in zip(values[::2], values[1::2], strict=False)]


def _comes_in_turns(values: Sequence[float]) -> bool:
    """Whether steps are long and short by turns beyond doubt: further apart than either kind is wide."""
    kinds = sorted((values[::2], values[1::2]), key=sum)
    widths = [max(kind) - min(kind) for kind in kinds if len(kind) >= LEAST_STEPS]
    return len(widths) == len(kinds) and min(kinds[1]) - max(kinds[0]) > max(widths)


def _correlation(values: Sequence[float]) -> float:
    """Of each value with the next, from -1 to 1; 0 of those that do not vary."""
    mean = statistics.fmean(values)
    off = [value - mean for value in values]
    whole = sum(value**2 for value in off)
    return sum(one * two for one, two in pairwise(off)) / whole if whole else 0.0


def repeated(values: Sequence[float]) -> float:
    """By how much values that are like those before them widen an error: (1 + r) / (1 - r), 1 or more.

    Of few values r comes out too low by about (1 + 3 r) / n (F. Marriott and J. Pope, Biometrika 41, 1954).
    """
    count = len(values)
    if count < 5:
        return 1.0
    found = _correlation(values)
    found = min(_MOST_ALIKE, found + (1 + 3 * found) / count)
    return max(1.0, (1 + found) / (1 - found))
