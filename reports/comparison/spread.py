"""How much the steps of one input differ among themselves, by which a difference between two inputs is judged.

The spread of a row is the distance between the quartiles of what each step has of it, over the steps that have any; of
fewer than five steps between the extremes. Whether two are told apart is another question: see noise. With fewer than
three steps nothing is known.

A loop that waits for input in every other step has two kinds of steps, and a median that says little: there the mean
counts, where it differs by more than three standard errors (of few steps by more: Student's t of one of a hundred).
What comes in turns is no noise: of steps that are long and short by turns each pair is as long as any other, so the
error is the least of that of single steps, of pairs and of fours (batch means).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..answer.step_text import is_uneven
from . import noise
from .noise import LEAST_STEPS, Centre, Difference, Sample
from .student import quantile

_ERRORS = 3  # by so many standard errors, or more of few steps, means differ that are no accident
_LEAST_MEAN = 0.05  # a smaller change of the mean is left to the medians
_BATCHES = (1, 2, 4)
FEW_STEPS = 5  # of fewer the extremes take the place of the quartiles
NEXT_TO_NOTHING = 0.0005  # a change that is +0.0% comes from nowhere
_OTHER_SHARE = 0.1  # of steps that have any of a row: from here on it is another one


@dataclass(frozen=True)
class Spread:
    """The quartiles of a number over warm steps, and how many of them have it."""

    low: float
    median: float
    high: float
    step_cnt: int
    mean: float | None = None  # of warm steps
    error: float | None = None  # its standard error
    held: float = 1.0  # how much of all there is lies in steps, a fraction
    warm: float | None = None  # how much of it lies in warm ones; None where that is not known
    total: float | None = None  # all there is
    samples: tuple[Sample, ...] = ()  # of steps in their order, which others are set beside
    kinds: tuple["KindOfSteps", ...] = ()  # of a row: what steps of each kind have of it

    @property
    def width(self) -> float | None:
        """The distance between the quartiles, None where too few steps say it."""
        return self.high - self.low if self.step_cnt >= LEAST_STEPS else None

    def scaled(self, factor: float) -> "Spread":
        """The same on another clock."""
        return Spread(
            self.low * factor, self.median * factor, self.high * factor, self.step_cnt, held=self.held, warm=self.warm,
            samples=tuple((kind, value * factor) for kind, value in self.samples),
            kinds=tuple(kind.scaled(factor) for kind in self.kinds),
        )  # fmt: skip

    def with_mean(self) -> "Spread":
        """The same with the mean of its samples, and the error of that."""
        values = [value for _, value in self.samples]
        return replace(self, mean=statistics.fmean(values), error=_error_of_mean(values))

    @property
    def frac(self) -> float | None:
        """The same as a fraction of the median."""
        return None if self.width is None or not self.median else self.width / self.median


@dataclass(frozen=True)
class KindOfSteps:
    """What the steps of one kind have of a row: their number, that of those which have any, and sums over these.

    each: what each of them has in their order, where they are few.
    """

    step_cnt: int
    with_cnt: int
    value: float
    square: float
    each: tuple[float, ...] | None = None
    is_in_order: bool = True  # else of several kinds, one behind the other

    def scaled(self, factor: float) -> "KindOfSteps":
        """The same on another clock."""
        each = None if self.each is None else tuple(value * factor for value in self.each)
        return replace(self, value=self.value * factor, square=self.square * factor**2, each=each)

    def centre(self, is_of_all: bool) -> Centre:
        """What a step has in the mean. is_of_all: whether it may be an accident that some have nothing.

        Of few steps without a fifth at each end (noise.trimmed).
        """
        count = self.step_cnt if is_of_all else self.with_cnt
        if self.each is not None:
            nothing = [0.0] * (self.step_cnt - self.with_cnt if is_of_all else 0)
            found = noise.centre([*self.each, *nothing], is_in_order=self.is_in_order and not nothing)
            share = count / self.step_cnt
            return noise.weighted([(share, found)])
        variance = max(0.0, self.square - self.value**2 / count) / (count - 1) / count
        return Centre(self.value / self.step_cnt, variance * (count / self.step_cnt) ** 2, count - 1)


def rate_frac(steps: Spread) -> float | None:
    """How far apart the quartiles of tokens a second are, as a fraction of their median; of steps whose tokens are not
    known those of their times.
    """
    each = [value / kind for kind, value in steps.samples if isinstance(kind, int) and kind > 0]
    if len(each) < max(2, len(steps.samples)):
        return steps.frac
    low, middle, high = statistics.quantiles(each, n=4, method="inclusive")
    if len(each) < FEW_STEPS:
        low, high = min(each), max(each)
    return (high - low) / middle if middle else None


def by_amount(steps: Spread, mean: float) -> Spread:
    """Steps of so many tokens, each by its own number where that is its kind, else by their mean: of one kind then."""
    samples = tuple(
        (0, value / (kind if isinstance(kind, int) and kind > 0 else mean)) for kind, value in steps.samples
    )
    return replace(steps.scaled(1 / mean), samples=samples)


def difference(first: Spread, other: Spread) -> Difference:
    """The difference of two by steps, and whether it is noise."""
    found = noise.between(first.samples, other.samples)
    return found or Difference(first.median, other.median, is_noise=False, least=None)


def centres(first: Spread, other: Spread) -> tuple[float, float]:
    """The numbers by which two are compared: their medians, or their means (have_other_means)."""
    if first.mean is not None and other.mean is not None and have_other_means(first, other):
        return first.mean, other.mean
    found = difference(first, other)
    return found.before, found.after


def are_alike(first: Spread, other: Spread) -> bool:
    """Whether the difference of two is noise, and that of their means is no more than an accident."""
    return not have_other_means(first, other) and difference(first, other).is_noise


def are_alike_rows(first: Spread | None, other: Spread | None, change: float) -> bool:
    """Whether the change of a row is noise, or goes the other way without the steps that are far out.

    Of too few steps to know: whether those of one lie among those of the other.
    """
    found = centres_of_rows(first, other)
    if found is None:
        few = [_each(side) for side in (first, other)]
        return bool(change) and bool(few[0] and few[1]) and noise.is_among(*few)
    inner = found[1].value - found[0].value
    return noise.may_be_noise(*found) or inner * change <= 0


def is_of_few_steps(first: Spread | None, other: Spread | None, change: float) -> bool:
    """Whether a row's mean changed by more than its steps vary, and all of them but a few by less than half of that."""
    found = centres_of_rows(first, other)
    if found is None or first is None or other is None or first.width is None or other.width is None:
        return False
    inner, least = found[1].value - found[0].value, NEXT_TO_NOTHING * max(abs(centre.value) for centre in found)
    return abs(change) > max(first.width + other.width, least) and abs(inner) < abs(change) / 2


