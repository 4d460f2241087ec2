"""What is noise and what is a difference, of steps whose truth is drawn."""

import math
import random
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench.reports.comparison import noise, spread, student

PAIRS = 400
Steps = list[float]


def normal(draw: random.Random, count: int) -> Steps:
    return [1 + draw.gauss(0, 0.03) for _ in range(count)]


def with_outliers(draw: random.Random, count: int) -> Steps:
    return [step * (1 + draw.expovariate(1) * (draw.random() < 0.1)) for step in normal(draw, count)]


def alike_ones_in_a_row(draw: random.Random, count: int) -> Steps:
    found, now = [], draw.gauss(0, 1)
    for _ in range(count):
        now = 0.7 * now + math.sqrt(1 - 0.7**2) * draw.gauss(0, 1)
        found.append(1 + 0.03 * now)
    return found


def in_turns(draw: random.Random, count: int) -> Steps:
    return [step * (2 - number % 2) for number, step in enumerate(normal(draw, count))]


def found(first: Steps, other: Steps) -> noise.Difference:
    difference = noise.between([(0, step) for step in first], [(0, step) for step in other])
    assert difference is not None
    return difference


def share_of_differences(kind: Callable[[random.Random, int], Steps], count: int, factor: float) -> float:
    draw = random.Random(count)
    pairs = [(kind(draw, count), [factor * step for step in kind(draw, count)]) for _ in range(PAIRS)]
    return sum(not found(*pair).is_noise for pair in pairs) / PAIRS


@pytest.mark.parametrize("count", [3, 4, 5, 8, 20, 100])
@pytest.mark.parametrize("kind", [normal, with_outliers, in_turns])
def test_of_what_does_not_differ_one_in_a_hundred_is_said_to(kind: Callable[..., Steps], count: int) -> None:
    assert share_of_differences(kind, count, 1.0) <= 0.03


@pytest.mark.parametrize(("count", "most"), [(3, 0.16), (5, 0.12), (8, 0.08), (20, 0.03), (100, 0.02)])
def test_steps_that_are_like_those_before_them_say_less(count: int, most: float) -> None:
    assert share_of_differences(alike_ones_in_a_row, count, 1.0) <= most


@pytest.mark.parametrize("kind", [normal, with_outliers, in_turns])
@pytest.mark.first(1)
def test_the_more_steps_the_smaller_a_difference_is_found(kind: Callable[..., Steps]) -> None:
    shares = [share_of_differences(kind, count, 1.035) for count in (5, 20, 100)]
    assert shares == sorted(shares) and shares[-1] > 0.95


@given(
    steps=st.lists(st.floats(1.0, 2.0), min_size=3, max_size=20),
    others=st.lists(st.floats(3.01, 3.9), min_size=3, max_size=20),
    scale=st.sampled_from([1.0, 1e6]), kinds=st.integers(1, 2),
)  # fmt: skip
def test_steps_that_are_apart_differ_however_alike_those_in_a_row_are(
    steps: Steps, others: Steps, scale: float, kinds: int
) -> None:
    """As a clock that falls all the time: between the slowest of one and the fastest of the other is much room."""
    first, other = ([scale * value for value in sorted(side)] for side in (steps, others))
    assert not found(first, other).is_noise and not found(other, first).is_noise
    spreads = [row_of([side] * kinds) for side in (first, other)]
    assert not spread.are_alike_rows(*spreads, 1.0) and not spread.are_alike_rows(*reversed(spreads), -1.0)


def row_of(kinds: list[Steps]) -> spread.Spread:
    """What steps have of a row, of each kind these."""
    each = tuple(
        spread.KindOfSteps(len(side), len(side), sum(side), sum(value**2 for value in side), tuple(side))
        for side in kinds
    )
    return spread.Spread(0.0, 0.0, 0.0, sum(map(len, kinds)), kinds=each)


@given(
    steps=st.lists(st.floats(1e3, 1e9), min_size=3, max_size=30), factor=st.floats(0.5, 2.0),
    others=st.lists(st.floats(1e3, 1e9), min_size=3, max_size=30),
)  # fmt: skip
def test_two_swapped_are_judged_alike_and_units_do_not_matter(steps: Steps, factor: float, others: Steps) -> None:
    there, back = found(steps, others), found(others, steps)
    assert (there.before, there.after, there.is_noise) == (back.after, back.before, back.is_noise)
    scaled = found([factor * step for step in steps], [factor * step for step in others])
    assert scaled.before == pytest.approx(factor * there.before)
    assert scaled.least == pytest.approx(factor * (there.least or 0.0), rel=1e-6, abs=1e-3)
    assert found(steps, steps).is_noise


