"""The page: complete, harmless, and drawn in a real browser without a network."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import absent
from lorabench.analyze.pipeline import analyze
from lorabench.errors import InputError
from lorabench.reports import page

CAPTURE = Path(__file__).parent.parent / "fixtures" / "h200-batch" / "trace.json.gz"
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
        page.write(database, folder / "page.html")
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
    assert all(json.loads(figure)["data"] for _, figure in figures)
    assert {"timeline", "ranges", "kernels", "critical", "lora", "idle"} <= set(ids)


def test_the_page_asks_nothing_of_any_network(text: str) -> None:
    found = Elements(text)
    assert not found.with_attribute("src") and not [tag for tag, _ in found.tags if tag in ("link", "iframe", "img")]
    assert "default-src 'none'" in text and len(text) < 8_000_000


def test_names_of_a_trace_are_text(tmp_path: Path) -> None:
    text = rendered(hostile_trace(tmp_path / "h.json"), tmp_path)
    found = Elements(text)
    assert "pwned" not in found.with_attribute("id") and not found.with_attribute("onclick")
    assert [tag for tag, _ in found.tags].count("script") == text.count("<script type=") + 2


def test_what_the_page_says_is_in_the_views(text: str, tmp_path: Path) -> None:
    with analyze([CAPTURE], tmp_path / "x.duckdb") as database:
        ((kernels, time),) = database.rows("select sum(kernel_cnt), sum(kernel_ns) from kernel_summary")
        ((median,),) = database.rows("select p50_ns from step_statistics")
    assert (
        f"<b>{kernels:,}</b>" in text and f"{time / 1e6:,.1f} ms" in text and f"<b>{median / 1e6:,.2f} ms</b>" in text
    )


def test_a_trace_without_gpu_work_has_a_page(tmp_path: Path) -> None:
    text = rendered(CAPTURE.parent.parent / "torch-cpu.json.gz", tmp_path)
    assert 'id="operators"' in text and 'id="timeline"' not in text


def test_without_any_readable_input_there_is_no_page(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{", "utf-8")
    with pytest.raises(InputError):
        rendered(tmp_path / "a.json", tmp_path)


@pytest.mark.parametrize(("trace", "width"), [("captured", 1280), ("captured", 390), ("hostile", 1280)])
def test_a_browser_draws_the_page_without_a_complaint(trace: str, width: int, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        absent("chromium", "no Chromium is installed")
    path = CAPTURE if trace == "captured" else hostile_trace(tmp_path / "h.json")
    text = rendered(path, tmp_path)
    done = subprocess.run(
        [str(browser), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},9000", "--virtual-time-budget=15000",
         "--dump-dom", (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    drawn = Elements(done.stdout)
    classes = [c for c in drawn.with_attribute("class") if "js-plotly-plot" in c]
    assert len(classes) == len(Elements(text).with_attribute("data-figure")) > 0
    assert "pwned" not in drawn.with_attribute("id") and "<title>pwned" not in done.stdout
