"""Sections of the page agree with the verdict on top and with the views behind them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import CORPUS, quick
from lorabench.reports import answer
from lorabench.reports.page import page as pages
from lorabench.reports.page.receipt import PARTS
from lorabench.reports.page.section import Section

FIXTURES = Path(__file__).parent.parent / "fixtures"


def values(section: Section, title: str) -> list[Any]:
    """What a column of the table has, by the begin of its title."""
    (place,) = (n for n, column in enumerate(section.columns) if column.title.startswith(title))
    return [row[place].text if row[place].number is None else row[place].number for row in section.rows]


@pytest.fixture
def section(database_of: Callable, tmp_path: Path) -> Callable[[Path, str], Section | None]:
    """A section of the page of a trace; None where the page has none of that name."""

    def get(trace: Path, name: str) -> Section | None:
        made = pages.write(database_of(trace), tmp_path / "page.html", [trace])
        return next((one for one in made if one.name == name), None)

    return get


@pytest.mark.parametrize(
    "trace",
    quick(2, ["sglang-decode-graphs.json.gz", "cuda-graphs.a100.json.gz", "event-sync-multi-stream.json.gz"]),
)
def test_reasons_for_idle_time_are_those_of_the_receipt(trace: str, section: Callable, database_of: Callable) -> None:
    database = database_of(CORPUS / "kineto" / trace)
    answered = answer.answer(database)
    drawn = section(CORPUS / "kineto" / trace, "idle")
    assert not answered["steady"]["is_steady"]  # else the section is of more than the verdict, and says so
    found = dict(zip(drawn.figure["data"][0]["customdata"], drawn.figure["data"][0]["x"], strict=True))
    assert found
    ((window,),) = database.rows("select sum(window_ns) from steady_state")
    for part in (*answer.IDLE, "unrecorded", "idle"):
        share = answered["parts"].get(part, 0)
        assert found.get(PARTS[part][0], 0) * 1e6 == pytest.approx(share * window, rel=1e-4, abs=2), part


@pytest.mark.parametrize("trace", ["sglang-decode-graphs.json.gz", "ddp-backward.a100.json.gz"])
def test_rows_of_a_cause_add_up_to_the_view(trace: str, database_of: Callable) -> None:
    database = database_of(CORPUS / "kineto" / trace)
    names = "device_id, cause, sum(gap_cnt), sum(idle_ns), sum(behind_wait_ns), max(max_ns)"
    statement = f"select {names} from {{}} group by all order by all"
    assert database.rows(statement.format("_page_idle")) == database.rows(statement.format("idle_summary"))
