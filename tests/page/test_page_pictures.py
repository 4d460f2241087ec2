"""What the pictures of a page draw, read back from a browser and held against the views, within a pixel."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simulated_ranks
from conftest import CORPUS, ROOT, absent, quick
from lorabench import rundir
from lorabench.analyze.store.database import Database
from lorabench.reports.page import timeline
from playwright.sync_api import Browser, Page, expect

FIXTURES = ROOT / "fixtures"
CAPTURE = FIXTURES / "h200-batch" / "trace.json.gz"
ON_CPU = FIXTURES / "torch-cpu.json.gz"


Opened = tuple[Page, Database]


def drawn_page(browser: Browser, path: Path, width: int = 1280, scale: float = 1) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900}, device_scale_factor=scale)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn=all]")
    return page


@pytest.fixture
def opened(browser: Browser, written: Callable[..., Any]) -> Iterator[Callable[..., Opened]]:
    """The page of a trace, drawn, and the database behind it."""
    kept: list[Page] = []

    def go(trace: Path, width: int = 1280, scale: float = 1) -> Opened:
        if not trace.exists():
            absent("corpus", f"there is no {trace}")
        database, path = written(trace)
        kept.append(drawn_page(browser, path, width, scale))
        return kept[-1], database

    yield go
    for page in kept:
        page.close()


@pytest.fixture(scope="module")
def seen(browser: Browser, written: Callable[..., Any]) -> Iterator[Callable[..., Opened]]:
    """The same for tests that look at it and touch nothing: drawn once for all of them."""
    kept: dict[Path, Opened] = {}

    def go(trace: Path) -> Opened:
        if not trace.exists():
            absent("corpus", f"there is no {trace}")
        if trace not in kept:
            database, path = written(trace)
            kept[trace] = drawn_page(browser, path), database
        return kept[trace]

    yield go
    for page, _ in kept.values():
        page.close()


def number(database: Database, statement: str) -> float:
    ((found,),) = database.rows(statement)
    return float(found or 0)


# The flame graph

SLICES = """() => {
    const flame = document.querySelector("[data-figure=figure-ranges] .flame");
    const left = flame.getBoundingClientRect().left;
    return [...flame.children].map(element => {
        const box = element.getBoundingClientRect();
        return {name: element.slice.node.name, kind: element.slice.node.kind, depth: element.slice.depth,
                left: box.left - left, width: box.width, text: element.textContent, label: element.ariaLabel};
    });
}"""


def slices(page: Page, button: str | None = None) -> list[dict[str, Any]]:
    if button:
        page.locator("section[aria-labelledby=ranges] button", has_text=button).click()
    found: list[dict[str, Any]] = page.evaluate(SLICES)
    return found


def whole(found: list[dict[str, Any]]) -> float:
    return float(next(one["width"] for one in found if one["kind"] == 0))


def end_of(one: dict[str, Any]) -> float:
    return float(one["left"] + one["width"])


def width_of(found: list[dict[str, Any]], name: str) -> float:
    return sum(one["width"] for one in found if one["name"] == name)


TRACES = [
    pytest.param(CAPTURE, id="capture"),
    pytest.param(CORPUS / "kineto" / "ddp-backward.a100.json.gz", id="autograd thread"),
    pytest.param(CORPUS / "kineto" / "qwen-stacks-memory.h100.json.gz", id="partly outside"),
    pytest.param(CORPUS / "nsys" / "fsdp-2gpu-emit_nvtx.schema-3.25.sqlite", id="emit_nvtx"),
    pytest.param(CORPUS / "nsys" / "llm-training-autograd-thread-no-nvtx.schema-3.11.sqlite", id="no ranges"),
]


@pytest.mark.parametrize("trace", quick(2, TRACES))
@pytest.mark.slow
def test_the_flame_graph_draws_all_gpu_work_once(seen: Callable[..., Opened], trace: Path) -> None:
    page, database = seen(trace)
    found = slices(page)
    assert width_of(found, "everything") == pytest.approx(whole(found))
    total = number(database, "select sum(end_ns - start_ns) from gpu_op")
    owned = number(database, "select sum(self_gpu_op_ns) from range_summary")
    outside = number(database, "select sum(gpu_op_ns) from unattributed")
    assert owned + outside == total
    assert width_of(found, "outside of all ranges") == pytest.approx(outside / total * whole(found), abs=1)
    top = sum(one["width"] for one in found if one["depth"] == 1)
    assert top == pytest.approx(whole(found), abs=1)
    ends = [one for one in found if one["kind"] in (3, 5)]
    assert sum(one["width"] for one in ends) <= whole(found) + 1
    for one in found:  # each inside the one above it
        if one["depth"]:
            above = [other for other in found if other["depth"] == one["depth"] - 1 and
                     other["left"] <= one["left"] + 0.5 and end_of(one) <= end_of(other) + 0.5]  # fmt: skip
            assert above, one


@pytest.mark.slow
def test_the_backward_is_as_wide_as_its_share_of_the_gpu(seen: Callable[..., Opened]) -> None:
    page, database = seen(CORPUS / "kineto" / "ddp-backward.a100.json.gz")
    found = slices(page)
    total = number(database, "select sum(end_ns - start_ns) from gpu_op")
    for name in ("## backward ##", "## forward ##"):
        time = number(
            database,
            f"""select sum(end_ns - start_ns) from gpu_op join attribution using (attribution_id)
            join range_path using (path_id) where rule <> 'sequence' and path like '%/{name}'""",
        )
        assert width_of(found, name) == pytest.approx(time / total * whole(found), abs=1)
    assert width_of(found, "## backward ##") > 0.5 * whole(found)


@pytest.mark.parametrize("trace", TRACES[:1])
@pytest.mark.slow
def test_kernels_of_the_flame_graph_have_the_time_of_their_view(opened: Callable[..., Opened], trace: Path) -> None:
    page, database = opened(trace)
    slices(page, "invert")
    found = slices(page)
    total = number(database, "select sum(end_ns - start_ns) from gpu_op")
    tops = {one["name"]: one["width"] for one in found if one["depth"] == 1}
    kernels = database.rows("select short_name, kernel_ns from kernel_summary order by kernel_ns desc limit 12")
    for name, time in kernels:
        assert tops[name] == pytest.approx(time / total * whole(found), abs=1)


@pytest.mark.slow
def test_cpu_time_of_the_flame_graph_is_that_of_the_ranges(seen: Callable[..., Opened]) -> None:
    page, database = seen(ON_CPU)
    found = slices(page)
    total = number(database, "select sum(self_wall_ns) from range_summary")
    rows = database.rows(
        "select name, wall_ns from range_summary where parent_path_id is null order by wall_ns desc limit 5"
    )
    for name, time in rows:
        drawn = sum(one["width"] for one in found if one["depth"] == 1 and one["name"] == name)
        every = sum(t for n, t in rows if n == name)
        assert drawn == pytest.approx(every / total * whole(found), abs=1), (name, time)
    assert not page.locator("section[aria-labelledby=ranges] button", has_text="GPU time").count()


@pytest.mark.slow
def test_a_slice_is_clicked_found_and_left_by_keys(opened: Callable[..., Opened]) -> None:
    page, database = opened(CAPTURE)
    flame = page.locator("[data-figure=figure-ranges]")
    flame.locator(".slice", has_text="backward").first.click()
    zoomed = slices(page)
    backward = next(one for one in zoomed if one["name"] == "backward")
    assert backward["width"] == pytest.approx(whole(zoomed)) and backward["depth"] == 3
    time = number(database, "select gpu_op_ns from range_summary where path = 'run/step/backward'")
    below = sum(one["width"] for one in zoomed if one["depth"] == 4)
    assert below == pytest.approx(whole(zoomed), abs=1) and f"{time / 1e6:.3f} ms" in backward["label"]
    page.keyboard.press("Escape")
    assert max(one["width"] for one in slices(page) if one["depth"] == 3) < whole(zoomed)
    flame.locator("input").fill("gemm")
    said = flame.locator(".said").inner_text()
    gemm = number(database, "select sum(end_ns - start_ns) from gpu_op join _short_name using (source_id, name_id) "
                  "where short_name ilike '%gemm%'")  # fmt: skip
    assert f"{gemm / 1e6:.3f} ms" in said and flame.locator(".slice.dim").count() > 10


# The timeline

# Of each column of a lane's pixels how many differ from the lane's ground.
FILLED = """title => {
    const place = document.querySelector("[data-figure=figure-timeline]");
    const {canvas, lanes, scale, view, data} = place.picture;
    const lane = lanes.find(lane => !lane.is_range && lane.title === title);
    const pen = canvas.getContext("2d"), width = canvas.width;
    const top = Math.round(lane.top * scale), height = Math.round(lane.height * scale);
    const pixels = pen.getImageData(0, top, width, height).data;
    const card = getComputedStyle(place).getPropertyValue("--card").trim();
    const ground = [1, 3, 5].map(at => parseInt(card.slice(at, at + 2), 16));
    const filled = Array(width).fill(0);
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++)
        if (ground.some((value, n) => Math.abs(pixels[(y * width + x) * 4 + n] - value) > 3)) filled[x] += 1;
    return {filled, height, from: view.from, to: view.to, zero: data.zero};
}"""


def union(work: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(work):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def shares(work: list[tuple[int, int]], start: float, stop: float, width: int) -> list[float]:
    """How much of each of `width` equal parts of a time is covered."""
    found = [0.0] * width
    size = (stop - start) / width
    for begin, end in work:
        for part in range(max(0, int((begin - start) / size)), min(width, int((end - start) / size) + 1)):
            low, high = start + part * size, start + (part + 1) * size
            found[part] += max(0.0, min(end, high) - max(begin, low)) / size
    return found


@pytest.mark.parametrize(
    ("trace", "stream"),
    quick(2, [
        pytest.param(CAPTURE, 7, id="3.7 % busy"),
        pytest.param(CORPUS / "kineto" / "kernel-overlap.b200.json.gz", 7, id="kernels that overlap"),
        pytest.param(CORPUS / "kineto" / "ddp-backward.a100.json.gz", 40, id="communication"),
    ]),
)  # fmt: skip
@pytest.mark.slow
def test_the_timeline_fills_what_was_busy(opened: Callable[..., Opened], trace: Path, stream: int) -> None:
    page, database = opened(trace, scale=4)
    page.wait_for_timeout(200)
    begin = number(database, "select min(start_ns) from gpu_op")
    work = union([(int(s - begin), int(e - begin)) for s, e in
                  database.rows(f"select start_ns, end_ns from gpu_op where stream_id = {stream}")])  # fmt: skip
    for zoom in (None, (0.3, 0.31), (0.5, 0.5005)):
        if zoom:
            page.evaluate(
                """zoom => { const p = document.querySelector("[data-figure=figure-timeline]").picture;
                p.labels = () => {}; p.show({from: zoom[0] * p.data.span, to: zoom[1] * p.data.span}); }""", zoom
            )  # fmt: skip
        found = page.evaluate(FILLED, f"stream {stream}")
        truth = shares(work, found["from"] - found["zero"], found["to"] - found["zero"], len(found["filled"]))
        for pixel, (drawn, share) in enumerate(zip(found["filled"], truth, strict=True)):
            assert abs(drawn - share * found["height"]) <= 1 + 1e-3 * found["height"], (zoom, pixel)
        if zoom is None:
            area = sum(found["filled"]) / found["height"] / len(found["filled"])
            busy = sum(end - start for start, end in work) / (found["to"] - found["from"])
            assert area == pytest.approx(busy, abs=1 / found["height"])


@pytest.mark.slow
def test_the_page_says_how_busy_the_view_says(seen: Callable[..., Opened]) -> None:
    page, database = seen(CAPTURE)
    told = page.locator("[data-figure=figure-timeline] .said").inner_text()
    busy = number(database, "select busy_frac from gpu_timeline_summary")
    shown = re.search(r"busy ([0-9.]+) %", told)
    assert shown and float(shown[1]) == pytest.approx(busy * 100, abs=0.06)


@pytest.mark.slow
def test_of_very_many_operations_cells_fill_as_much(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stream as cells of equal width: the same time, named by what takes most of a cell."""
    monkeypatch.setattr(timeline, "OP_CNT", 100)
    monkeypatch.setattr(timeline, "_CELL_CNT", 3000)
    page, database = opened(CAPTURE, scale=4)
    assert "in cells of 28.3 µs" in page.locator("section[aria-labelledby=timeline]").inner_text()
    page.wait_for_timeout(200)
    found = page.evaluate(FILLED, "stream 7")
    begin = number(database, "select min(start_ns) from gpu_op")
    work = union([(int(s - begin), int(e - begin)) for s, e in database.rows("select start_ns, end_ns from gpu_op")])
    truth = shares(work, found["from"] - found["zero"], found["to"] - found["zero"], len(found["filled"]))
    area = sum(found["filled"]) / found["height"] / len(found["filled"])
    assert area == pytest.approx(sum(truth) / len(truth), abs=1.5 / found["height"])
    cell = 28.3e3 / (found["to"] - found["from"]) * len(found["filled"])  # pixels: a cell may lie over two of them
    for pixel, drawn in enumerate(found["filled"]):
        near = truth[max(0, int(pixel - cell - 1)) : int(pixel + cell + 2)]
        assert drawn <= sum(near) * found["height"] + 2
    kernels = page.evaluate(
        """() => { const {data, lanes} = document.querySelector("[data-figure=figure-timeline]").picture;
        const lane = lanes.find(lane => !lane.is_range);
        return [...lane.names].map(name => data.names[name][3] || data.names[name][0]); }"""
    )
    names = database.rows("select left(text, 300) from name union select short_name from _short_name")
    assert set(kernels) <= {name for (name,) in names}


