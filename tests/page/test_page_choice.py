"""What is chosen on a page, and what the address says: read back from a real browser."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from conftest import ROOT
from playwright.sync_api import Browser, Page, expect

CAPTURE = ROOT / "fixtures" / "h200-batch" / "trace.json.gz"


def trace(path: Path, rank: int | None = None, kernel_us: float = 100, names: tuple[str, ...] = ("forward",)) -> Path:
    """Three steps of 1 ms in which each of these ranges launches a kernel of its own."""
    events: list[dict[str, Any]] = []
    common = {"ph": "X", "pid": 1, "tid": 1}
    for step in range(3):
        begin = 1000 * step
        events.append(common | {"cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begin, "dur": 990})
        for n, name in enumerate(names):
            at, link = begin + 5 + n * 900 // len(names), {"correlation": step * len(names) + n + 1}
            own = common | {"cat": "user_annotation", "name": name, "ts": at, "dur": 800 // len(names)}
            launch = common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 1, "dur": 2, "args": link}
            work = {"ph": "X", "cat": "kernel", "name": f"gemm of {n}", "pid": 0, "tid": 7, "ts": at + 4,
                    "dur": kernel_us, "args": link | {"stream": 7, "device": 0}}  # fmt: skip
            events += [own, launch, work]
    about: dict[str, Any] = {"traceEvents": events}
    if rank is not None:
        about["distributedInfo"] = {"rank": rank, "world_size": 2}
    path.write_text(json.dumps(about), "utf-8")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Where the page of these inputs is, or is to be written: one for the same traces, wherever they lie."""
    folders: dict[tuple[Any, ...], Path] = {}

    def get(*inputs: Path) -> Path:
        key = tuple((path.name, path.read_bytes()) for path in inputs)
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("page")
        return folders[key] / "page.html"

    return get


@pytest.fixture
def opened(browser: Browser, made: Callable[..., Path], run_command: Callable) -> Iterator[Callable[..., Page]]:
    """The page of inputs, or the one before again, with a hash in its address; what a script throws fails the test."""
    pages: list[Page] = []
    paths: list[Path] = []
    complaints: list[str] = []

    def go(*inputs: Path, address: str = "") -> Page:
        path = made(*inputs) if inputs else paths[-1]
        paths.append(path)
        if not path.exists():
            run_command("report", *inputs, "-o", path)
        page = browser.new_page()
        pages.append(page)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri() + address)
        page.wait_for_selector("html[data-drawn=all]")
        return page

    yield go
    for page in pages:
        page.close()
    assert not complaints


def choose(page: Page, *names: str) -> str:
    """Wait until these dimensions are what is chosen; what the bar says."""
    page.wait_for_selector(f"html[data-filtered='{json.dumps(list(names), separators=(',', ':'))}']")
    return page.locator(".selection").inner_text()


@pytest.mark.slow
def test_operations_of_another_rank_are_not_counted_as_those_of_the_one_that_is_chosen(
    opened: Callable, tmp_path: Path
) -> None:
    page = opened(trace(tmp_path / "rank0.json", 0), trace(tmp_path / "rank1.json", 1, kernel_us=300))
    ranks = page.locator("section[aria-labelledby=ranks]")
    ranks.locator("summary").click()
    ranks.locator("tbody .pick", has_text="1").first.click()
    said = choose(page, "rank")
    assert "rank 1" in said and "The operations in this page are of rank 0." in said and "GPU operations" not in said
    page.keyboard.press("Escape")
    ranks.locator("tbody .pick", has_text="0").first.click()
    expect(page.locator(".selection")).to_contain_text("3 GPU operations, 300.0 µs")


