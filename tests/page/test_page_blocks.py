"""Blocks of memory on a page: columns by definitions, and the picture read back from a browser, within a pixel."""

import json
import pickle
import random
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CORPUS, ROOT, absent, quick
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from lorabench.reports.page import blocks
from lorabench.reports.page import page as pages
from playwright.sync_api import Browser, Page, expect

SNAPSHOT = ROOT / "fixtures" / "h200-batch" / "snapshot.pickle.gz"
HOSTILE = "</script><script>document.title='pwned'</script><b id=pwned onclick=x>&lt;"
KIB = 1024


def training(path: Path, step_cnt: int = 2, kept_cnt: int = 60, small_cnt: int = 0, zero: int = 0) -> Path:
    """A made-up run on a GPU: activations that the backward frees, others that are short, and as many small ones."""
    draw = random.Random(7)
    events: list[dict[str, Any]] = []
    total, reserved, clock, address = zero, zero + 40_000 * KIB, 1000, 0

    def memory(size: int, at: int) -> None:
        nonlocal total, clock
        total += size
        clock += draw.randint(1, 9)
        args = {"Bytes": size, "Addr": at, "Total Allocated": total, "Total Reserved": reserved, "Device Type": 1,
                "Device Id": 0}  # fmt: skip
        events.append({"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": clock, "args": args})

    def annotated(name: str, start: int) -> None:
        common = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1}
        events.append(common | {"name": name, "ts": start, "dur": clock + 1 - start})

    def short(size: int) -> None:
        nonlocal address
        address += 1
        memory(size, address)
        memory(-size, address)

    for _ in range(step_cnt):
        begin = clock
        kept = []
        for _ in range(kept_cnt):
            address += 1
            kept.append((draw.randint(1, 400) * KIB, address))
            memory(*kept[-1])
            short(draw.randint(1, 900) * KIB)
            for _ in range(small_cnt):
                short(draw.randint(1, 1000))
        annotated(f"forward/{HOSTILE}", begin + 1)
        annotated("forward", begin)
        begin = clock + 1
        while kept:
            size, at = kept.pop(draw.randint(0, len(kept) - 1) if draw.random() < 0.3 else -1)
            memory(-size, at)
        annotated("backward", begin)
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    return path


Opened = tuple[Page, Database]


