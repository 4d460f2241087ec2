"""What is made ahead of its use comes in order, whole, and one at a time."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.read.ahead import ahead


@given(st.lists(st.none() | st.integers()))
def test_all_items_come_in_order(items: list[int | None]) -> None:
    assert list(ahead(items)) == items


def test_the_next_but_one_is_not_begun_before_an_item_is_no_longer_in_use() -> None:
    """Two places suffice for all items: made[n] is when item n was begun, in numbers of items asked for."""
    asked, made = 0, []
    may_go_on = threading.Event()

    def items() -> Iterator[int]:
        for number in range(6):
            made.append(asked)
            may_go_on.set()
            yield number

    for _ in ahead(items()):
        may_go_on.wait(5)
        may_go_on.clear()
        asked += 1
    assert all(begun >= number - 1 for number, begun in enumerate(made))


def test_an_error_is_raised_in_the_place_of_its_item_and_ends_the_thread() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("two")

    coming = ahead(items())
    assert next(coming) == 1
    with pytest.raises(ValueError, match="two"):
        next(coming)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_who_asks_for_no_more_leaves_no_thread() -> None:
    coming = ahead(range(10))
    next(coming)
    coming.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]
