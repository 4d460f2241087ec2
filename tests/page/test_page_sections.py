"""The sections of pages of real traces: nothing empty, nothing twice, nothing that a person cannot tell apart."""

import base64
import re
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CORPUS, ROOT, absent, corpus_params, quick
from lorabench.reports.page import figures, kinds, rank_sections, receipt, said, step_sections, timeline
from lorabench.reports.page import page as pages
from lorabench.reports.page import sections as page_sections
from lorabench.reports.page.packing import packed, varints
from lorabench.reports.page.section import Section

FIXTURES = ROOT / "fixtures"
TRACES = [
    *corpus_params("kineto/*.json.gz"), *corpus_params("nsys/*.sqlite"), *corpus_params("memory_snapshots/*.pickle"),
    pytest.param(FIXTURES / "torch-cpu.json.gz", id="on a CPU"),
    pytest.param(FIXTURES / "h200-batch" / "trace.json.gz", id="capture"),
]  # fmt: skip


@pytest.fixture(scope="module")
def page(
    database_of: Callable, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], tuple[list[Section], str]]:
    folder = tmp_path_factory.mktemp("pages")
    made: dict[Path, tuple[list[Section], str]] = {}

    def get(trace: Path) -> tuple[list[Section], str]:
        if not trace.exists():
            absent("corpus", f"there is no {trace}")
        if trace not in made:
            sections = pages.write(database_of(trace), folder / "page.html")
            made[trace] = sections, (folder / "page.html").read_text("utf-8")
        return made[trace]

    return get


