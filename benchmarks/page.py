"""What pages weigh and how soon they can be used: benchmarks/page.py PAGE.html..., with playwright and Chromium.

Each page is opened three times, the caches of a browser that just started empty the first time. Printed are its weight,
when the pictures of the first screen and all pictures were drawn (from navigation on, in ms, the median), how often the
page did not answer for more than 50 ms while it loaded, and the longest such time.
"""

import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

_TIMES = 3
_WATCHED = """
    window.drawnAt = {};
    window.longTasks = [];
    new PerformanceObserver(list => window.longTasks.push(...list.getEntries().map(entry => entry.duration)))
        .observe({type: "longtask", buffered: true});
    new MutationObserver(list => list.forEach(({target}) => {
        window.drawnAt[target.dataset.figure ?? "all"] ??= performance.now(); }))
        .observe(document, {subtree: true, attributes: true, attributeFilter: ["data-drawn"]});
"""
_FOUND = """() => {
    const seen = [...document.querySelectorAll("[data-figure]")]
        .filter(place => place.getBoundingClientRect().top < innerHeight).map(place => place.dataset.figure);
    const ready = performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd;
    return {first: Math.max(ready, ...seen.map(name => window.drawnAt[name])), all: window.drawnAt.all,
            tasks: window.longTasks};
}"""


def opened(browser: Browser, page: Path) -> dict[str, Any]:
    """What a browser says of opening a page."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.add_init_script(_WATCHED)
    tab.goto(page.absolute().as_uri())
    tab.wait_for_selector("html[data-drawn=all]", timeout=60_000)
    found: dict[str, Any] = tab.evaluate(_FOUND)
    tab.close()
    return found


def main(pages: list[Path]) -> None:
    """Print a row for each page."""
    print("| page | MB | first screen, ms | all, ms | tasks over 50 ms | the longest, ms |\n|---|---|---|---|---|---|")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for page in pages:
            found = [opened(browser, page) for _ in range(_TIMES)]
            first, every = (statistics.median(one[key] for one in found) for key in ("first", "all"))
            tasks = statistics.median(len(one["tasks"]) for one in found)
            longest = statistics.median(max(one["tasks"], default=0) for one in found)
            size = page.stat().st_size / 1e6
            print(f"| {page.stem} | {size:.2f} | {first:,.0f} | {every:,.0f} | {tasks:.0f} | {longest:,.0f} |")
        browser.close()


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
