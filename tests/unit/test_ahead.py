"""What is made ahead of its use comes in order, whole, and one at a time."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import opened
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.read.ahead import ahead
from lorabench.analyze.store.limits import SETTINGS
from lorabench.sql import TABLES, in_folder

CAPTURES = Path(__file__).parents[2] / "fixtures"


@given(st.lists(st.none() | st.integers()))
def test_all_items_come_in_order(items: list[int | None]) -> None:
    with ahead(items) as coming:
        assert list(coming) == items


def test_the_next_but_one_is_not_begun_before_an_item_is_no_longer_in_use() -> None:
    """Two places suffice for all items: made[n] is how many items were asked for when item n was begun."""
    asked, made = 0, []
    has_begun = threading.Event()

    def items() -> Iterator[int]:
        for number in range(6):
            made.append(asked)
            has_begun.set()
            yield number

    with ahead(items()) as coming:
        for _ in coming:
            has_begun.wait(5)
            has_begun.clear()
            asked += 1
    assert all(begun >= number - 1 for number, begun in enumerate(made))


def test_an_error_is_raised_in_the_place_of_its_item() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("two")

    with ahead(items()) as coming:
        assert next(coming) == 1
        with pytest.raises(ValueError, match="two"):
            next(coming)


def test_the_thread_ends_with_the_block_whatever_ends_it() -> None:
    def items() -> Iterator[int]:
        while True:
            time.sleep(0.01)
            yield 1

    with pytest.raises(KeyError), ahead(items()) as coming:
        next(coming)
        raise KeyError
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


@pytest.mark.parametrize(
    "path", [CAPTURES / "lora-run.json.gz", CAPTURES / "lora-run.sqlite"], ids=lambda path: path.suffix
)
@pytest.mark.slow
def test_the_same_rows_are_read_with_and_without_a_thread_ahead(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorabench.analyze.read.json_pieces.PIECE_BYTES", 20_000)
    monkeypatch.setattr("lorabench.analyze.read.json_pieces.BLOCK_BYTES", 5_000)
    monkeypatch.setattr("lorabench.analyze.read.nsys_loading.BATCHES_AT_ONCE", 1)
    rows = []
    for threads in (1, 2):
        monkeypatch.setitem(SETTINGS, "threads", threads)
        with opened(path, db=tmp_path / f"{threads}.duckdb") as database:
            tables = [file.name for file in in_folder(TABLES)]
            rows.append({table: sorted(map(repr, database.rows(f"from {table}"))) for table in tables})
    assert rows[0] == rows[1]