def test_cells_hold_the_union_of_their_work() -> None:
    """Overlapping, touching, longer than many cells, and empty ones."""
    lane = timeline.Lane(
        "s", np.array([0, 5, 30, 100, 100]), np.array([10, 12, 31, 250, 120]), np.array([0, 1, 0, 2, 1])
    )
    made = timeline.in_cells(lane, 10, 0)
    assert made.levels is not None
    found = [(int(s), int(e), int(n), int(level)) for s, e, n, level in
             zip(made.starts, made.ends, made.names, made.levels, strict=True)]  # fmt: skip
    assert found == [(0, 10, 0, 255), (10, 20, 1, 51), (30, 40, 0, 26), (100, 250, 2, 255)]


# Memory

# The upper edge of the topmost area as (x, y) in the units of its axes, and what a pixel is in them.
OUTLINE = """() => {
    const place = document.querySelector("[data-figure=figure-memory]");
    const {xaxis, yaxis} = place._fullLayout;
    const last = place.data.filter(trace => trace.stackgroup).length - 1;
    const path = [...place.querySelectorAll(".scatterlayer .trace .js-line")][last].getAttribute("d");
    const numbers = path.match(/[MLHV][^MLHV]*/g).reduce((points, part) => {
        const values = part.slice(1).split(/[ ,]+/).filter(Boolean).map(Number), [x, y] = points.at(-1) ?? [0, 0];
        if (part[0] === "H") values.forEach(value => points.push([value, points.at(-1)[1]]));
        else if (part[0] === "V") values.forEach(value => points.push([points.at(-1)[0], value]));
        else for (let n = 0; n < values.length; n += 2) points.push([values[n], values[n + 1]]);
        return points;
    }, []);
    return {points: numbers.map(([x, y]) => [xaxis.p2c(x), yaxis.p2c(y)]), title: xaxis.title.text, range: xaxis.range,
            x: xaxis.p2c(1) - xaxis.p2c(0), y: Math.abs(yaxis.p2c(1) - yaxis.p2c(0)), width: xaxis._length};
}"""
MEMORY = [
    pytest.param(CORPUS / "kineto" / "qwen-stacks-memory.h100.json.gz", id="with times"),
    pytest.param(CORPUS / "memory_snapshots" / "llm-training-step.pickle", id="a snapshot"),
]