@pytest.fixture
def opened(browser: Browser, written: Callable[..., Any]) -> Iterator[Callable[..., Opened]]:
    """The page of a trace, drawn, and the database behind it."""
    kept: list[Page] = []

    def go(trace: Path, width: int = 1280, **options: Any) -> Opened:
        if not trace.exists():
            absent("corpus", f"there is no {trace}")
        database, path = written(trace)
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        kept.append(page)
        page.on("pageerror", lambda error: pytest.fail(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn=all]")
        return page, database

    yield go
    for page in kept:
        page.close()


# Of each column of pixels the highest that is drawn and the lowest, of the parts that are asked for; the sum of blocks.
DRAWN = """({view, parts}) => {
    const picture = document.querySelector("[data-kind=blocks]").picture;
    for (const name of ["axis", "grid", "bands", "fill", "labels", "heldLine", "flag"]) {
        delete picture[name];
        if (!parts.includes(name)) picture[name] = () => {};
    }
    picture.show(view ? {from: view[0] * picture.data.span, to: view[1] * picture.data.span} : picture.whole);
    const {canvas, depth, scale, top, left, most, data, columns} = picture;
    const first = Math.round(left * scale), pen = canvas.getContext("2d");
    const pixels = pen.getImageData(first, 0, columns.length, canvas.height).data;
    const paper = getComputedStyle(picture.place).getPropertyValue("--paper").trim();
    const ground = [1, 3, 5].map(at => parseInt(paper.slice(at, at + 2), 16));
    const isInk = (x, y) => [0, 1, 2].some(n => Math.abs(pixels[(y * columns.length + x) * 4 + n] - ground[n]) > 3)
        && pixels[(y * columns.length + x) * 4 + 3] > 0;
    const heights = Array.from(columns, (_, x) => {
        for (let y = 0; y < canvas.height; y++) if (isInk(x, y)) return canvas.height - y;
        return 0; });
    const lowest = Array.from(columns, (_, x) => {
        for (let y = canvas.height - 1; y >= 0; y--) if (isInk(x, y)) return canvas.height - 1 - y;
        return null; });
    const sums = Array(columns.length).fill(picture.edge(data.base));
    for (const steps of picture.steps) for (let at = 0; at < steps.length; at += 4)
        for (let x = steps[at]; x < steps[at + 1]; x++) sums[x] += steps[at + 3] - steps[at + 2];
    const {from, to} = picture.view;
    return {heights, lowest, sums, from, to, zero: data.zero, perByte: depth / most, cnt: columns.length};
}"""
LEVELS = """select coalesce(time_ns, event_number), arg_max(live_bytes, bytes) from memory_timeline
    where device = (select device from memory_timeline order by device = 'cpu', device limit 1) group by 1 order by 1"""


def most_in_columns(levels: list[tuple[int, int]], drawn: dict[str, Any]) -> list[int]:
    """The most that is live in the time of each column, by the view."""
    places = np.array([place for place, _ in levels]) - levels[0][0]
    live = np.array([size for _, size in levels])
    edges = np.linspace(drawn["from"], drawn["to"], drawn["cnt"] + 1)
    found = []
    for low, high in pairwise(edges):
        is_inside = (places > low) & ((places < high) | ((places == high) & (high == edges[-1])))
        found.append(max([live[np.searchsorted(places, low, side="right") - 1], *live[is_inside]]))
    return found


TRACES = [
    pytest.param(SNAPSHOT, id="a snapshot"),
    pytest.param(CORPUS / "kineto" / "qwen-stacks-memory.h100.json.gz", id="a trace with unknown memory"),
    pytest.param(CORPUS / "memory_snapshots" / "llm-training-step.pickle", id="7,000 blocks"),
]


@pytest.mark.parametrize("trace", quick(2, TRACES))
@pytest.mark.parametrize("scale", quick(1, [1, 2]))
@pytest.mark.first(1)
@pytest.mark.slow
def test_each_column_is_filled_as_high_as_memory_was_live(
    opened: Callable[..., Opened], trace: Path, scale: float
) -> None:
    """At every zoom what lies on each other adds up to the most of memory_timeline in that time."""
    page, database = opened(trace, device_scale_factor=scale)
    levels = database.rows(LEVELS)
    for view in (None, (0.3, 0.36), (0.555, 0.556)):
        drawn = page.evaluate(DRAWN, {"view": view, "parts": ["fill"]})
        truth = [size * drawn["perByte"] for size in most_in_columns(levels, drawn)]
        for column, (height, true) in enumerate(zip(drawn["heights"], truth, strict=True)):
            near = truth[max(0, column - 1) : column + 2]  # an event may lie on the line between two columns
            assert min(near) - 1 <= height <= max(near) + 1, (view, column, height, true)
            assert drawn["sums"][column] <= height + 1
        close = sum(abs(height - true) <= 1 for height, true in zip(drawn["heights"], truth, strict=True))
        assert close > 0.98 * len(truth)


def test_blocks_alone_add_up_where_the_page_has_all_of_them(opened: Callable[..., Opened]) -> None:
    page, _ = opened(SNAPSHOT)
    drawn = page.evaluate(DRAWN, {"view": None, "parts": ["fill"]})
    assert all(abs(one - height) <= 1 for one, height in zip(drawn["sums"], drawn["heights"], strict=True))
    text = page.locator("section[aria-labelledby=blocks]").inner_text()
    assert "1,383 blocks of cuda:0" in text and "smaller" not in text


@pytest.mark.parametrize("trace", quick(2, TRACES))
@pytest.mark.slow
def test_the_flag_is_at_the_peak(opened: Callable[..., Opened], trace: Path) -> None:
    page, database = opened(trace)
    ((peak, peak_ns),) = database.rows("select peak_bytes, peak_ns from memory_peak where device <> 'cpu' limit 1")
    ((first,),) = database.rows("select min(time_ns) from memory_event where device <> 'cpu'")
    drawn = page.evaluate(DRAWN, {"view": None, "parts": ["flag"]})
    size = (drawn["to"] - drawn["from"]) / drawn["cnt"]
    lowest = [(low, x) for x, low in enumerate(drawn["lowest"]) if low is not None and low < 359]
    tip, place = min(lowest)
    assert place == pytest.approx((peak_ns - first) / size, abs=1.5)
    assert tip == pytest.approx(peak * drawn["perByte"], abs=1.5)
    said = page.locator("[data-kind=blocks] .said").inner_text()
    assert f"{peak / 2**20:,.{1 if peak >= 100 * 2**20 else 2}f} MiB" in said  # as the card above has it


@pytest.mark.slow
def test_of_very_many_changes_the_band_is_never_above_what_was_live_nor_too_low(
    opened: Callable[..., Opened], tmp_path: Path
) -> None:
    """More than 5,000 blocks with more changes of the small ones than a page carries."""
    page, database = opened(training(tmp_path / "trace.json", 14, 178, 3))
    text = page.locator("section[aria-labelledby=blocks]").inner_text()
    assert "The largest 5,000 of" in text and "2,000 stretches" in text and "smaller blocks" in text
    levels = database.rows(LEVELS)
    for view in (None, (0.2, 0.21)):
        drawn = page.evaluate(DRAWN, {"view": view, "parts": ["fill"]})
        truth = [size * drawn["perByte"] for size in most_in_columns(levels, drawn)]
        stretch = (levels[-1][0] - levels[0][0]) / 2000 / ((drawn["to"] - drawn["from"]) / drawn["cnt"])
        for column, (height, true) in enumerate(zip(drawn["heights"], truth, strict=True)):
            near = truth[max(0, int(column - stretch - 1)) : int(column + stretch + 2)]
            assert true - 1 <= height <= max(near) + 1, (view, column)
            assert height - drawn["sums"][column] <= 3_000 * drawn["perByte"] + 2, "the band is small blocks alone"


def test_categories_at_the_peak_are_those_of_the_view(opened: Callable[..., Opened]) -> None:
    page, database = opened(SNAPSHOT)
    found = page.evaluate(
        """() => { const {blocks, data, abouts} = document.querySelector("[data-kind=blocks]").picture, sums = {};
        blocks.starts.forEach((start, n) => { if (start > data.peak[0] || blocks.ends[n] <= data.peak[0]) return;
            const name = data.categories[abouts.rows[blocks.abouts[n]][0]][0];
            sums[name] = (sums[name] ?? 0) + blocks.sizes[n]; });
        return sums; }"""
    )
    rows = database.rows("select category, sum(live_bytes)::bigint from memory_peak group by category")
    assert found == dict(rows)
    above, below = (
        page.evaluate(script)
        for script in (
            """() => Object.fromEntries(document.querySelector("[data-figure=figure-memory]").data
            .filter(trace => trace.stackgroup).map(trace => [trace.name, trace.fillcolor]))""",
            """() => Object.fromEntries(document.querySelector("[data-kind=blocks]").picture.data.categories
            .map(([name, colour]) => [name.replaceAll("_", " "), colour]))""",
        )
    )
    assert above == below, "the same colours as in the picture above"


@pytest.mark.slow
def test_names_full_of_markup_stay_text(opened: Callable[..., Opened], tmp_path: Path) -> None:
    page, _ = opened(training(tmp_path / "trace.json"))
    page.evaluate("document.querySelector('[data-kind=blocks]').picture.tell(3)")
    assert HOSTILE in page.locator("[data-kind=blocks] .said").inner_text()
    assert page.title() != "pwned" and page.locator("#pwned").count() == 0
    frames = [{"filename": f"{HOSTILE}.py", "line": n, "name": HOSTILE} for n in range(9)]
    history = [
        {"action": action, "addr": at, "size": 1 << 20, "stream": 0, "time_us": time, "frames": frames}
        for time, (action, at) in enumerate([("alloc", 0), ("alloc", 1 << 21), ("free_completed", 0)], 10)
    ]
    snapshot = {"segments": [], "device_traces": [history], "external_annotations": [], "allocator_settings": {}}
    (tmp_path / "hostile.pickle").write_bytes(pickle.dumps(snapshot))
    page, _ = opened(tmp_path / "hostile.pickle")
    page.evaluate("document.querySelector('[data-kind=blocks]').picture.tell(0)")
    said = page.locator("[data-kind=blocks] .said").inner_text()
    assert said.count(f"{HOSTILE}.py") == 4, "the innermost frames"
    assert page.title() != "pwned" and page.locator("#pwned").count() == 0


@pytest.mark.slow
def test_a_block_is_told_by_pointer_and_keys_and_chooses_its_range(
    opened: Callable[..., Opened], tmp_path: Path
) -> None:
    page, database = opened(training(tmp_path / "trace.json"))
    place = page.locator("[data-kind=blocks]")
    canvas, said = place.locator("canvas"), place.locator(".said")
    canvas.scroll_into_view_if_needed()
    x, y = page.evaluate(
        """() => { const p = document.querySelector("[data-kind=blocks]").picture, [from, to, low, high] = p.steps[0];
        return [p.left + (from + to) / 2 / p.scale, p.height - (low + high) / 2 / p.scale]; }"""
    )
    canvas.hover(position={"x": x, "y": y})
    ((size, start, free),) = database.rows(
        "select bytes, start_ns - first, free_ns - first from _page_block, (select min(start_ns) as first from range) "
        "where place = 1"
    )
    text = said.inner_text()
    assert text.startswith(f"{size / KIB:.1f} KiB temporary, from {start / 1e3:.3f} µs, to {free / 1e6:.3f} ms")
    assert f"({(free - start) / 1e6:.3f} ms)" in text
    assert HOSTILE in text
    canvas.focus()
    page.keyboard.press("ArrowUp")
    assert said.inner_text() != text
    page.keyboard.press("ArrowDown")
    assert said.inner_text() == text
    page.keyboard.press("ArrowRight")
    assert said.inner_text() != text
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator(".selection")).to_contain_text("pwned")
    note = page.locator("section[aria-labelledby=blocks] .note")
    expect(note).to_contain_text("The picture is of range forward")
    page.keyboard.press("Escape")
    expect(note).to_be_hidden()
    canvas.click(position={"x": x, "y": y})
    expect(note).to_contain_text("The picture is of range forward")