def is_of_other_steps(first: Spread | None, other: Spread | None, change: float) -> bool:
    """Whether a row changed because more or fewer steps only evaluate, and not within the steps that do the same.

    The change of a mean is that of the shares of steps, at what a step of each kind has in the mean, and what is left.
    """
    if first is None or other is None or not first.kinds or not other.kinds:
        return False
    sides = [learning_and_not(side.kinds) for side in (first, other)]
    if not all(any(kind.step_cnt for kind in side) for side in sides):
        return False
    shares = [[kind.step_cnt / sum(each.step_cnt for each in side) for kind in side] for side in sides]
    by_shares = 0.0
    both: tuple[list[tuple[float, Centre]], ...] = ([], [])
    for number, pair in enumerate(zip(*sides, strict=True)):
        known = [kind.value / kind.step_cnt for kind in pair if kind.step_cnt]
        by_shares += (shares[1][number] - shares[0][number]) * statistics.fmean(known or [0.0])
        if min(kind.step_cnt for kind in pair) < LEAST_STEPS:
            continue
        weight = (shares[0][number] + shares[1][number]) / 2
        one, two = _centre_beside(*pair), _centre_beside(*pair[::-1])
        if one is not None and two is not None:
            both[0].append((weight, one))
            both[1].append((weight, two))
    if not both[0] or by_shares * change <= 0 or abs(by_shares) < abs(change) / 2:
        return False
    return noise.may_be_noise(noise.weighted(both[0]), noise.weighted(both[1]))


