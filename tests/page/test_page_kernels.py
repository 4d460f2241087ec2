"""What a page draws of launching, rooflines, phases of steps and the kernel that is chosen, held against the views."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import CORPUS, ROOT, absent
from lorabench.analyze.store.database import Database
from lorabench.reports.page import page as pages
from playwright.sync_api import Browser, Page

CAPTURE = ROOT / "fixtures" / "h200-batch" / "trace.json.gz"
STEPS = CORPUS / "kineto" / "resnet50-six-steps.2021.json.gz"


@pytest.fixture(scope="module")
def opened(
    browser: Browser, database_of: Callable[[Path], Database], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., tuple[Page, Database]]]:
    """The page of a trace, drawn, and the database behind it; one page for all that only look at it."""
    made: dict[Path, Page] = {}

    def go(trace: Path) -> tuple[Page, Database]:
        if not trace.exists():
            absent("corpus", f"there is no {trace}")
        if trace not in made:
            path = tmp_path_factory.mktemp("page") / "page.html"
            pages.write(database_of(trace), path)
            made[trace] = browser.new_page(viewport={"width": 1280, "height": 900})
            made[trace].goto(path.as_uri())
            made[trace].wait_for_selector("html[data-drawn=all]")
        return made[trace], database_of(trace)

    yield go
    for page in made.values():
        page.close()


# Of each row of the bullets in ms: outline, begin and end of the hatch, end of the thin bar, place of the tick.
BULLETS = """() => {
    const place = document.querySelector("[data-figure=figure-launching]"), axis = place._fullLayout.xaxis;
    const ends = path => { const xs = path.getAttribute("d").match(/[MHL](-?[0-9.]+)/g).map(part => axis.p2c(Number(part.slice(1))));
        return [Math.min(...xs), Math.max(...xs)]; };
    const traces = [...place.querySelectorAll(".barlayer .trace")].map(trace => [...trace.querySelectorAll(".point path")].map(ends));
    const ticks = [...place.querySelectorAll(".scatterlayer .point")].map(point => axis.p2c(Number(/\\(([-0-9.]+)/.exec(point.getAttribute("transform"))[1])));
    return {rows: place.data[0].customdata.map((path, n) => [path, traces[0][n][1], ...traces[1][n], traces[2][n][1], ticks[n]]),
            pixel: axis.p2c(1) - axis.p2c(0), height: [...place.querySelectorAll(".barlayer .trace")].map(trace =>
                trace.querySelector(".point path").getBoundingClientRect().height)};
}"""  # noqa: E501


@pytest.mark.slow
def test_bullets_are_as_long_as_their_range_its_loss_its_work_and_its_calls(opened: Callable) -> None:
    page, database = opened(CAPTURE)
    drawn = page.evaluate(BULLETS)
    said = database.rows("""select path, wall_ns / 1e6, (wall_ns - launch_overhead_ns) / 1e6, wall_ns / 1e6,
        gpu_busy_ns / 1e6, (launch_api_ns - launch_wait_ns) / 1e6 from range_summary
        where kind = 'annotation' and launch_cnt > 0
        order by launch_overhead_ns desc nulls last, path""")  # fmt: skip
    assert 1 < len(drawn["rows"]) == min(15, len(said))
    for row, wanted in zip(drawn["rows"], said, strict=False):
        assert row[0] == wanted[0]
        assert row[1:] == [pytest.approx(float(value), abs=drawn["pixel"]) for value in wanted[1:]], row[0]
    outline, hatch, thin = drawn["height"]
    assert thin < hatch / 2 < outline


@pytest.mark.slow
def test_a_range_that_is_chosen_leaves_its_bullets_with_their_lengths(opened: Callable) -> None:
    page, _ = opened(CAPTURE)
    before = {row[0]: row[1:] for row in page.evaluate(BULLETS)["rows"]}
    path = list(before)[-1]
    page.locator("[data-figure=figure-launching] .barlayer .trace").first.locator(".point").last.click(force=True)
    page.wait_for_selector("""html[data-filtered='["range"]']""")
    page.wait_for_function(
        "cnt => document.querySelector('[data-figure=figure-launching]').data[0].y.length < cnt", arg=len(before)
    )
    after = page.evaluate(BULLETS)
    assert path in [row[0] for row in after["rows"]]
    assert all(row[0] == path or row[0].startswith(f"{path}/") for row in after["rows"])
    assert next(row for row in after["rows"] if row[0] == path)[1:] == pytest.approx(
        before[path], abs=after["pixel"] + 0.01
    )
    page.keyboard.press("Escape")
    page.wait_for_selector("html[data-filtered='[]']")


@pytest.mark.slow
def test_points_of_the_roofline_are_the_operators_and_the_roof_is_the_data_sheet(opened: Callable) -> None:
    page, database = opened(STEPS)
    place = """document.querySelector("[data-figure=figure-roofline]")"""
    points, roofs = page.evaluate(f"""[
        {place}.data.filter(trace => trace.mode === "markers").map(t => [t.name, t.x, t.y]),
        {place}.data.filter(trace => trace.mode === "lines").map(t => [t.x, t.y])]""")  # fmt: skip
    said = database.rows("""select bound, flop / bytes, flop_s / 1e12 from operator_summary
        where flop > 0 and bytes > 0 and self_gpu_ns > 0 and bound is not null""")  # fmt: skip
    found = sorted(
        (name.removeprefix("bound by "), x, y) for name, xs, ys in points for x, y in zip(xs, ys, strict=True)
    )
    assert len(found) > 50
    assert found == sorted((bound, float(f"{x:.6g}"), float(f"{y:.6g}")) for bound, x, y in said)
    ((flops, memory),) = database.rows("select matrix16_flops, memory_bytes_s from _device_peak")
    (begin, knee, _), (low, top, end) = roofs[0]
    assert (top, end, knee) == (flops / 1e12, flops / 1e12, flops / memory) and low == pytest.approx(
        begin * memory / 1e12
    )


def test_cells_of_steps_and_phases_are_deviations_from_the_median(opened: Callable) -> None:
    page, database = opened(STEPS)
    place = """document.querySelector("[data-figure=figure-step-phases]")"""
    rows, steps, told = page.evaluate(f"[{place}.data[0].y, {place}.data[0].base, {place}.data[0].customdata]")
    cells = {(row, step): text.split(": ")[1] for row, step, text in zip(rows, steps, told, strict=True)}
    phases = ("data", "forward", "backward", "optimizer")
    columns = {phase: f"{phase}_ns" for phase in phases} | {"whole step": "length_ns"}
    assert page.evaluate(f"{place}._fullLayout.yaxis._categories") == list(columns)
    for name, column in columns.items():
        said = database.rows(f"select {column} - median({column}) over () from step_summary order by start_ns")
        assert [float(cells[name, step].split()[0].replace(",", "")) for step in range(len(said))] == [
            pytest.approx(float(ns) / 1e6, abs=1e-3) for (ns,) in said
        ]
    assert len(cells) == len(columns) * len(said)


DRAWER = """() => { const drawer = document.querySelector(".drawer");
    return drawer.hidden ? null : {name: drawer.querySelector("b").textContent, text: drawer.innerText,
        bins: [...drawer.querySelectorAll("rect title")].map(title => Number(title.textContent.split(": ")[1].replaceAll(",", ""))),
        heights: [...drawer.querySelectorAll("rect")].map(bar => Number(bar.getAttribute("height")))}; }"""  # noqa: E501


@pytest.mark.slow
def test_the_kernel_that_is_chosen_is_told_beside_the_pictures(opened: Callable) -> None:
    page, database = opened(CAPTURE)
    assert page.evaluate(DRAWER) is None and not page.locator(".selection").is_visible()
    page.locator("section[aria-labelledby=kernels] summary").click()
    page.locator("#table-kernels tbody tr").nth(1).locator("button.pick").click()
    page.wait_for_selector("""html[data-filtered='["kernel"]']""")
    told = page.evaluate(DRAWER)
    ((name, cnt, full, median, path, owned),) = database.rows("""
        select short_name, kernel_cnt, kernel_name, median_ns,
            (select arg_max(path, o.kernel_ns) from _page_kernel_owner as o where o.name_id = n.name_id),
            (select sum(o.kernel_ns) from _page_kernel_owner as o where o.name_id = n.name_id)
        from kernel_summary join name as n on n.text = kernel_name order by kernel_ns desc limit 1 offset 1""")
    assert told["name"] == name and f"{cnt} executions" in told["text"] and full[:400] in told["text"]
    assert f"median {median / 1e3:.3f} µs" in told["text"] or f"median {median / 1e3:.2f} µs" in told["text"]
    assert path in told["text"] and owned > 0
    assert sum(told["bins"]) == cnt
    most = max(told["bins"])
    assert told["heights"] == [pytest.approx(max(1, 64 * one / most), abs=0.01) for one in told["bins"]]
    page.get_by_label("close what is known of the kernel").click()
    assert page.evaluate(DRAWER) is None and page.locator(".selection").is_visible()
    page.keyboard.press("Escape")
    page.wait_for_selector("html[data-filtered='[]']")
    page.locator("#table-kernels tbody tr").nth(1).locator("button.pick").click()
    assert page.evaluate(DRAWER)["name"] == name
    page.keyboard.press("Escape")
    assert page.evaluate(DRAWER) is None


@pytest.mark.parametrize("trace", [CAPTURE, STEPS], ids=["capture", "six steps"])
def test_durations_owners_and_operators_of_a_kernel_add_up_to_it(trace: Path, database_of: Callable) -> None:
    if not trace.exists():
        absent("corpus", f"there is no {trace}")
    database = database_of(trace)
    assert (
        database.rows("""select count(*) from _page_kernel as kernel join (select source_id, name_id,
        sum(kernel_cnt) as cnt from _page_kernel_duration group by all) using (source_id, name_id)
        where cnt = kernel_cnt""")
        == database.rows("select count(*) from _page_kernel")
        != [(0,)]
    )
    for view in ("_page_kernel_owner", "_page_kernel_operator"):
        assert database.rows(f"""select short_name from _page_kernel as kernel join (select source_id, name_id,
            count(*) as row_cnt, sum(kernel_cnt) as cnt, sum(kernel_ns) as ns from {view} group by all)
            using (source_id, name_id) where cnt > kernel_cnt or ns > kernel_ns or row_cnt > 5""") == []  # fmt: skip
    # what has fewer than five owners has all of them
    assert database.rows("""select short_name from _page_kernel as kernel join (select source_id, name_id, count(*) as
        row_cnt, sum(kernel_ns) as ns from _page_kernel_owner group by all) using (source_id, name_id)
        where row_cnt < 5 and ns <> kernel_ns""") == []  # fmt: skip