@pytest.mark.slow
def test_the_picture_follows_a_time_of_its_own_clock_alone(opened: Callable[..., Opened], tmp_path: Path) -> None:
    page, _ = opened(training(tmp_path / "trace.json"))
    section = page.locator("section[aria-labelledby=blocks]")
    assert "Times are those of the timeline." in section.inner_text()
    seen = """() => { const [timeline, blocks] = ["timeline", "blocks"].map(kind =>
        document.querySelector(`[data-kind=${kind}]`).picture);
        return [timeline, blocks].map(({view, data}) => [view.from - data.zero, view.to - data.zero]); }"""
    page.evaluate("""() => { const p = document.querySelector("[data-kind=timeline]").picture;
        p.show({from: 0.3 * p.data.span, to: 0.4 * p.data.span}); }""")
    expect(section.locator(".note")).to_contain_text("The picture is of")
    timeline, drawn = page.evaluate(seen)
    assert drawn == pytest.approx(timeline, abs=1)
    page.keyboard.press("Escape")
    expect(section.locator(".note")).to_be_hidden()
    whole = page.evaluate(
        "() => { const p = document.querySelector('[data-kind=blocks]').picture; return [p.view, p.whole]; }"
    )
    assert whole[0] == whole[1]
    page, _ = opened(SNAPSHOT)
    assert page.locator("section[aria-labelledby=blocks]").get_attribute("data-follows") == "range"