def learning_and_not(kinds: Sequence[KindOfSteps]) -> tuple[KindOfSteps, KindOfSteps]:
    """What steps with a backward have of a row, and those without: an optimizer is no matter."""
    return _together(kinds[::2]), _together(kinds[1::2])


def centres_of_rows(first: Spread | None, other: Spread | None) -> tuple[Centre, Centre] | None:
    """What a step has of a row in the mean, in both; None where too few steps say it.

    What as many steps of both have is as much a part of both: only what those have varies. Where too few steps of a
    kind have any, all are of one kind.
    """
    if first is None or other is None or not first.kinds or not other.kinds:
        return None
    by_kind = first.kinds, other.kinds
    in_all = tuple((_together(kinds),) for kinds in by_kind)
    for ours, theirs in (by_kind, in_all):
        sides = [_mean_of(ours, theirs), _mean_of(theirs, ours)]
        if sides[0] is not None and sides[1] is not None:
            return sides[0], sides[1]
    return None


def _mean_of(kinds: Sequence[KindOfSteps], beside: Sequence[KindOfSteps]) -> Centre | None:
    """What a step has in the mean of all kinds, beside those of another input; None where too few of one have any."""
    whole, parts = sum(kind.step_cnt for kind in kinds), []
    for kind, twin in zip(kinds, beside, strict=True):
        if not kind.with_cnt:
            continue
        centre = _centre_beside(kind, twin)
        if centre is None:
            return None
        parts.append((kind.step_cnt / whole, centre))
    return noise.weighted(parts)


def _centre_beside(kind: KindOfSteps, twin: KindOfSteps) -> Centre | None:
    """What a step of a kind has in the mean, beside those of another input; None where too few have any.

    Where other shares of both have any, that some have nothing counts.
    """
    share = twin.with_cnt / twin.step_cnt if twin.step_cnt else 0.0
    is_of_all = abs(kind.with_cnt / kind.step_cnt - share) > _OTHER_SHARE
    return None if (kind.step_cnt if is_of_all else kind.with_cnt) < LEAST_STEPS else kind.centre(is_of_all)


def _each(row: Spread | None) -> list[float]:
    """What each step has of a row, 0 of those that have nothing; empty where that is not known."""
    whole = _together(row.kinds) if row is not None and row.kinds else None
    if whole is None or whole.each is None:
        return []
    return [*whole.each, *[0.0] * (whole.step_cnt - whole.with_cnt)]


def _together(kinds: Sequence[KindOfSteps]) -> KindOfSteps:
    each = [kind.each for kind in kinds]
    return KindOfSteps(
        sum(kind.step_cnt for kind in kinds), sum(kind.with_cnt for kind in kinds),
        math.fsum(kind.value for kind in kinds), math.fsum(kind.square for kind in kinds),
        None if None in each else tuple(value for values in each for value in values or ()),
        sum(kind.step_cnt > 0 for kind in kinds) < 2,
    )  # fmt: skip


def _error_of_mean(values: list[float]) -> float | None:
    """The standard error of the mean: the least by batches of 1, 2 and 4 that follow one another, of five or more; of
    steps that are like those before them as much more as noise says.
    """
    found = []
    for size in _BATCHES:
        batches = [statistics.fmean(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]
        if len(batches) >= (FEW_STEPS if size > 1 else 2):
            found.append(statistics.stdev(batches) / math.sqrt(len(batches)))
    return min(found) * math.sqrt(noise.repeated(values)) if found else None


def have_other_means(first: Spread, other: Spread) -> bool:
    """Whether means tell apart what medians cannot, or say better what uneven steps take."""
    if first.mean is None or other.mean is None or first.error is None or other.error is None:
        return False
    change, fewest = abs(other.mean - first.mean), min(first.step_cnt, other.step_cnt)
    errors = max(_ERRORS, quantile(fewest - 1))
    if change <= errors * math.hypot(first.error, other.error) or change <= _LEAST_MEAN * first.mean:
        return False
    are_uneven = is_uneven(first.mean, first.median) or is_uneven(other.mean, other.median)
    return are_uneven or difference(first, other).is_noise