@given(lengths=st.tuples(st.floats(1e3, 1e6), st.floats(1e3, 1e6)), factor=st.floats(1.02, 2.0), at=st.integers(2, 5))
def test_each_kind_of_step_is_set_beside_its_own(lengths: tuple[float, float], factor: float, at: int) -> None:
    """Every few steps one evaluates: only those that train got slower, without any noise."""

    def steps(slower: float, count: int) -> list[noise.Sample]:
        is_eval = [number % at == 0 for number in range(count)]
        return [("eval", lengths[1]) if evaluates else ("train", lengths[0] * slower) for evaluates in is_eval]

    difference = noise.between(steps(1.0, 20), steps(factor, 20))
    assert difference is not None and "kind" in difference.of and not difference.is_noise
    is_eval = [number % at == 0 for number in range(20)]
    change = statistics.fmean(0.0 if evaluates else lengths[0] * (factor - 1) for evaluates in is_eval)
    assert difference.after - difference.before == pytest.approx(change)


@given(tokens=st.lists(st.integers(1, 10_000), min_size=5, max_size=40, unique=True), factor=st.floats(1.01, 1.5))
def test_steps_of_as_many_tokens_are_compared_twin_by_twin(tokens: list[int], factor: float) -> None:
    first = [(count, 1e3 * count) for count in tokens]
    difference = noise.between(first, [(count, factor * step) for count, step in first])
    assert difference is not None and not difference.is_noise
    assert difference.after / difference.before == pytest.approx(factor)
    same = noise.between(first, first)
    assert same is not None and same.is_noise


@pytest.mark.parametrize(
    ("freedom", "table"),
    [(1, 63.6567), (2, 9.92484), (3, 5.84091), (4, 4.60409), (8, 3.35539), (20, 2.84534), (1000, 2.58075),
     (1e6, 2.57583), (1e12, 2.57583)],
)  # fmt: skip
def test_quantiles_are_those_of_tables(freedom: float, table: float) -> None:
    assert student.quantile(freedom) == pytest.approx(table, abs=1e-5 * table)


@given(freedom=st.floats(1, 1e5), more=st.floats(1e-9, 10))
def test_more_degrees_of_freedom_put_no_value_further_out(freedom: float, more: float) -> None:
    """Without a jump between two that are nearly the same."""
    less = student.quantile(freedom) - student.quantile(freedom + more)
    assert -1e-9 <= less <= 300 * more / freedom + 1e-9


@pytest.mark.parametrize("freedom", [1.0, 2.0])
def test_quantiles_are_exact_where_they_have_a_formula(freedom: float) -> None:
    exact = math.tan(math.pi * 0.495) if freedom == 1 else 0.99 * math.sqrt(2 / (1 - 0.99**2))
    assert student.quantile(freedom) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("counts", [(5, 50), (3, 100), (5, 20), (10, 100)])
def test_unlike_numbers_of_steps_are_no_difference(counts: tuple[int, int]) -> None:
    draw = random.Random(1)
    pairs = [tuple(normal(draw, count) for count in counts) for _ in range(PAIRS)]
    assert sum(not found(*pair).is_noise for pair in pairs) / PAIRS <= 0.04


@pytest.mark.parametrize("count", [6, 7, 8, 9, 12])
def test_steps_of_which_one_in_two_is_late_are_told_from_even_ones(count: int) -> None:
    """What comes in turns is no noise, whatever it is set beside."""
    draw = random.Random(2)
    even = [draw.gauss(4.5, 0.01) for _ in range(count)]
    late = [draw.gauss(4.5 if number % 2 else 13.5, 0.01) for number in range(count)]
    for pair in ((even, late), (late, even)):
        assert not found(*pair).is_noise


@pytest.mark.parametrize("count", [6, 8, 9])
@pytest.mark.parametrize("place", [0, 3, -1])
def test_one_step_far_out_hides_no_change_of_the_others(count: int, place: int) -> None:
    draw = random.Random(3)
    before, after = ([draw.gauss(middle, 1.0) for _ in range(count)] for middle in (100, 130))
    after[place] = 2000.0
    assert not found(before, after).is_noise
    before[place] = 1500.0
    assert not found(before, after).is_noise


def test_of_too_few_steps_nothing_is_known() -> None:
    assert found([1.0, 1.1], [2.0, 2.1]) == noise.Difference(1.05, 2.05, False, None)
    assert noise.between([], [(0, 1.0)]) is None