@pytest.mark.slow
def test_zooming_it_chooses_a_time_for_all_pictures(opened: Callable[..., Opened], tmp_path: Path) -> None:
    page, _ = opened(training(tmp_path / "trace.json"))
    canvas = page.locator("[data-kind=blocks] canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 300, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 150)
    page.mouse.up()
    page.wait_for_selector("""html[data-filtered='["time"]']""")
    seen = """() => ["timeline", "blocks"].map(kind => document.querySelector(`[data-kind=${kind}]`).picture)
        .map(({view, data}) => [view.from - data.zero, view.to - data.zero])"""
    timeline, drawn = page.evaluate(seen)
    assert timeline == pytest.approx(drawn, abs=1) and drawn[1] - drawn[0] > 0
    expect(page).to_have_url(re.compile("time"))
    assert page.locator(".selection").inner_text().startswith("Only")
    canvas.dblclick(position={"x": 200, "y": 150})
    page.wait_for_selector("html[data-filtered='[]']")
    timeline, drawn = page.evaluate(seen)
    whole = page.evaluate("document.querySelector('[data-kind=timeline]').picture.data.span")
    assert timeline[1] - timeline[0] == whole


@pytest.mark.slow
def test_blocks_of_a_snapshot_without_times_are_drawn_over_its_events(
    opened: Callable[..., Opened], tmp_path: Path
) -> None:
    history = [
        {"action": action, "addr": at << 20, "size": size << 20, "stream": 0, "frames": []}
        for action, at, size in [("alloc", 0, 1), ("alloc", 8, 4), ("free_completed", 0, 1), ("alloc", 16, 2)]
    ]
    snapshot = {"segments": [], "device_traces": [history], "external_annotations": [], "allocator_settings": {}}
    (tmp_path / "untimed.pickle").write_bytes(pickle.dumps(snapshot))
    page, database = opened(tmp_path / "untimed.pickle")
    ((last,),) = database.rows("select max(event_number) from memory_timeline")
    assert page.evaluate("document.querySelector('[data-kind=blocks]').picture.data.span") == last
    ((peak, number),) = database.rows("select max(live_bytes), arg_max(event_number, live_bytes) from memory_timeline")
    said = page.locator("[data-kind=blocks] .said").inner_text()
    assert said.startswith(f"Peak {peak / 2**20:.2f} MiB at event {number}.")
    heads = page.locator("#table-blocks th").all_text_contents()
    assert "start event" in heads and not [head for head in heads if "(ms)" in head]


def test_it_is_zoomed_by_dragging_and_shown_whole_by_a_double_click(opened: Callable[..., Opened]) -> None:
    page, _ = opened(SNAPSHOT, width=390)
    canvas = page.locator("[data-kind=blocks] canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box and box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    view = "() => { const {view, whole} = document.querySelector('[data-kind=blocks]').picture; return [view, whole]; }"
    page.mouse.move(box["x"] + 150, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 250, box["y"] + 150)
    page.mouse.up()
    seen, whole = page.evaluate(view)
    assert (seen["to"] - seen["from"]) / whole["to"] == pytest.approx(100 / (box["width"] - 72), abs=0.01)
    assert seen["from"] / whole["to"] == pytest.approx(78 / (box["width"] - 72), abs=0.01)
    canvas.dblclick(position={"x": 200, "y": 150})
    seen, whole = page.evaluate(view)
    assert seen == whole


def test_it_is_read_without_seeing_it_and_on_paper(opened: Callable[..., Opened]) -> None:
    page, _ = opened(SNAPSHOT, color_scheme="dark")
    canvas = page.locator("[data-kind=blocks] canvas")
    assert "72.69 MiB at 147.5 ms" in (canvas.get_attribute("aria-label") or "")
    assert canvas.get_attribute("role") == "application" and canvas.get_attribute("tabindex") == "0"
    corner = """() => { const {canvas, left, top, scale} = document.querySelector("[data-kind=blocks]").picture;
        return [...canvas.getContext("2d").getImageData(left * scale + 2, canvas.height - 9, 1, 1).data]; }"""
    assert page.evaluate(corner) == [0x7F, 0x7F, 0x7F, 255], "the colour of unknown memory"
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    table = page.locator("#table-blocks")
    expect(table).to_be_visible()
    assert table.locator("tbody tr").count() == 100


# Its columns


@pytest.mark.slow
def test_there_is_no_picture_of_a_single_block(tmp_path: Path) -> None:
    args = {"Bytes": 512, "Addr": 1, "Total Allocated": 512, "Total Reserved": 512, "Device Type": 1, "Device Id": 0}
    event = {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": args}
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [event]}), "utf-8")
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert "blocks" not in {section.name for section in pages.write(database, tmp_path / "page.html")}