@pytest.mark.parametrize("trace", quick(1, MEMORY))
@pytest.mark.slow
def test_memory_has_the_least_and_the_most_of_every_pixel(seen: Callable[..., Opened], trace: Path) -> None:
    page, database = seen(trace)
    drawn = page.evaluate(OUTLINE)
    rows = database.rows(  # from the first GPU work on where there is any: the zero of the timeline
        """select coalesce((time_ns + first - coalesce(begin, first)) / 1e6, event_number), live_bytes / 1048576.0
        from memory_timeline, (select min(time_ns) as first from _memory_level),
            (select min(start_ns) as begin from gpu_op)
        where device <> 'cpu' order by time_ns, event_number"""
    )
    size = drawn["x"]
    for pixel in range(int(drawn["width"])):
        low, high = drawn["range"][0] + pixel * size, drawn["range"][0] + (pixel + 1) * size
        true = [live for place, live in rows if low <= place < high]
        near = [y for x, y in drawn["points"] if low - size <= x <= high + size]
        if true:
            assert max(near) >= max(true) - drawn["y"], pixel
            assert min(near) <= min(true) + drawn["y"], pixel
    peak = max(live for _, live in rows)
    assert max(y for _, y in drawn["points"]) == pytest.approx(peak, abs=drawn["y"])


