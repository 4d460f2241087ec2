"""What is said of how much steps compute: by the shapes of operators, where those tell of most of it."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from lorabench.reports.page.said import plain


def trace(path: Path, rows: int, graph_us: float, layer_cnt: int = 1) -> Path:
    """Steps of products whose shapes are known, and of kernels that a graph launches, of which nobody knows any."""
    events = []
    for step in range(4):
        begin, link = 10_000 + 9_000 * step, 10 * step + 1
        both = {"ph": "X", "pid": 1, "tid": 1}
        on_gpu = {"device": 0, "stream": 7}
        shapes = {"Input Dims": [[rows, 1024], [1024, 1024]], "Input type": ["float", "float"]}
        events += [
            both | {"cat": "user_annotation", "name": f"step {step}", "ts": begin, "dur": 8_000},
            both | {"cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": begin + 1_050, "dur": 5,
                    "args": {"correlation": link}},
        ]  # fmt: skip
        for layer in range(layer_cnt):
            at, own = begin + 50 * layer, on_gpu | {"correlation": link + 1 + layer}
            events += [
                both | {"cat": "cpu_op", "name": "aten::mm", "ts": at + 10, "dur": 30, "args": shapes},
                both | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 20, "dur": 5, "args": own},
                both | {"cat": "kernel", "name": "sgemm_128", "tid": 7, "ts": begin + 40 + rows * layer, "dur": rows,
                        "args": own},
            ]  # fmt: skip
        if graph_us:
            events.append(
                both | {"cat": "kernel", "name": "sgemm_256", "tid": 7, "ts": begin + 1_100, "dur": graph_us,
                        "args": on_gpu | {"correlation": link}}
            )  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    return path


@pytest.mark.parametrize(("graph_us", "is_said"), [(0, True), (20, True), (6_000, False)])
def test_more_work_is_said_where_shapes_tell_of_most_products(
    graph_us: float, is_said: bool, tmp_path: Path, run_command: Callable[..., object]
) -> None:
    paths = [trace(tmp_path / f"{rows}.json", rows, graph_us) for rows in (200, 800)]
    said = " ".join(str(run_command("compare", *paths).out).split())  # type: ignore[attr-defined]
    assert ("computes 4.00 x as much" in said) is is_said


@pytest.mark.parametrize(("graph_us", "is_said"), [(0, True), (100, False)])
def test_of_more_layers_it_is_said_that_they_compute_more_and_no_more(
    graph_us: float, is_said: bool, tmp_path: Path, run_command: Callable[..., object]
) -> None:
    paths = [trace(tmp_path / f"{layers}.json", 100, graph_us, layers) for layers in (8, 10)]
    said = " ".join(str(run_command("compare", *paths).out).split())  # type: ignore[attr-defined]
    assert ("computes 1.25 x as much" in said) is is_said, "a tenth of the products may be anything"
    assert "for as much work" not in said


@pytest.mark.slow
def test_the_page_says_what_the_terminal_says_of_who_is_faster(
    tmp_path: Path, run_command: Callable[..., object]
) -> None:
    """More work, two programs, two profilers: a page that named a faster one alone would say the opposite."""
    small, large = (trace(tmp_path / f"{rows}.json", rows, 0) for rows in (200, 800))
    other = json.loads(small.read_text("utf-8"))
    for event in other["traceEvents"]:
        event["name"] = event["name"].replace("aten::mm", "mine::step").replace("sgemm_128", "quite_another")
    strange = tmp_path / "strange.json"
    strange.write_text(json.dumps(other), "utf-8")
    pairs = {
        "for as much work": (small, large),
        "is B the same program": (small, strange),
        "no verdict: A was recorded by": (
            ROOT / "fixtures" / "lora-run.json.gz",
            ROOT / "fixtures" / "lora-run.sqlite",
        ),
    }
    for said, (one, two) in pairs.items():
        page = tmp_path / "page.html"
        run_command("compare", one, two, "-o", page)
        terminal = plain(" ".join(str(run_command("compare", one, two).out).split()))  # type: ignore[attr-defined]
        lines = re.findall(r'<p class="verdict">(.*?)</p>', page.read_text("utf-8"), re.DOTALL)
        found = [" ".join(html.unescape(re.sub("<.*?>", "", line)).split()) for line in lines]
        assert any(said in line[:1].lower() + line[1:] for line in found), found
        for line in found:
            assert line[:1].lower() + line[1:].removesuffix(".") in terminal[:1].lower() + terminal[1:]