@pytest.mark.slow
def test_the_largest_blocks_are_stacked_in_the_order_of_their_allocation(tmp_path: Path) -> None:
    trace = training(tmp_path / "trace.json", 14, 190, 3)
    with analyze([trace], tmp_path / "x.duckdb") as database:
        shown = database.rows("select bytes, start_ns, place from _page_block order by place")
        every = database.rows("select bytes from _memory_block order by bytes desc")
        sections = pages.write(database, tmp_path / "page.html")
    assert len(shown) == 5000 < len(every) and [place for *_, place in shown] == list(range(1, 5001))
    assert sorted((size for size, *_ in shown), reverse=True) == [size for (size,) in every[:5000]]
    assert [start for _, start, _ in shown] == sorted(start for _, start, _ in shown)
    figure = next(section for section in sections if section.name == "blocks").figure
    assert len(json.dumps(figure)) < 120_000


@pytest.mark.slow
def test_what_was_there_before_lies_below_that_which_stays_first(tmp_path: Path) -> None:
    with analyze([SNAPSHOT], tmp_path / "x.duckdb") as database:
        rows = database.rows("select start_ns, free_ns from _page_block order by place")
    before = [free for start, free in rows if start is None]
    assert [start for start, _ in rows[: len(before)]] == [None] * len(before)
    assert before == sorted(before, key=lambda free: (free is not None, -(free or 0)))


