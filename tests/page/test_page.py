"""The page: complete, harmless, and drawn in a real browser without a network."""

import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, quick
from lorabench.analyze.pipeline import analyze
from lorabench.errors import InputError
from lorabench.reports.page import page as pages
from lorabench.reports.sweeps import results as sweeps
from lorabench.reports.sweeps import sweep_page
from lorabench.reports.tables.units import said_ns
from playwright.sync_api import Browser, Page, expect

CAPTURE = ROOT / "fixtures" / "h200-batch" / "trace.json.gz"
HOSTILE = "</script><script>document.title='pwned'</script><b id=pwned onclick=x>&lt;"


class Elements(HTMLParser):
    """What a parser sees: tags with their attributes, and the text of scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def with_attribute(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.tags for key, value in attributes.items() if key == name]


def rendered(trace: Path, folder: Path) -> str:
    with analyze([trace], folder / "x.duckdb") as database:
        pages.write(database, folder / "page.html")
    return (folder / "page.html").read_text("utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return rendered(CAPTURE, tmp_path_factory.mktemp("page"))


def hostile_trace(path: Path) -> Path:
    link = {"correlation": 1}
    common = {"ph": "X", "pid": 1, "tid": 1}
    events: list[dict[str, Any]] = [
        common | {"cat": "user_annotation", "name": HOSTILE, "ts": 1, "dur": 90},
        common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2, "dur": 5, "args": link},
        {
            "ph": "X",
            "pid": 0,
            "tid": 7,
            "cat": "kernel",
            "name": HOSTILE,
            "ts": 9,
            "dur": 50,
            "args": link | {"stream": 7},
        },
    ]
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    return path


def test_every_figure_is_json_and_every_section_has_its_anchor(text: str) -> None:
    found = Elements(text)
    ids = found.with_attribute("id")
    assert len(ids) == len(set(ids)) and set(found.with_attribute("href")) <= {f"#{i}" for i in ids}
    figures = re.findall(r'<script type="application/json" id="(figure-\w+)">(.*?)</script>', text, re.DOTALL)
    assert {name for name, _ in figures} == set(found.with_attribute("data-figure")) and len(figures) >= 9
    assert all(json.loads(figure) for _, figure in figures)
    assert {"timeline", "ranges", "kernels", "critical", "lora", "idle"} <= set(ids)


def test_the_page_asks_nothing_of_any_network(text: str) -> None:
    found = Elements(text)
    assert not found.with_attribute("src") and not [tag for tag, _ in found.tags if tag in ("link", "iframe", "img")]
    assert "default-src 'none'" in text and len(text) < 2_500_000


def test_names_of_a_trace_are_text(tmp_path: Path) -> None:
    text = rendered(hostile_trace(tmp_path / "h.json"), tmp_path)
    found = Elements(text)
    assert "pwned" not in found.with_attribute("id") and not found.with_attribute("onclick")
    assert [tag for tag, _ in found.tags].count("script") == text.count("<script type=") + 2


def test_what_the_page_says_is_in_the_views(text: str, tmp_path: Path) -> None:
    with analyze([CAPTURE], tmp_path / "x.duckdb") as database:
        ((kernels, time),) = database.rows("select sum(kernel_cnt), sum(kernel_ns) from kernel_summary")
        ((median,),) = database.rows("select p50_ns from step_statistics")
    assert f"<b>{kernels:,}</b>" in text and said_ns(time) in text and f"<b>{median / 1e6:,.2f} ms</b>" in text


def test_a_trace_without_gpu_work_has_a_page(tmp_path: Path) -> None:
    text = rendered(CAPTURE.parent.parent / "torch-cpu.json.gz", tmp_path)
    assert (
        'id="operators"' in text
        and 'id="idle"' not in text
        and "GPU streams" not in Elements(text).with_attribute("id")
    )


def test_without_any_readable_input_there_is_no_page(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{", "utf-8")
    with pytest.raises(InputError):
        rendered(tmp_path / "a.json", tmp_path)


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file; whatever it says on the console or asks of a network fails the test."""
    complaints: list[str] = []
    opened: list[Page] = []

    def go(path: Path, width: int = 1280, scheme: Any = "light") -> Page:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        opened.append(page)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: None if request.url == path.as_uri() else complaints.append(request.url))
        page.goto(path.as_uri())
        return page

    yield go
    assert not complaints
    for page in opened:
        page.close()