@pytest.mark.slow
def test_a_step_in_an_address_is_the_time_that_it_took(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json"), address="#step=1")
    said = choose(page, "time", "step")
    assert "1 GPU operation, 100.0 µs" in said and "step 1" in said
    page.evaluate("document.querySelector('[data-figure=figure-timeline]').picture.show({from: 0, to: 5e5})")
    assert "step" not in choose(page, "time")  # the time that is seen now is not that of the step


@pytest.mark.slow
def test_an_address_that_is_damaged_leaves_the_page_as_it_is(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json"), address="#50%")
    assert not page.locator(".selection").is_visible()
    page.locator("section[aria-labelledby=kernels] summary").click()
    head = page.locator("section[aria-labelledby=kernels] th").nth(1)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"


def test_another_address_in_an_open_page_is_followed(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json"))
    page.evaluate("address => { location.hash = address; }", quote("kernel=gemm of 0"))
    assert "kernel gemm of 0" in choose(page, "kernel")
    page.evaluate("address => { location.hash = address; }", quote("step=2"))
    assert "kernel" not in choose(page, "time", "step")
    page.evaluate("location.hash = 'kernels'")
    assert page.locator(".selection").is_visible()  # the name of a section takes nothing back
    page.wait_for_url("**#*step%3D2*")  # and the address is still that of what is shown


def test_a_slash_searches_wherever_one_is(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json"))
    page.keyboard.press("/")
    find = page.get_by_label("Find in the timeline")
    expect(find).to_be_focused()
    page.keyboard.type("a/b")  # where a text is typed it is one
    assert find.input_value() == "a/b"


@pytest.mark.parametrize("name", ["", "gemm\x00a"])
@pytest.mark.slow
def test_a_kernel_of_a_strange_name_is_chosen_and_left(name: str, opened: Callable, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", names=("forward", "head"))
    events = json.loads(path.read_text("utf-8"))
    for event in events["traceEvents"]:
        event["name"] = name if event["name"] == "gemm of 0" else event["name"]
    path.write_text(json.dumps(events), "utf-8")
    page = opened(path)
    section = page.locator("section[aria-labelledby=kernels]")
    section.locator("summary").click()
    for row in section.locator("tbody tr").all():
        row.locator(".pick").first.click()
        assert "3 GPU operations" in choose(page, "kernel")
        page.keyboard.press("Escape")
        assert not page.locator(".selection").is_visible() and not page.locator(".drawer").is_visible()
        choose(page)


def test_what_is_looked_for_is_in_the_address_and_said_without_hits(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json"), address="#find=gemm")
    find, said = page.get_by_label("Find in the timeline"), page.locator("[data-figure=figure-timeline] .said")
    assert find.input_value() == "gemm"
    assert said.inner_text().startswith("“gemm”: 3 found, 3 of them in what is shown. ")
    find.fill("nothing like it")
    expect(said).to_contain_text("“nothing like it”: nothing has it in its name or path.")
    expect(page).to_have_url(re.compile("find"))
    find.fill("")
    expect(page).not_to_have_url(re.compile("find"))
    assert "“" not in said.inner_text()


def test_a_filter_without_a_row_says_so(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json"))
    section = page.locator("section[aria-labelledby=kernels]")
    section.locator("summary").click()
    section.locator("input").fill("zzz")
    assert "No row has “zzz” in it." in section.inner_text()
    section.locator("input").fill("gemm")
    assert "No row" not in section.inner_text()


SLASHES = (
    "train/forward",
    "<script>alert(1)</script>/sub",
    "range " + "x" * 350 + " a",
    "range " + "x" * 350 + " b",
    "é" * 1200,
)


def lanes_at(page: Page) -> list[dict[str, Any]]:
    """The first stretch of each name of the second lane of ranges: where it lies, and the name."""
    found: list[dict[str, Any]] = page.evaluate(
        """() => {
            const {lanes, data, canvas} = document.querySelector("[data-figure=figure-timeline]").picture;
            const picture = document.querySelector("[data-figure=figure-timeline]").picture, lane = lanes[1], seen = {};
            lane.names.forEach((name, n) => { seen[name] ??= {name: data.names[name][0], y: lane.top + 5,
                x: (picture.xOf(lane.starts[n]) + picture.xOf(lane.ends[n])) / 2}; });
            return Object.values(seen).sort((a, b) => a.x - b.x);
        }"""
    )
    return found


@pytest.mark.slow
def test_names_with_slashes_and_very_long_ones_are_chosen_as_themselves(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json", names=SLASHES))
    canvas = page.locator("[data-figure=figure-timeline] canvas")
    canvas.scroll_into_view_if_needed()
    stretches = lanes_at(page)
    assert [stretch["name"] for stretch in stretches] == list(SLASHES)
    for n, stretch in enumerate(stretches):
        canvas.click(position={"x": stretch["x"], "y": stretch["y"]})
        said = choose(page, "range")
        assert "3 GPU operations, 300.0 µs" in said, stretch["name"][:40]
        coloured = page.evaluate(
            """() => { const {isChosen, data} = document.querySelector("[data-figure=figure-timeline]").picture;
            return data.names.map(([name]) => name).filter((_, n) => isChosen[n]); }"""
        )
        assert coloured == [f"gemm of {n}", SLASHES[n]]
        address = page.url
        page.keyboard.press("Escape")
        choose(page)
        again = opened(address=address[address.index("#") :])
        assert "3 GPU operations" in choose(again, "range")
        again.close()


@pytest.mark.slow
def test_rows_and_slices_of_such_names_choose_the_same(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json", names=SLASHES))
    section = page.locator("section[aria-labelledby=ranges]")
    section.locator("summary").click()
    for n, row in enumerate(section.locator("tbody tr").all()[1:]):
        row.locator(".pick").click()
        assert "3 GPU operations, 300.0 µs" in choose(page, "range"), n
        page.keyboard.press("Escape")
        choose(page)
    slices = page.locator("[data-figure=figure-ranges] .slice", has_text="gemm of")
    slices.first.click()
    assert "3 GPU operations, 300.0 µs" in choose(page, "range", "kernel")


@pytest.mark.slow
def test_a_kernel_with_a_very_long_name_is_chosen_by_its_slice(opened: Callable, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json")
    path.write_text(path.read_text("utf-8").replace("gemm of 0", "kernel_" + "y" * 400), "utf-8")
    page = opened(path)
    page.locator("[data-figure=figure-ranges] .slice", has_text="yyyy").first.click()
    assert "3 GPU operations, 300.0 µs" in choose(page, "range", "kernel")


@pytest.mark.slow
def test_a_table_says_which_rows_are_not_in_the_page(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json", names=tuple(f"part {n}" for n in range(50)), kernel_us=1))
    note = page.locator("section[aria-labelledby=timeline] .note")
    page.evaluate("document.querySelector('[data-figure=figure-timeline]').picture.show({from: 2.9e6, to: 2.98e6})")
    choose(page, "time")
    assert "of its first 100 rows" in note.inner_text()
    assert "50 more rows not in this page may be of it, too: lorabench analyze INPUT --report" in note.inner_text()
    page.keyboard.press("Escape")
    choose(page)
    page.locator("section[aria-labelledby=steps] summary").click()
    page.locator("section[aria-labelledby=steps] .pick").first.click()
    choose(page, "time", "step")
    assert "more rows" not in page.locator("section[aria-labelledby=steps] .note").inner_text()


@pytest.mark.slow
def test_few_bars_of_a_choice_do_not_fill_the_place_of_many(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json", names=tuple(f"part {n}" for n in range(12)), kernel_us=20))
    measured = """section => { const place = document.querySelector(`[data-figure=figure-${section}]`);
        const bars = [...place.querySelectorAll(".barlayer .trace:first-child .point path")];
        return [bars.length, Math.max(...bars.map(bar => bar.getBoundingClientRect().height)), place.clientHeight]; }"""
    before = {name: page.evaluate(measured, name) for name in ("kernels", "launching")}
    page.locator("[data-figure=figure-ranges] .slice", has_text="part 3").first.click()
    choose(page, "range")
    for name, (count, height, place) in before.items():
        kept, chosen, around = page.evaluate(measured, name)
        assert count >= 12 and kept == 1, name
        assert 0.6 * height < chosen < 3 * height, name  # as in a picture of one bar: the axis takes its part
        assert around == place, name  # what is below stays where it is


@pytest.mark.slow
def test_a_share_stands_in_the_receipt_whole_or_not_at_all(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json", kernel_us=80))
    for width in (1280, 420, 300):
        page.set_viewport_size({"width": width, "height": 900})
        cut = page.evaluate(
            """[...document.querySelectorAll(".receipt em")].filter(em => getComputedStyle(em).visibility === "visible"
            && em.getBoundingClientRect().right > em.parentElement.getBoundingClientRect().right + 0.5)
            .map(em => em.textContent)"""
        )
        assert cut == [], width


@pytest.mark.slow
def test_paper_has_whole_texts_and_tables_within_its_width(opened: Callable, tmp_path: Path) -> None:
    long = "a name that is longer than a cell has room for " * 4
    page = opened(trace(tmp_path / "t.json", names=(long, "forward", "backward", "optimizer")))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 760, "height": 1000})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    wide = page.evaluate(
        "[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect().right > 760).map(t => t.id)"
    )
    assert wide == []
    cell = page.locator("section[aria-labelledby=ranges] td[title]").first
    shown = cell.evaluate("cell => [getComputedStyle(cell).fontSize, getComputedStyle(cell, '::after').content]")
    assert shown[0] == "0px" and long.strip() in shown[1]


@pytest.mark.slow
def test_on_paper_a_very_long_name_leaves_words_beside_it_whole(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json", names=("x" * 3000, "forward")))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 760, "height": 1000})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = page.evaluate("""[...document.querySelectorAll("td:not(.number)")].filter(cell => cell.textContent)
        .map(cell => [cell.getBoundingClientRect().width / parseFloat(getComputedStyle(cell.parentElement).fontSize),
            cell.closest("table").id])""")
    assert len({table for _, table in widths}) > 3 and min(widths)[0] >= 5.5, min(widths)
    assert (
        page.evaluate("Math.max(...[...document.querySelectorAll('table')].map(t => t.getBoundingClientRect().right))")
        <= 760
    )


@pytest.mark.slow
def test_memory_over_time_shows_the_time_that_is_chosen(opened: Callable, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json")
    about = json.loads(path.read_text("utf-8"))
    for n in range(30):
        size = 2**20 * (1 if n % 2 == 0 else -1)
        held = {"Device Type": 1, "Device Id": 0, "Addr": 7, "Bytes": size, "Total Allocated": max(0, size),
                "Total Reserved": 2**21}  # fmt: skip
        about["traceEvents"].append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1,
                                     "tid": 1, "ts": 20 + 90 * n, "args": held})  # fmt: skip
    path.write_text(json.dumps(about), "utf-8")
    page = opened(path)
    page.evaluate("document.querySelector('[data-figure=figure-timeline]').picture.show({from: 5e5, to: 1e6})")
    choose(page, "time")
    drawn = page.evaluate("document.querySelector('[data-figure=figure-memory]').layout.xaxis.range")
    zero = page.evaluate("document.querySelector('[data-figure=figure-timeline]').picture.data.zero") / 1e6
    assert drawn == [pytest.approx(0.5 - zero), pytest.approx(1 - zero)]
    assert (
        page.locator("section[aria-labelledby=memory] .note")
        .inner_text()
        .startswith("The picture is of 491.0 µs to 991.0 µs;")
    )


@pytest.mark.slow
def test_a_picture_of_the_first_rows_says_so_where_a_choice_may_have_others(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json", names=tuple(f"part {n}" for n in range(80)), kernel_us=1))
    page.locator("[data-figure=figure-ranges] .slice", has_text="ProfilerStep").first.click()
    choose(page, "range")
    note = page.locator("section[aria-labelledby=launching] .note").inner_text()
    assert note.startswith(
        "The picture is of range ProfilerStep (it has the first 60 of 81 rows); the table has 81 of its"
    )
    assert "first" not in page.locator("section[aria-labelledby=kernels] .note").inner_text()


def of_one_kernel(path: Path) -> Path:
    """Two ranges that launch the same kernel, 3 times 100 µs each, and 20 µs of nothing before the first."""
    events = json.loads(trace(path, names=("forward", "head")).read_text("utf-8"))
    for event in events["traceEvents"]:
        event["name"] = "gemm" if event["name"].startswith("gemm") else event["name"]
    path.write_text(json.dumps(events), "utf-8")
    return path


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.tagName + ' ' + document.activeElement.textContent")


@pytest.mark.slow
def test_a_kernel_within_a_range_is_all_that_the_flame_graph_counts(opened: Callable, tmp_path: Path) -> None:
    page = opened(of_one_kernel(tmp_path / "t.json"))
    flame = page.locator("[data-figure=figure-ranges]")
    flame.locator("[role=treeitem][aria-label^='gemm']").first.focus()
    page.keyboard.press("Enter")
    assert "3 GPU operations, 300.0 µs" in choose(page, "range", "kernel")
    slices = flame.locator("[role=treeitem]").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert len(slices) >= 3 and all("300.0 µs, 100 % of what is chosen" in said for said in slices), slices
    section = page.locator("section[aria-labelledby=ranges]")
    rows = re.search(r"table has (\d+ of) its (\d+ rows)", section.locator(".note").inner_text())
    assert rows and section.locator("summary").inner_text() == f"Table ({rows[1]} {rows[2]})"


def test_what_is_outside_of_ranges_is_named_once(opened: Callable, tmp_path: Path) -> None:
    path = of_one_kernel(tmp_path / "t.json")
    events = json.loads(path.read_text("utf-8"))
    for event in events["traceEvents"]:
        event.get("args", {}).pop("correlation", None)  # nobody launched it
    path.write_text(json.dumps(events), "utf-8")
    flame = opened(path).locator("[data-figure=figure-ranges]")
    flame.locator("[role=treeitem][aria-label^='outside']").focus()
    assert flame.locator(".said").inner_text().startswith("outside of all ranges: 600.0 µs, 100 % of all GPU time")


@pytest.mark.slow
def test_keys_choose_a_kernel_and_keep_the_focus(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json", names=("forward", "head"), kernel_us=0.48))
    section = page.locator("section[aria-labelledby=kernels]")
    section.locator("summary").click()
    before = section.locator("table[id] tbody tr").first.locator("td").all_inner_texts()
    section.locator("table[id] tbody .pick").first.focus()
    page.keyboard.press("Enter")
    choose(page, "kernel")
    assert focused(page) == f"BUTTON {before[0]}" and page.locator(".sums button:focus").count() == 1
    assert section.locator("summary").inner_text() == "Table (1 name of what is chosen)"
    shown = section.locator(".sums tbody tr").first.locator("td").all_inner_texts()
    assert shown == before[:4] and shown[2] == "0.0014", (shown, before)
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-filtered='[]']")
    assert focused(page) == f"BUTTON {before[0]}" and page.locator("#table-kernels button:focus").count() == 1
    page.keyboard.press("Enter")
    choose(page, "kernel")
    page.locator(".selection button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-filtered='[]']")
    assert focused(page) == f"BUTTON {before[0]}"


def test_a_chart_without_bars_has_no_axes(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json"), address="#" + quote("time=0..3000"))
    choose(page, "time")
    chart = page.locator("[data-figure=figure-kernels]")
    expect(chart.locator(".annotation-text")).to_have_text("nothing of what is chosen")
    assert chart.locator(".xtick").count() == 0


def test_a_share_is_said_with_what_it_is_of(opened: Callable, tmp_path: Path) -> None:
    page = opened(trace(tmp_path / "t.json", names=("forward", "head")))
    picture = page.locator("[data-figure=figure-timeline]")
    assert picture.locator("canvas").get_attribute("role") == "application"
    page.evaluate("""() => {
        const picture = document.querySelector("[data-figure=figure-timeline]").picture, zero = picture.data.zero;
        picture.show({from: zero - 9000, to: zero + 200000});
    }""")
    said = picture.locator(".said")
    expect(said).to_contain_text("-9.000 µs to 200.0 µs: stream 7 busy 50 % of 0 ns to 200.0 µs; most of it gemm")
    page.evaluate("""() => {
        const picture = document.querySelector("[data-figure=figure-timeline]").picture, zero = picture.data.zero;
        picture.show({from: zero, to: zero + 200000});
    }""")
    expect(said).to_contain_text("0 ns to 200.0 µs: stream 7 busy 50 %; most of it gemm")