def level_of(rows: list[tuple[int, int]]) -> blocks.Level:
    places, live = np.array(rows).T
    return blocks.Level.of(
        blocks.Axis(0, int(places[-1]), True), {"time_ns": places, "live_bytes": live, "reserved_bytes": live}
    )


def steps(packed: dict[str, Any]) -> list[tuple[int, int]]:
    """A packed line as (place, value)."""
    import base64
    import zlib

    numbers, value, factor = [], 0, 1
    for byte in zlib.decompress(base64.b64decode(packed["data"])):
        value += (byte & 127) * factor
        factor *= 128
        if byte < 128:
            numbers.append(value)
            value, factor = 0, 1
    gaps, signed = numbers[: packed["cnt"]], numbers[packed["cnt"] :]
    values = [-(one + 1) // 2 if one % 2 else one // 2 for one in signed]
    return list(zip(np.cumsum(gaps).tolist(), np.cumsum(values).tolist(), strict=True))


def test_the_rest_is_what_is_live_beside_the_blocks() -> None:
    """Of several changes at one moment the last counts; where blocks are more than the total, nothing is left."""
    level = level_of([(0, 10), (5, 14), (5, 30), (9, 12), (20, 12)])
    assert level.peak == (5, 30) and level.places.tolist() == [0, 5, 9, 20]
    drawn = blocks.sum_at(level.places, (np.array([0, 5, 5]), np.array([-1, 9, 20]), np.array([6, 20, 8])))
    assert drawn.tolist() == [6, 34, 14, 6]
    found = blocks.rest(level, drawn, 20)
    assert steps(found["rest"]) == [(0, 4), (5, 0), (20, 6)] and found["tops"] is None


def test_very_many_changes_become_the_most_of_each_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_REST_CNT", 3)
    monkeypatch.setattr(blocks, "_STRETCH_CNT", 2)
    level = level_of([(0, 5), (3, 9), (4, 2), (9, 3), (12, 8), (19, 1)])
    found = blocks.rest(level, np.array([5, 8, 0, 1, 1, 1]), 19)
    assert steps(found["rest"]) == [(0, 2), (10, 7)] and steps(found["tops"]) == [(0, 9), (10, 8)]


def test_frames_by_which_torch_calls_modules_are_left_out() -> None:
    calls = "torch/nn/modules/module.py:1 _call_impl < torch/nn/modules/module.py:2 _wrapped_call_impl"
    assert blocks.frames(f"a.py:1 f < {calls} < b.py:2 g < {calls} < c.py:3 h < d < e") == (
        "a.py:1 f < b.py:2 g < c.py:3 h < d"
    )
    assert blocks.frames(calls) == calls and blocks.frames(None) is None
    assert blocks.placed("/a/b/c/d.py:1 f < torch/nn/x.py:2 g") == "c/d.py:1 f < nn/x.py:2 g"
    assert blocks.placed(None) is None