@pytest.mark.slow
def test_a_snapshot_without_times_is_drawn_over_its_events(seen: Callable[..., Opened]) -> None:
    page, database = seen(CORPUS / "memory_snapshots" / "llm-training-step.pickle")
    drawn = page.evaluate(OUTLINE)
    if not number(database, "select count(*) from source where is_timed"):
        events = number(database, "select max(event_number) from memory_timeline")
        assert "event" in drawn["title"] and drawn["range"][1] == pytest.approx(events, rel=0.01)
        assert "no times" in page.locator("section[aria-labelledby=memory]").inner_text()
    else:
        assert drawn["title"] == "ms"


@pytest.mark.slow
def test_advice_on_fragments_is_about_the_peak(seen: Callable[..., Opened]) -> None:
    page, database = seen(CORPUS / "memory_snapshots" / "llm-training-step.pickle")
    rows = database.rows("select unused_bytes / 1048576, reserved_bytes / 1048576 from memory_fragmentation "
                         "where moment = 'peak'")  # fmt: skip
    end = database.rows("select sum(unused_bytes) / 1048576 from memory_fragmentation where moment = 'end'")
    text = page.locator("body").inner_text()
    said = re.findall(r"([0-9]+) of ([0-9]+) MiB held were not used (\S.*)", text)
    for unused, held, when in said:
        assert when.startswith("when most was held")
        assert [float(unused), float(held)] == pytest.approx([float(rows[0][0]), float(rows[0][1])], abs=1)
    assert f"{end[0][0]:.0f} of" not in text


# Runs and comparisons

# Of a chart how long each bar is in the units of its axis, by its trace and its label.
BARS = """figure => {
    const place = document.querySelector(`[data-figure=figure-${figure}]`);
    const axis = place._fullLayout.xaxis;
    const found = {};
    [...place.querySelectorAll(".barlayer .trace")].forEach((trace, n) => {
        const labels = place.data[n].customdata;
        found[place.data[n].name] = {};
        [...trace.querySelectorAll(".point path")].forEach((path, row) => {
            const xs = path.getAttribute("d").match(/[MHL](-?[0-9.]+)/g).map(part => Number(part.slice(1)));
            found[place.data[n].name][labels[row]] = axis.p2c(Math.max(...xs)) - axis.p2c(Math.min(...xs));
        });
    });
    return {bars: found, pixel: axis.p2c(1) - axis.p2c(0)};
}"""


def run_directory(path: Path, walls: list[int], slower: float) -> Path:
    """A run whose timing pass has steps of these lengths, and a profiled pass that is slower by a factor."""
    path.mkdir()
    steps = [f"timing,{n},0,{n},{wall},0,1,1,1" for n, wall in enumerate(walls)]
    head = "pass,step,adapter,start_ns,wall_ns,loss,computed_token_cnt,token_cnt,trained_token_cnt"
    (path / rundir.STEPS).write_text("\n".join([head, *steps, ""]), "utf-8")
    median = sorted(walls)[len(walls) // 2]
    summary = {"step_wall_ns": {"p50": median, "p95": max(walls)}, "step_cnt": len(walls),
               "tokens_per_s": {"computed": 512e9 / median}}  # fmt: skip
    (path / rundir.SUMMARY).write_text(json.dumps(summary), "utf-8")
    (path / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT}), "utf-8")
    events, at = [], 0.0
    for number, wall in enumerate(walls):
        length = wall * slower / 1000
        events.append({"name": f"step {number}", "ts": at, "dur": length})
        events.append({"name": "forward", "ts": at + 1, "dur": length * 0.4})
        at += length + 10
    common = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1}
    (path / "trace.json").write_text(json.dumps({"traceEvents": [common | event for event in events]}), "utf-8")
    return path


