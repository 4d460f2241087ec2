"""A window of a recording: what is typed, and a page whose timeline has every operation of it."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from lorabench.errors import UsageError
from lorabench.reports.page import page as pages
from lorabench.reports.page import timeline, window
from playwright.sync_api import Browser

FIXTURES = ROOT / "fixtures"
CAPTURE = FIXTURES / "h200-batch" / "trace.json.gz"


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("10..20", 10_000_000, 20_000_000), ("1.2s..1.4s", 1_200_000_000, 1_400_000_000), ("..20", None, 20_000_000),
        ("500us ..", 500_000, None), ("-0.5..2 min", -500_000, 120_000_000_000), ("7ns..9 µs", 7, 9_000),
        (".5..1.", 500_000, 1_000_000),
    ],
)  # fmt: skip
def test_a_window_is_two_times_or_one(text: str, first: int | None, last: int | None) -> None:
    assert window.parse(text) == window.Window(first, last, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("..", "write two times"), ("10", "write two times"), ("1..2..3", "write two times"), ("", "write two times"),
        ("20..10", "before the second"), ("5..5", "before the second"), ("a..5", "a is not a time"),
        ("1h..2h", "1h is not a time"), ("1,5..2", "1,5 is not a time"),
    ],
)  # fmt: skip
def test_what_is_not_a_window_is_told(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--window {text}: ") + f".*{why}"):
        window.parse(text)


def test_a_window_is_cut_to_the_recording() -> None:
    assert window.parse("-5..20").within(1_000_000, 0, 9_000_000) == (0, 9_000_000)
    assert window.parse("1..2").within(1_000_000, 0, 9_000_000) == (2_000_000, 3_000_000)
    with pytest.raises(UsageError, match=r"goes from -1\.000 ms to 8\.000 ms"):
        window.parse("8..9").within(1_000_000, 0, 9_000_000)


@pytest.mark.slow
def test_commands_without_a_page_of_one_recording_have_no_window(tmp_path: Path, run_command: Callable) -> None:
    for more, why in (
        (["--window", "99s.."], "the recording goes from -2.054 ms to 85.226 ms"),
        (["--window", "1..2", "--perfetto", tmp_path / "p.json.gz"], "name it with -o"),
        (["--window", "x"], "write two times"),
    ):
        said = run_command("report", CAPTURE, *more, *(["-o", tmp_path / "p.html"] if len(more) == 2 else []), code=2)
        assert why in said.err, said.err
    said = run_command("report", FIXTURES / "h200-batch" / "snapshot.pickle.gz", "--window", "1..2", "-o",
                       tmp_path / "p.html", code=2)  # fmt: skip
    assert "has no timeline" in said.err and not (tmp_path / "p.html").exists()


# What is drawn of a stream: names, begins and lengths of its operations, and how much of the view is filled.
DRAWN = """() => {
    const {data, lanes, view} = document.querySelector("[data-kind=timeline]").picture;
    return {view, lanes: lanes.filter(lane => !lane.is_range).map(lane => [...lane.begins].map((begin, n) =>
        [begin - data.zero, lane.lengths[n], data.names[lane.names[n]][0], lane.levels === null]))};
}"""


@pytest.mark.slow
def test_a_window_has_every_operation_of_a_recording_with_too_many(
    browser: Browser, database_of: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "OP_CNT", 400)  # of 1,296
    database = database_of(CAPTURE)
    pages.write(database, tmp_path / "p.html", window=window.parse("20..30"))
    page, complaints = browser.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "p.html").as_uri())
    page.wait_for_selector("html[data-filtered='[\"time\"]']")
    drawn = page.evaluate(DRAWN)
    rows = database.rows(
        """select start_ns - zero, end_ns - start_ns, name from _page_op join _page_name using (name_id, path_id),
        (select min(start_ns) as zero from gpu_op) where start_ns < zero + 30e6 and end_ns > zero + 20e6
        order by start_ns, end_ns desc"""
    )
    assert drawn["view"] == {"from": 0, "to": 10e6} and 100 < len(rows) < 400
    assert [(at, length, name) for at, length, name, _ in drawn["lanes"][0]] == rows
    assert all(is_whole for *_, is_whole in drawn["lanes"][0])
    text = page.locator("section[aria-labelledby=timeline]").inner_text()
    assert "It is the window from 20.000 ms to 30.000 ms of the recording" in text and "cells" not in text
    assert "timeline is a window" in page.locator("header").inner_text()
    note = page.locator("section[aria-labelledby=kernels] .note").inner_text()
    assert note == "The picture is of 20.00 ms to 30.00 ms; the table is added up of 20.00 ms to 30.00 ms."
    assert f"{len(rows)} GPU operations" in page.locator(".selection").inner_text()
    page.keyboard.press("Escape")  # there is nothing but the window
    assert page.locator(".selection").is_visible() and page.evaluate(DRAWN)["view"] == {"from": 0, "to": 10e6}
    assert not complaints
    page.close()


def test_operations_that_begin_before_a_window_are_packed_with_their_times() -> None:
    lane = timeline.Lane("s", np.array([5, 40, 12]), np.array([30, 50, 14]), np.array([0, 1, 2]))
    made = lane.as_json(10)
    assert made["lead"] == 5 and lane.as_json(5)["lead"] == lane.as_json(0)["lead"] == 0