ROWS = st.lists(st.floats(0, 1e6), min_size=3, max_size=12)


def row(*steps_by_kind: Steps) -> spread.Spread:
    kinds = tuple(
        spread.KindOfSteps(len(steps), sum(step > 0 for step in steps), sum(steps), sum(step**2 for step in steps))
        for steps in steps_by_kind
    )
    return spread.Spread(0.0, 0.0, 0.0, 0, kinds=kinds)


def least(ours: spread.Spread, theirs: spread.Spread) -> float | None:
    """How far apart noise may put two rows."""
    found = spread.centres_of_rows(ours, theirs)
    return None if found is None else noise.least_seen(*found)


@given(ours=ROWS, theirs=ROWS)
def test_what_a_row_may_differ_by_is_the_t_test_of_its_means(ours: Steps, theirs: Steps) -> None:
    if all(step > 0 for step in (*ours, *theirs)):
        squares = [statistics.variance(steps) / len(steps) for steps in (ours, theirs)]
        centres = [
            noise.Centre(statistics.fmean(steps), square, len(steps) - 1)
            for steps, square in zip((ours, theirs), squares, strict=True)
        ]
        expected = noise.least_seen(*centres)
        assert least(row(ours), row(theirs)) == pytest.approx(expected, rel=1e-3, abs=1e-2)


def test_a_row_of_a_kind_that_is_rare_is_judged_over_all_steps() -> None:
    ours, rare = [10.0, 11.0, 12.0, 11.0, 10.0], [500.0]
    known = least(row(ours, rare), row(ours, rare))
    assert known is not None and known > 100
    assert least(row(ours, [0.0]), row(ours, [0.0])) == pytest.approx(least(row(ours), row(ours)) or 0, rel=0.5)
    assert least(row([1.0]), row([2.0])) is None


def each(*steps: float) -> spread.Spread:
    """A row of steps that are known one by one; of some nothing."""
    values = tuple(step for step in steps if step)
    return spread.Spread(
        0.0, 0.0, 0.0, 0,
        kinds=(spread.KindOfSteps(len(steps), len(values), sum(values), sum(v**2 for v in values), values),),
    )  # fmt: skip


def test_one_step_far_out_hides_no_change_of_a_row_and_is_none() -> None:
    before = (2.37, 2.52, 2.41, 2.45, 2.5, 2.39)
    faster, out = (1.37, 1.52, 1.41, 45.7, 1.5, 1.39), (2.37, 2.52, 2.41, 45.7, 2.5, 2.39)
    slower = (3.16, 3.3, 3.2, 45.7, 3.25, 3.18)
    for after, is_alike in (
        (slower, False),
        (out, True),
        (before, True),
        (faster, True),
    ):  # its mean grew, the others fell
        change = sum(after) / 6 - sum(before) / 6
        assert spread.are_alike_rows(each(*before), each(*after), change) == is_alike
    assert spread.are_alike_rows(each(*before, 0.0), each(*before, 2.4), 0.4)
    assert each(*slower).scaled(2.0).kinds[0].each == tuple(2 * value for value in slower)


@pytest.mark.parametrize(("first", "other"), [(3, 3), (5, 5), (12, 12), (3, 12), (5, 60)])
@pytest.mark.first(2)
def test_the_means_of_what_does_not_differ_are_as_seldom_said_to(first: int, other: int) -> None:
    """The verdict looks at means as well, where medians say little: that must not make more of noise."""
    draw = random.Random(first)

    def steps(count: int) -> spread.Spread:
        values = normal(draw, count)
        samples = tuple((0, value) for value in values)
        return spread.Spread(0, statistics.median(values), 1, count, samples=samples).with_mean()

    pairs = [(steps(first), steps(other)) for _ in range(PAIRS)]
    assert sum(not spread.are_alike(*pair) for pair in pairs) / PAIRS <= 0.03


@pytest.mark.parametrize(("count", "is_noise"), [(3, True), (4, True), (5, False), (8, False)])
def test_steps_that_are_all_apart_differ_where_chance_seldom_does_that(count: int, is_noise: bool) -> None:
    """Three of each lie apart in one of ten pairs, five of each in one of 126, however wide they are."""
    low, high = [10.0 + number for number in range(count - 1)], [61.0 + number for number in range(count - 1)]
    low.insert(1, 60.0)
    high.insert(2, 200.0)
    assert found(low, high).is_noise is is_noise
    assert found(high, low).is_noise is is_noise
    assert found(low, [*high[:-1], 59.0]).is_noise or count >= 8, "one of them is among the others"