@pytest.mark.slow
def test_a_run_quotes_its_timing_pass(browser: Browser, tmp_path: Path, run_command: Callable) -> None:
    run = run_directory(tmp_path / "mine", [690_000_000, 693_000_000, 700_000_000], slower=1.34)
    run_command("report", run, "-o", tmp_path / "p.html")
    page = browser.new_page()
    page.goto((tmp_path / "p.html").as_uri())
    cards = page.locator(".card").all_inner_texts()
    assert page.title().startswith("mine")
    assert cards[0].split("\n") == ["step, median", "693.0 ms", "3 steps, p95 700.0 ms, no profiler attached"]
    profiled = next(card for card in cards if "while profiled" in card)
    assert "928." in profiled and "+34 %" in profiled
    tokens = [card for card in cards if card.startswith("tokens")]
    assert len(tokens) == 1 and "739 /s" in tokens[0]


@pytest.mark.slow
def test_two_runs_are_drawn_by_the_clock_of_their_verdict(
    browser: Browser, tmp_path: Path, run_command: Callable
) -> None:
    """B is faster, though its profiled pass is twice as slow as A's."""
    a = run_directory(tmp_path / "a", [100_000_000, 101_000_000, 102_000_000], slower=1.0)
    b = run_directory(tmp_path / "b", [81_000_000, 82_000_000, 83_000_000], slower=2.5)
    run_command("compare", a, b, "-o", tmp_path / "c.html")
    page = browser.new_page()
    page.goto((tmp_path / "c.html").as_uri())
    page.wait_for_selector("html[data-drawn=all]")
    verdict, most = page.locator(".verdict").all_inner_texts()
    assert verdict.startswith("B is 1.23 x as fast as A: step 101.0 -> 82.0 ms")
    assert most == "Most of the difference from A to B: outside of phases, -11.4 ms in a step."
    assert page.locator("#step").count() == 0, "steps of the profiled pass say the opposite"
    found = page.evaluate(BARS, "range")
    for name, step in (("a", 101.0), ("b", 82.0)):
        assert found["bars"][name]["step"] == pytest.approx(step, abs=found["pixel"])
        assert found["bars"][name]["step/forward"] == pytest.approx(0.4 * step, abs=found["pixel"])
    fell = page.evaluate(BARS, "from-a-to-b")
    assert fell["bars"]["whole"] == {
        "A": pytest.approx(101, abs=fell["pixel"]),
        "B": pytest.approx(82, abs=fell["pixel"]),
    }
    parts = {"forward": 0.4 * 19, "outside of phases": 0.6 * 19}
    less = fell["bars"]["less"]
    assert less.pop("between steps", 0) < 2 * fell["pixel"], "next to nothing"
    assert less == {name: pytest.approx(time, abs=fell["pixel"]) for name, time in parts.items()}
    for button, step in (("as wide as in A", 101.0), ("as wide as in B", 82.0)):
        page.locator("section[aria-labelledby=where-a-to-b] button", has_text=button).click()
        found = page.evaluate(SLICES.replace("figure-ranges", "figure-where-a-to-b"))
        assert width_of(found, "step") == pytest.approx(whole(found), abs=1)
        assert width_of(found, "forward") == pytest.approx(0.4 * whole(found), abs=1)
        told = next(one for one in found if one["name"] == "forward")
        assert told["label"] == "forward: A 40.40 ms, B 32.80 ms, -19 %" and told["text"] == "forward -19 %", step
    text = page.locator("section[aria-labelledby=range]").inner_text()
    assert "on the clock of the timing pass" in text and "B x 0.40" in text


# Paper and the dark


@pytest.mark.slow
def test_print_has_every_picture_and_every_row(browser: Browser, opened: Callable[..., Opened], tmp_path: Path) -> None:
    page, _ = opened(CAPTURE, 1280)
    page.emulate_media(media="print", color_scheme="dark")
    page.reload()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # at once, before anything was scrolled to
    page.wait_for_selector("html[data-drawn=all]")
    assert page.locator("[data-figure]:not([data-drawn=yes])").count() == 0
    assert page.locator("details:not([open])").count() == 0
    cut = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollHeight > e.clientHeight + 2).length"
    )
    assert cut == 0
    paper = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()")
    assert paper == "#ffffff"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert len(page.pdf()) > 100_000


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 22, 26)")])
@pytest.mark.slow
def test_hatches_are_seen_by_light_and_in_the_dark(
    opened: Callable[..., Opened], scheme: Any, paper: str, tmp_path: Path
) -> None:
    page, _ = opened(CAPTURE)
    page.emulate_media(color_scheme=scheme)
    page.wait_for_timeout(1000)
    lines = page.evaluate(
        """[...document.querySelectorAll("[data-figure=figure-launching] pattern")].map(pattern => ({
        line: getComputedStyle(pattern.querySelector("path")).stroke,
        ground: pattern.querySelector("rect") ? getComputedStyle(pattern.querySelector("rect")).fill : "none"}))"""
    )
    assert lines and {line["line"] for line in lines} == {paper}
    assert all(line["ground"] not in (paper, "none") for line in lines)