@pytest.fixture
def tab(visit: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """Opens a page made from a trace."""

    def go(trace: Path, width: int = 1280, scheme: Any = "light") -> Page:
        rendered(trace, tmp_path)
        return visit(tmp_path / "page.html", width, scheme)

    return go


def drawn(page: Page) -> int:
    """Wait until every picture is drawn, seen or not; how many there are."""
    page.wait_for_selector("html[data-drawn=all]")
    return page.locator("[data-figure][data-drawn=yes]").count()


@pytest.mark.parametrize(
    ("width", "scheme"), quick(2, [(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")])
)
@pytest.mark.slow
def test_a_browser_draws_every_figure_within_its_width(tab: Callable, width: int, scheme: str, tmp_path: Path) -> None:
    page = tab(CAPTURE, width, scheme)
    assert drawn(page) >= 9
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    picture = page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert len(picture) > 50_000  # it is not blank


@pytest.mark.slow
def test_a_table_is_filtered_and_sorted(tab: Callable) -> None:
    page = tab(CAPTURE)
    drawn(page)  # what is drawn later moves what is clicked
    section = page.locator("section[aria-labelledby=kernels]")
    section.locator("summary").click()
    rows = section.locator("tbody tr:visible")
    every = rows.count()
    section.locator("input").fill("GEMM")
    names = rows.locator("td:first-child").all_text_contents()
    assert 0 < len(names) < every and all("gemm" in name.lower() for name in names)
    section.locator("input").fill("")
    assert rows.count() == every
    button = section.locator("th button", has_text="kernel (count)")
    for order, sign in (("descending", -1), ("ascending", 1)):
        button.press("Enter")  # as from the keyboard
        assert button.locator("..").get_attribute("aria-sort") == order
        counts = [float(cell.get_attribute("data-value") or 0) for cell in rows.locator("td:nth-child(2)").all()]
        assert counts == sorted(counts, key=lambda count: sign * count) and len(set(counts)) > 1


@pytest.mark.slow
def test_a_link_leads_to_its_section(tab: Callable) -> None:
    page = tab(CAPTURE)
    drawn(page)
    page.get_by_role("link", name="Critical path").click()
    expect(page.locator("#critical")).to_be_in_viewport()


@pytest.mark.slow
def test_markup_in_names_stays_text_in_figures(tab: Callable, tmp_path: Path) -> None:
    page = tab(hostile_trace(tmp_path / "h.json"))
    assert drawn(page) > 0
    assert page.locator("#pwned").count() == 0 and "pwned" not in page.title()


@pytest.mark.slow
def test_inputs_side_by_side_are_a_page(visit: Callable, tmp_path: Path, run_command: Callable) -> None:
    hostile = hostile_trace(tmp_path / "<b id=pwned>.json")
    run_command("compare", CAPTURE, hostile, "-o", tmp_path / "c.html")
    page = visit(tmp_path / "c.html", 390)
    assert drawn(page) >= 4 and page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#pwned").count() == 0
    said = run_command("compare", CAPTURE, hostile, "-o", tmp_path / "c.html", "--by", "kernel", code=2)
    assert "are for a table" in said.err


def test_a_sweep_is_a_page_with_published_numbers_behind(visit: Callable, tmp_path: Path) -> None:
    about = {"format": 1, "axes": {"lora_cnt": ["1", "2"], "peft_mode": ["switch", "batch"]}, "cells": ["x"],
             "settings": {"model": "tinyllama-1.1b"}}  # fmt: skip
    (tmp_path / "sweep.json").write_text(json.dumps(about), "utf-8")
    empty = dict.fromkeys(sweeps.COLUMNS)
    rows = [
        {"lora_cnt": n, "peft_mode": mode, **empty, "status": "ok", "task_step_ns": 1e9 / n, "token_per_s": 5.0 * n}
        for n in (1, 2) for mode in ("switch", "batch")
    ]  # fmt: skip
    rows.append({"lora_cnt": 3, "peft_mode": "batch", **empty, "status": "oom", "message": HOSTILE})
    sweep_page.write(tmp_path, rows, tmp_path / "sweep.html")
    page = visit(tmp_path / "sweep.html", 390)
    assert drawn(page) == 2 and page.locator("#pwned").count() == 0
    legend = page.locator("section[aria-labelledby=task-step-ns] .legendtext").all_text_contents()
    assert legend == ["switch", "batch", "published, switch", "published, batch"]


@pytest.mark.long
def test_figures_become_pictures(browser: Browser, tmp_path: Path, run_command: Callable) -> None:
    run_command("report", CAPTURE, "-o", tmp_path / "p.html", "--png", tmp_path / "png")
    pictures = {path.stem: path.read_bytes() for path in (tmp_path / "png").iterdir()}
    assert {"timeline", "ranges", "kernels"} <= set(pictures)
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 5000 for picture in pictures.values())