class Texts(HTMLParser):
    """The texts of elements by their tag."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.found: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)
            self.found.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.found[tag][-1] += data


# a page is made of every other one
HALF = quick(len(TRACES) // 2, [*TRACES[::2], *TRACES[1::2]])


@pytest.mark.parametrize("trace", HALF)
@pytest.mark.first(1)
def test_no_section_and_no_column_is_empty(page: Callable, trace: Path) -> None:
    sections, _ = page(trace)
    for section in sections:
        assert section.rows or section.figure, section.name
        for number, column in enumerate(section.columns):
            cells = [row[number] for row in section.rows]
            assert any(cell.text and cell.number != 0 for cell in cells), f"{section.name}: {column.title}"


@pytest.mark.parametrize("trace", HALF)
@pytest.mark.first(3)
def test_bars_have_labels_that_differ_and_texts_that_are_short(page: Callable, trace: Path) -> None:
    sections, _ = page(trace)
    for section in sections:
        assert all(len(cell.text) <= 112 for row in section.rows for cell in row), section.name
        if section.kind == "chart" and section.figure:
            labels = section.figure["layout"]["yaxis"].get("ticktext", [])
            assert len(set(labels)) == len(labels) and all(len(label) < 60 for label in labels), section.name


@pytest.mark.parametrize("trace", HALF)
@pytest.mark.first(6)
def test_what_rules_found_is_there_once_and_the_page_is_light(page: Callable, trace: Path) -> None:
    sections, text = page(trace)
    headings = Texts(text).found["h2"]
    assert len(headings) == len(set(headings)) and "Findings" not in headings and headings[0] == "What to do first"
    assert text.count('id="table-findings"') <= 1
    assert len(text.encode()) <= 2_500_000
    assert len({section.name for section in sections}) == len(sections)


def test_kernels_are_told_by_short_names(page: Callable, database_of: Callable) -> None:
    sections, _ = page(FIXTURES / "h200-batch" / "trace.json.gz")
    drawn = next(section for section in sections if section.name == "kernels").figure
    rows = database_of(FIXTURES / "h200-batch" / "trace.json.gz").rows(
        "select short_name, kernel_ns from kernel_summary order by kernel_ns desc limit 15"
    )
    assert drawn["data"][0]["customdata"] == [figures.shown(name) for name, _ in rows]
    assert drawn["data"][0]["x"] == [pytest.approx(time / 1e6, rel=1e-5) for _, time in rows]


def test_memory_held_is_a_line_to_the_end_and_what_to_do_is_there_once(page: Callable) -> None:
    sections, text = page(CORPUS / "memory_snapshots" / "llm-training-step.pickle")
    figure = next(section for section in sections if section.name == "memory").figure
    held = figure["data"][-1]
    assert held["name"] == "held by the allocator" and len(held["x"]) >= 2
    assert held["x"][-1] == figure["x"][-1] and held["x"][0] <= figure["x"][0]
    advice = "or keep less for each: an 8-bit"
    assert text.count(advice) == 1


def test_steps_of_one_number_are_told_apart() -> None:
    phases = {"forward_ns": 4, "data_ns": 0, "h2d_ns": 0, "backward_ns": 0, "optimizer_ns": 0}
    row = phases | {"start_ns": 0, "wall_ns": 9, "between_ns": None, "length_ns": 9}
    drawn = step_sections.step_bars([row | {"step": step} for step in (1, 2, 2, 3, 2)])
    assert drawn["data"][0]["customdata"] == ["step 1", "step 2, 1 of 3", "step 2, 2 of 3", "step 3", "step 2, 3 of 3"]


def test_a_bar_is_as_long_as_the_gpu_takes_for_the_step() -> None:
    phases = {"forward_ns": 4, "data_ns": 0, "h2d_ns": 0, "backward_ns": 0, "optimizer_ns": 0}
    own = phases | {"start_ns": 0, "wall_ns": 9, "between_ns": None}
    rows = [own | {"step": step, "length_ns": 100 * step} for step in (1, 2)]
    drawn = step_sections.step_bars(rows)
    assert [trace["name"] for trace in drawn["data"]] == ["forward", "other", "GPU, behind the CPU"]
    drawn_ns = [sum(lengths) for lengths in zip(*(trace["x"] for trace in drawn["data"]), strict=True)]
    assert drawn_ns[1] == pytest.approx(2 * drawn_ns[0])


def test_labels_that_would_be_the_same_have_numbers() -> None:
    long = "x" * 200
    figure = figures.stacked_bars([{"n": f"{long}{end}{long}", "t": 1} for end in "abc"], "n", [("t", "time")])
    labels = figure["layout"]["yaxis"]["ticktext"]
    assert len(set(labels)) == 3 and labels[1].endswith("(2)")


def test_a_name_of_a_hundred_kilobytes_is_a_short_cell_with_the_begin_of_the_whole() -> None:
    from lorabench.reports.page.cells import of_rows

    _, [[cell]] = of_rows([{"name": "a" * 50_000 + "b" * 50_000}])
    assert re.fullmatch("a{55}…b{55}", cell.text) and cell.whole == "a" * 1000


@pytest.mark.parametrize(("op_cnt", "most_bytes"), [(300_000, 2_400_000), (1_000_000, 1_500_000)])
def test_the_timeline_of_many_operations_is_light(op_cnt: int, most_bytes: int) -> None:
    """Gaps, lengths and names without any pattern, which no compression finds."""
    random = np.random.default_rng(1)
    starts = np.cumsum(random.integers(1_000, 20_000, op_cnt))
    ops = {
        "device_id": np.zeros(op_cnt, np.int64), "stream_id": random.integers(7, 11, op_cnt),
        "start_ns": starts, "end_ns": starts + random.integers(500, 9_000, op_cnt),
    }  # fmt: skip
    lanes, left_out, _ = timeline.stream_lanes(ops, random.integers(0, 120, op_cnt))
    assert left_out == 0 and len(lanes) == 4
    assert sum(len(lane.as_json(0)["data"]) for lane in lanes) <= most_bytes


def test_numbers_are_packed_as_a_browser_unpacks_them() -> None:
    numbers = np.array([0, 1, 127, 128, 300, 2**31, 2**53 - 1])
    assert varints(numbers[:5]) == bytes([0, 1, 127, 0x80, 1, 0xAC, 2])
    assert zlib.decompress(base64.b64decode(packed([numbers[2:4], numbers[:1]]))) == bytes([127, 0x80, 1, 0])
    assert varints(np.array([], np.int64)) == b"" and len(varints(numbers[-1:])) == 8


def test_a_category_of_memory_has_one_colour_whatever_else_is_there() -> None:
    def drawn(*categories: str) -> dict[str, tuple[str, str]]:
        rows = [{"category": name, "live_bytes": 1, "time_ns": 0, "event_number": None} for name in categories]
        data = figures.stacked_areas(rows, "category", "live_bytes", kinds.of_memory)["data"]
        return {trace["name"]: (trace["fillcolor"], trace["fillpattern"]["shape"]) for trace in data}

    alone, all_of_them = drawn("temporary"), drawn("parameter", "gradient", "temporary", "unknown")
    assert alone["temporary"] == all_of_them["temporary"]
    assert len({colour for colour, _ in all_of_them.values()}) == 4


def test_what_gpus_of_ranks_do_has_the_colours_of_the_receipt() -> None:
    row = {"rank": 0, "name": "a", "busy_ns": 9, "exposed_communication_ns": 3, "idle_ns": 1}
    bars = rank_sections._rank_bars([row, row | {"rank": 1}])["data"]
    assert [trace["meta"]["kind"] for trace in bars] == [
        *(receipt.PARTS[p][1] for p in ("compute", "communication")),
        "idle",
    ]
    assert [
        trace["meta"]["kind"]
        for trace in page_sections._idle_bars([{"device_id": 0, "why": "x", "idle_ns": 1}])["data"]
    ] == ["idle"]


def test_kinds_of_work_have_the_colours_of_the_timeline() -> None:
    drawn = page_sections._class_bars([{"class": name, "gpu_op_ns": 1} for name in ("copy", "dequantise", "mine")])
    assert drawn["data"][0]["meta"]["kinds"] == ["copy", "quantise", "other"]


def test_texts_name_the_colour_that_cells_have() -> None:
    assert figures._between(1) == "#d55e00" and "(orange)" in rank_sections._READING


@pytest.mark.parametrize("trace", HALF)
@pytest.mark.first(3)
def test_tables_with_other_rows_than_their_view_say_so(page: Callable, database_of: Callable, trace: Path) -> None:
    found, _ = page(trace)
    for section in found:
        ((cnt,),) = database_of(trace).rows(f"select count(*) from {section.view}")
        assert section.rows_are or not section.rows or cnt == len(section.rows) + section.left_out, section.name


def test_numbers_have_the_units_of_pictures_and_names_stay() -> None:
    text = "97.1% of 1,186.8 us (+52%), 100%done, a%20b, 5 user, /x/7 us/y, 50% relu: 3 us"
    wanted = "97.1 % of 1,186.8 µs (+52 %), 100%done, a%20b, 5 user, /x/7 us/y, 50% relu: 3 µs"
    assert said.plain(text, ["50% relu"]) == wanted
    made = said.filters(["trunc.json.gz"])
    assert made["sentence"]("trunc.json.gz: lost: bytes: 3") == "trunc.json.gz: lost: bytes: 3"
    assert made["sentence"]("the step: 6.6 -> <b>") == 'The step: 6.6 <span class="arrow">-&gt;</span> &lt;b&gt;'


def test_a_page_writes_units_in_one_way(page: Callable) -> None:
    _, text = page(CORPUS / "nsys" / "cuda-graph.schema-3.24.sqlite")
    above = "".join(Texts(text.partition("<nav")[0]).found["body"])
    assert "µs" in above and not re.search(r"\d us\b|\d%", above)
    assert "4.2 %" in above and "Recorded by nsys" in above
    assert all(not re.search(r"\d us\b|\d%", line) for line in Texts(text).found["summary"])
    _, text = page(CORPUS / "memory_snapshots" / "llm-training-step.pickle")
    assert "Read from an allocator snapshot" in text
    assert re.search(r"Table \(100 of [\d,]+ rows, blocks, the largest first\)", text)