@pytest.mark.parametrize("width", quick(2, [390, 1280, 2560]))
@pytest.mark.first(1)
@pytest.mark.slow
def test_no_picture_is_wider_than_its_page(opened: Callable[..., Opened], width: int) -> None:
    page, _ = opened(CAPTURE, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.evaluate("[...document.querySelectorAll('[data-figure]')].map(e => e.getBoundingClientRect().right)")
    assert boxes and max(boxes) <= width
    legends = page.evaluate(
        """[...document.querySelectorAll(".js-plotly-plot")].map(plot => {
            const legend = plot.querySelector(".legend"), bars = plot.querySelector(".plot");
            if (!legend || !bars) return 0;
            const a = legend.getBoundingClientRect(), b = bars.getBoundingClientRect();
            return Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)); })"""
    )
    assert max(legends) <= 1, "a legend lies over what it explains"


# The receipt, and the address


@pytest.mark.parametrize("trace", quick(2, TRACES[:4]))
@pytest.mark.slow
def test_the_receipt_is_the_window_of_the_gpu(seen: Callable[..., Opened], trace: Path) -> None:
    page, database = seen(trace)
    drawn = page.evaluate(
        """[...document.querySelectorAll(".receipt span")].map(part =>
            [part.title.replace(/ [0-9.]+ %$/, ""), part.getBoundingClientRect().width])"""
    )
    bar = page.locator(".receipt").bounding_box()
    assert bar and sum(width for _, width in drawn) == pytest.approx(bar["width"], abs=1)
    window = "(select sum(window_ns) from steady_state)"
    found = dict(drawn)
    for name, time in (
        ("computes", "sum(compute_ns) from steady_state"),
        ("copies, nothing else", "sum(exposed_memory_ns) from steady_state"),
        ("waits for the CPU", "sum(host_idle_ns) from steady_state"),
    ):
        value = time.replace(" from", f" / {window} from")
        assert found.get(name, 0) == pytest.approx(number(database, f"select {value}") * bar["width"], abs=1), name


def test_the_receipt_is_saved_as_a_picture(opened: Callable[..., Opened]) -> None:
    page, _ = opened(CAPTURE)
    with page.expect_download() as download:  # a page from a file may not write to the clipboard
        page.evaluate("void (navigator.clipboard && (navigator.clipboard.write = () => Promise.reject()))")
        page.locator("#copy-receipt").click()
    content = Path(download.value.path()).read_bytes()
    assert content.startswith(b"\x89PNG") and content[16:24] == (1200).to_bytes(4, "big") + (630).to_bytes(4, "big")
    assert len(content) > 10_000


# One choice for all pictures


def chosen(page: Page, *names: str) -> list[str]:
    """Wait until pictures follow what is chosen in these dimensions; what sections say of it."""
    page.wait_for_selector(f"html[data-filtered='{json.dumps(list(names), separators=(',', ':'))}']")
    notes: list[str] = page.locator(".note:visible").all_inner_texts()
    return notes


def added_up(page: Page, section: str) -> dict[str, tuple[int, float]]:
    """What a section's table of a choice says of each name: operations, and time in ms."""
    cells = page.evaluate(
        """section => [...document.querySelectorAll(`section[aria-labelledby=${section}] .sums tbody tr`)]
        .map(row => [...row.cells].map(cell => cell.textContent))""", section
    )  # fmt: skip
    return {name: (int(cnt.replace(",", "")), float(time.replace(",", ""))) for name, cnt, time, _ in cells}


def test_a_stretch_of_time_filters_what_can_be_and_the_rest_says_so(opened: Callable[..., Opened]) -> None:
    page, database = opened(CAPTURE)
    canvas = page.locator("[data-figure=figure-timeline] canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 200, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 70)
    page.mouse.up()
    notes = chosen(page, "time")
    view = page.evaluate("""document.querySelector("[data-figure=figure-timeline]").picture.view""")
    low, high = view["from"], view["to"]
    begin = page.evaluate("""document.querySelector("[data-figure=figure-timeline]").picture.data.zero""")
    work = f"""(select name_id, path_id, least(end_ns, {high} + start) - greatest(start_ns, {low} + start) as time
        from _page_op, (select min(start_ns) - {begin} as start from gpu_op)
        where start_ns < {high} + start and end_ns > {low} + start)"""
    rows = database.rows(f"""select name, count(*), sum(time) / 1e6, count(*) filter (name in (select short_name from
        kernel_summary)) from {work} join _page_name using (name_id, path_id) group by name""")  # fmt: skip
    assert len(rows) > 10
    kernels = added_up(page, "kernels")
    assert kernels == {name: (cnt, pytest.approx(float(time), abs=6e-4)) for name, cnt, time, kernel in rows if kernel}
    total = sum(float(time) for _, _, time, _ in rows)
    assert sum(time for _, time in added_up(page, "classes").values()) == pytest.approx(total, abs=6e-3)
    drawn = page.evaluate(BARS, "kernels")
    bars = drawn["bars"]["kernel time"]
    assert len(bars) == 15 and all(bars[n] == pytest.approx(kernels[n][1], abs=drawn["pixel"] + 6e-4) for n in bars)
    found = slices(page)
    told = next(one["label"] for one in found if one["kind"] == 0)
    assert told.startswith(f"GPU work that is chosen: {total * 1e3:.1f} µs") and whole(found) == found[0]["width"]
    assert f"{sum(cnt for _, cnt, _, _ in rows)} GPU operations" in page.locator(".selection").inner_text()
    sections = page.locator("main section[aria-labelledby]:has(.note)")
    assert len(notes) == sections.count() == page.locator("main section[aria-labelledby]").count()
    lora = page.locator("section[aria-labelledby=lora] .note").inner_text()
    assert lora == "The picture is of the whole recording; the table is of the whole recording."


@pytest.mark.slow
def test_what_is_chosen_is_in_the_link_and_escape_clears_it(opened: Callable[..., Opened]) -> None:
    page, database = opened(CAPTURE)
    assert not any(one.is_visible() for one in page.locator(".selection, .drawer").all())  # nothing is chosen yet
    before = page.evaluate(BARS, "classes")["bars"]
    page.locator("[data-figure=figure-ranges] .slice", has_text="backward").first.click()
    chosen(page, "range")
    time = number(database, "select gpu_op_ns from range_summary where path = 'run/step/backward'") / 1e6
    assert sum(time for _, time in added_up(page, "classes").values()) == pytest.approx(time, abs=6e-3)
    told = page.locator("[data-figure=figure-timeline] .said").inner_text()
    assert re.search("busy 3.7 % of 0 ns to [0-9.]+ ms, with what is not chosen", told)
    rows = page.locator("section[aria-labelledby=launching] tbody tr:not(.unchosen) td:first-child")
    paths = rows.all_text_contents()
    assert paths and "run/step/backward" in paths and "run/step/forward" not in paths
    page.locator("section[aria-labelledby=steps] summary").click()
    page.locator("section[aria-labelledby=steps] .pick").first.press("Enter")
    chosen(page, "time", "range", "step")
    classes = added_up(page, "classes")
    link, zoomed = page.url, slices(page)
    assert next(one for one in zoomed if one["name"] == "backward")["width"] == pytest.approx(whole(zoomed))
    page.goto("about:blank")
    page.goto(link)
    chosen(page, "time", "range", "step")
    assert added_up(page, "classes") == classes and slices(page) == zoomed
    assert page.locator(".selection").is_visible() and "backward" in page.locator(".selection").inner_text()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("#"))
    assert chosen(page) == [] and not page.locator(".selection").is_visible()
    page.wait_for_selector("html[data-drawn=all]")
    assert page.evaluate(BARS, "classes")["bars"] == before
    assert whole(slices(page)) == slices(page)[0]["width"] and page.locator("tr.unchosen").count() == 0


@pytest.mark.long
def test_without_single_operations_a_time_filters_no_sums(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a range the sums are exact all the same: they are those of the flame graph's ends."""
    monkeypatch.setattr(timeline, "OP_CNT", 100)
    page, database = opened(CAPTURE)
    page.evaluate("""document.querySelector("[data-figure=figure-timeline]").picture.show({from: 1e7, to: 2e7})""")
    chosen(page, "time")
    told = page.locator("section[aria-labelledby=kernels] .note").inner_text()
    assert told == "The picture is of the whole recording; the table is of the whole recording."
    page.locator("[data-figure=figure-ranges] .slice", has_text="backward").first.click()
    chosen(page, "time", "range")
    time = number(database, "select gpu_op_ns from range_summary where path = 'run/step/backward'") / 1e6
    assert sum(time for _, time in added_up(page, "classes").values()) == pytest.approx(time, abs=6e-3)
    assert "not filtered by time" in page.locator("section[aria-labelledby=classes] .note").inner_text()


def test_the_timeline_is_moved_by_keys(opened: Callable[..., Opened]) -> None:
    page, _ = opened(CAPTURE)
    page.locator("[data-figure=figure-timeline] canvas").focus()

    def span() -> tuple[float, float]:
        view = page.evaluate("""document.querySelector("[data-figure=figure-timeline]").picture.view""")
        return view["from"], view["to"]

    start = span()
    page.keyboard.press("w")
    near = span()
    assert near[1] - near[0] == pytest.approx((start[1] - start[0]) / 2)
    page.keyboard.press("d")
    assert span()[0] > near[0] and span()[1] - span()[0] == pytest.approx(near[1] - near[0])
    page.keyboard.press("Home")
    assert span() == start
    page.keyboard.press("/")
    page.keyboard.type("gemm")
    assert page.locator("[data-figure=figure-timeline] input").input_value() == "gemm"


# Steps and ranks


@pytest.mark.slow
def test_steps_and_ranks_are_drawn_as_long_as_they_took(
    browser: Browser, tmp_path: Path, run_command: Callable
) -> None:
    inputs = []
    for rank, slower in ((0, 1.0), (1, 1.5)):
        events: list[dict[str, Any]] = []
        common = {"ph": "X", "pid": 1, "tid": 1}
        for step in range(3):
            at, length = 1000 * slower * step, 900 * slower
            events += [
                common | {"cat": "user_annotation", "name": f"step {step}", "ts": at, "dur": length},
                common | {"cat": "user_annotation", "name": "forward", "ts": at + 1, "dur": length / 3},
                common | {"cat": "user_annotation", "name": "backward", "ts": at + length / 2, "dur": length / 4},
                common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 5, "dur": 2,
                          "args": {"correlation": step + 1}},
                {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 10, "dur": length / 2,
                 "args": {"correlation": step + 1, "stream": 7, "device": 0}},
            ]  # fmt: skip
        inputs.append(tmp_path / f"rank{rank}.json")
        about = {"traceEvents": events, "distributedInfo": {"rank": rank, "world_size": 2}}
        inputs[-1].write_text(json.dumps(about), "utf-8")
    run_command("report", *inputs, "-o", tmp_path / "p.html")
    page = browser.new_page()
    page.goto((tmp_path / "p.html").as_uri())
    page.wait_for_selector("html[data-drawn=all]")
    assert "This is rank 0 of 2" in page.locator("header").inner_text()
    found = page.evaluate(BARS, "steps")
    for step in ("step 0", "step 1", "step 2"):
        assert found["bars"]["forward"][step] == pytest.approx(0.3, abs=found["pixel"])
        assert found["bars"]["other"][step] == pytest.approx(0.9 - 0.3 - 0.225, abs=found["pixel"])
    ranks = page.evaluate(BARS, "ranks")
    assert ranks["bars"]["computes or copies"]["rank 0"] == pytest.approx(3 * 0.45, abs=ranks["pixel"])
    assert ranks["bars"]["computes or copies"]["rank 1"] == pytest.approx(3 * 0.675, abs=ranks["pixel"])


CELLS = """() => {
    const place = document.querySelector("[data-figure=figure-late]"), {base, y} = place.data[0];
    const fills = [...place.querySelectorAll(".barlayer .point path")].map(path => getComputedStyle(path).fill);
    return base.map((step, n) => [step, y[n], fills[n]]);
}"""


@pytest.mark.slow
def test_cells_of_ranks_and_steps_have_the_colour_of_their_deviation(
    browser: Browser, tmp_path: Path, run_command: Callable
) -> None:
    """The one rank that sleeps in one step is red there, all other cells are nearly grey; bars have their bandwidth."""
    job = simulated_ranks.Job(ranks=4, ranks_per_host=4, steps=3, idle={(1, 2): 9_000_000})
    inputs = simulated_ranks.simulate(job).write(tmp_path / "traces")
    run_command("report", *inputs, "-o", tmp_path / "p.html")
    page, complaints = browser.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((tmp_path / "p.html").as_uri())
    page.wait_for_selector("html[data-drawn=all]")
    cells = page.evaluate(CELLS)
    assert [(step, rank) for step, rank, _ in cells] == [
        (step, f"rank {rank}") for step in range(3) for rank in range(4)
    ]
    red = [(step, rank) for step, rank, fill in cells if fill == "rgb(213, 94, 0)"]
    grey = [fill for *_, fill in cells if re.fullmatch(r"rgb\(2[12]\d, 2[12]\d, 2[12]\d\)", fill)]
    assert red == [(2, "rank 1")] and len(grey) == 11
    said = page.locator("h2#late + p").inner_text()
    assert "Rank 1 holds the others up most" in said and "in step/load batch" in said
    bars = page.evaluate(BARS, "collectives")["bars"]["bus bandwidth"]
    reduced = [length for label, length in bars.items() if label.startswith("all_reduce")]
    assert reduced == [pytest.approx(75, rel=0.06)]  # links of 50 GB/s, 2(n-1)/n
    assert not complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.slow
def test_letters_are_read_on_every_ground(opened: Callable[..., Opened], scheme: Any) -> None:
    """A contrast of 4.5 to 1, as WCAG asks, of texts on the page, on cards and on slices."""
    page, _ = opened(CAPTURE)
    page.emulate_media(color_scheme=scheme)
    slices(page, "invert")  # kernels wide enough for letters
    page.wait_for_timeout(300)
    pairs = page.evaluate(
        """() => { const found = new Set();
        const ground = element => { for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (colour !== "rgba(0, 0, 0, 0)") return colour; } return "rgb(255, 255, 255)"; };
        document.querySelectorAll("p, b, td, th button, .slice, .faint, a, .controls button").forEach(element => {
            const style = getComputedStyle(element);
            if (element.textContent && style.backgroundImage === "none" && !element.disabled)
                found.add(style.color + "|" + ground(element)); });
        return [...found]; }"""
    )

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert len(pairs) > 8
    for pair in pairs:
        one, other = sorted(map(luminance, pair.split("|")), reverse=True)
        assert (one + 0.05) / (other + 0.05) >= 4.5, pair
