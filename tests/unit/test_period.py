"""The period of kernel names: planted ones are found whatever stands around them; nothing is invented."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lorabench.analyze.attribute.counters import counters
from lorabench.analyze.attribute.period import steps


def sequence(text: str) -> np.ndarray:
    """Names from a text, a letter each."""
    return np.array([ord(letter) for letter in text], dtype=np.int64)


def step_of(layers: int) -> str:
    """A training step: what is once, layers forward, what is once, layers backward, an optimizer."""
    return "e" + "abcdabef"[:6] * layers + "hls" + "xyzwxv" * layers + "oop"


def found(text: str) -> list[tuple[int, int]]:
    begin, end = steps(sequence(text))
    return list(zip(begin.tolist(), end.tolist(), strict=True))


def test_steps_are_what_contains_the_layers_and_not_a_layer() -> None:
    step = step_of(12)
    assert found(step * 5) == [(n * len(step), (n + 1) * len(step)) for n in range(5)]


def test_what_stands_before_the_first_step_is_no_step_and_a_part_at_the_end_is_left_out() -> None:
    step = step_of(4)
    assert found("123456" + step * 6 + step[:20]) == [(6 + n * len(step), 6 + (n + 1) * len(step)) for n in range(6)]


def test_micro_batches_of_an_accumulated_step_are_parts_of_it() -> None:
    micro = step_of(6).removesuffix("oop")
    step = micro * 4 + "oop"
    assert len(found(step * 5)) == 5


def test_what_is_once_in_ten_steps_makes_no_step_of_ten() -> None:
    step = step_of(40)
    assert len(found((step * 10 + "L") * 4)) >= 36


@pytest.mark.parametrize(
    "text",
    ["", "a" * 1000, "ab" * 500, "abcdefg" * 40, step_of(3) * 2, "em" + "abcdefghij" * 24 + "hls"],
    ids=["nothing", "one kernel", "two", "seven", "two steps", "layers of one step"],
)
def test_what_shows_no_steps_has_none(text: str) -> None:
    assert found(text) == []


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(5, 60), st.integers(50, 4000))
def test_a_random_sequence_has_no_steps(seed: int, names: int, size: int) -> None:
    begin, _ = steps(np.random.default_rng(seed).integers(0, names, size))
    assert not begin.size


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(30, 300), st.integers(4, 30), st.integers(0, 40))
def test_a_planted_period_is_found_through_noise(seed: int, length: int, repeats: int, before: int) -> None:
    random = np.random.default_rng(seed)
    step = random.integers(0, 25, length)
    names = np.concatenate([random.integers(100, 120, before), np.tile(step, repeats)])
    noisy = before + random.choice(length * repeats, size=length * repeats // 500, replace=False)
    names[noisy] = 999
    begin, end = steps(names)
    assert repeats - 2 <= begin.size <= repeats
    assert (np.abs(np.diff(begin) % length) == 0).all() and (end - begin == length).all()


def test_millions_of_kernels_take_seconds() -> None:
    names = np.tile(sequence(step_of(100)), 1000)
    assert len(steps(names)[0]) == 1000


def test_only_numbers_that_count_calls_are_no_part_of_a_name() -> None:
    rises = [(0, n, 1, 10 * n, 10 * n + 5) for n in range(20)]  # copy 0, copy 1, …
    repeats = [(1, n % 10, 1, 1000 + 10 * n, 1000 + 10 * n + 5) for n in range(100)]  # ten parts of each step
    nests = [(2, n, 1, 5000 + n, 6000 - n) for n in range(20)]
    few = [(3, n, 1, 7000 + 10 * n, 7000 + 10 * n + 5) for n in range(8)]
    falls = [(4, 20 - n, 1, 8000 + 10 * n, 8000 + 10 * n + 5) for n in range(20)]
    columns = (np.array(column) for column in zip(*rises, *repeats, *nests, *few, *falls, strict=True))
    assert counters(*columns).tolist() == [True, False, False, False, False]
