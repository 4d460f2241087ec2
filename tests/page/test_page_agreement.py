"""Sections of the page agree with the verdict on top and with the views behind them."""

import html
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import CORPUS, ROOT, quick
from lorabench.analyze.pipeline import analyze
from lorabench.reports.answer import answer
from lorabench.reports.page import page as pages
from lorabench.reports.page import rank_sections, receipt
from lorabench.reports.page import sections as sections_of_page
from lorabench.reports.page.receipt import PARTS
from lorabench.reports.page.section import Section, Source

FIXTURES = ROOT / "fixtures"


def values(section: Section, title: str) -> list[Any]:
    """What a column of the table has, by the start of its title."""
    (place,) = (n for n, column in enumerate(section.columns) if column.title.startswith(title))
    return [row[place].text if row[place].number is None else row[place].number for row in section.rows]


@pytest.fixture(scope="module")
def section(database_of: Callable, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, str], Section | None]:
    """A section of the page of a trace; None where the page has none of that name."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def sections(trace: Path) -> list[Section]:
        return pages.write(database_of(trace), folder / "page.html", [trace])

    def get(trace: Path, name: str) -> Section | None:
        return next((one for one in sections(trace) if one.name == name), None)

    return get


@pytest.mark.parametrize(
    "trace",
    quick(2, ["sglang-decode-graphs.json.gz", "cuda-graphs.a100.json.gz", "event-sync-multi-stream.json.gz"]),
)
@pytest.mark.first(1)
def test_reasons_for_idle_time_are_those_of_the_receipt(trace: str, section: Callable, database_of: Callable) -> None:
    database = database_of(CORPUS / "kineto" / trace)
    answered = answer.answer(database)
    drawn = section(CORPUS / "kineto" / trace, "idle")
    assert not answered["steady"]["is_steady"]  # else the section is of more than the verdict, and says so
    found = dict(zip(drawn.figure["data"][0]["customdata"], drawn.figure["data"][0]["x"], strict=True))
    assert found
    ((window,),) = database.rows("select sum(window_ns) from steady_state")
    for part in (*answer.IDLE, "unrecorded", "idle"):
        share = answered["parts"].get(part, 0)
        assert found.get(PARTS[part][0], 0) * 1e6 == pytest.approx(share * window, rel=1e-4, abs=2), part


def test_idle_time_of_a_job_whose_parts_are_gone_is_that_of_the_view(database_of: Callable) -> None:
    """Its database has idle_summary, and no single gaps."""

    class WithoutGaps(Source):
        def rows(self, statement: str) -> list[dict[str, Any]]:
            return [] if "_page_idle" in statement else super().rows(statement)

    database = database_of(CORPUS / "kineto" / "ddp-backward.a100.json.gz")
    (found,) = sections_of_page._idle(WithoutGaps(database, 1))
    assert found is not None
    ((idle,),) = database.rows("select sum(idle_ns) / 1e6 from idle_summary")
    assert sum(values(found, "idle (ms)")) == pytest.approx(float(idle))


@pytest.mark.parametrize("trace", ["sglang-decode-graphs.json.gz", "ddp-backward.a100.json.gz"])
def test_rows_of_a_cause_add_up_to_the_view(trace: str, database_of: Callable) -> None:
    database = database_of(CORPUS / "kineto" / trace)
    names = "device_id, cause, sum(gap_cnt), sum(idle_ns), sum(behind_wait_ns), max(max_ns)"
    statement = f"select {names} from {{}} group by all order by all"
    assert database.rows(statement.format("_page_idle")) == database.rows(statement.format("idle_summary"))


MEMORY = [
    pytest.param(CORPUS / "kineto" / "qwen-stacks-memory.h100.json.gz", id="with a timeline"),
    pytest.param(FIXTURES / "h200-batch", id="of another pass"),
]


@pytest.mark.parametrize("trace", MEMORY)
@pytest.mark.first(1)
@pytest.mark.slow
def test_memory_and_its_blocks_have_the_same_zero(trace: Path, section: Callable) -> None:
    areas, blocks = section(trace, "memory"), section(trace, "blocks")
    drawn = areas.figure["data"]
    totals = [sum(values) for values in zip(*(one["y"] for one in drawn if "stackgroup" in one), strict=True)]
    peak, size = blocks.figure["peak"]
    assert max(totals) == pytest.approx(size / 2**20, rel=1e-5)
    # each step comes as high: of equal sums of categories any may be the largest by its last digit
    highest = [at for at, total in zip(areas.figure["x"], totals, strict=True) if total >= max(totals) * (1 - 1e-9)]
    assert any(at == pytest.approx((peak - blocks.figure["zero"]) / 1e6, abs=1e-5) for at in highest)
    is_on_timeline = "Times are those of the timeline." in blocks.text
    assert is_on_timeline == ("Times are those of the timeline." in areas.text) == ("time" in areas.follows)


def test_memory_of_phases_says_where_the_peak_is(section: Callable) -> None:
    whole = section(CORPUS / "memory_snapshots" / "llm-training-step.pickle", "memory-phases")
    assert whole.text.endswith("The peak of 6,688.4 MiB is in optimizer.")
    assert max(values(whole, "peak")) == pytest.approx(6688.4, abs=0.05)


@pytest.mark.parametrize("trace", ["resnet50-six-steps.2021.json.gz", "qwen-stacks-memory.h100.json.gz"])
@pytest.mark.slow
def test_phases_in_which_nothing_was_live_are_no_section(trace: str, section: Callable) -> None:
    assert section(CORPUS / "kineto" / trace, "memory-phases") is None


@pytest.mark.slow
def test_a_peak_outside_of_all_phases_is_said_to_be_there(tmp_path: Path, database_of: Callable) -> None:
    """An optimizer that holds 2 MiB, and 3 MiB behind it."""
    common = {"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation"}
    about = {"Device Type": 0, "Device Id": -1, "Addr": 1}
    events: list[dict[str, Any]] = [common | {"name": "optimizer", "ts": 100, "dur": 50}]
    for at, change, total in ((110, 2, 2), (120, -2, 0), (200, 3, 3), (210, -3, 0)):
        held = {"Bytes": change * 2**20, "Total Allocated": total * 2**20, "Total Reserved": 0}
        events.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1,
                       "ts": at, "args": about | held})  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    made = pages.write(database_of(path), tmp_path / "page.html", [path])
    (found,) = (one for one in made if one.name == "memory-phases")
    assert "The peak of 3.0 MiB lies in none of them: it is" in found.text
    assert "At most 2.0 MiB was live in one (optimizer)." in found.text


def in_turn(path: Path, with_ranges: bool = True) -> Path:
    """Three steps of two adapters each, under the same number; the second is twice as slow."""
    events: list[dict[str, Any]] = []
    common = {"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation"}
    at = 1000
    for step in range(1, 4):
        for number, length in enumerate((100, 200)):
            events += [
                common | {"name": f"## step {step} ##", "ts": at, "dur": length - 2},
                common | {"name": "forward", "ts": at + 1, "dur": length // 2},
            ]
            if with_ranges:
                events.append(common | {"name": "q_proj", "ts": at + 2, "dur": 30})
                events.append(common | {"name": "lora_A", "ts": at + 3, "dur": 20})
                events.append(common | {"name": f"adapter_{number}", "ts": at + 4, "dur": 10})
            at += length
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    return path


@pytest.mark.slow
def test_steps_of_adapters_in_turn_have_their_names(section: Callable, tmp_path: Path) -> None:
    trace = in_turn(tmp_path / "t.json")
    steps, phases = section(trace, "steps"), section(trace, "step-phases")
    names = [f"{step}, adapter_{number}" for step in (1, 2, 3) for number in (0, 1)]
    assert steps.figure["data"][0]["customdata"] == [f"step {name}" for name in names]
    assert values(steps, "adapter") == ["adapter_0", "adapter_1"] * 3
    assert phases.figure["layout"]["xaxis"]["ticktext"] == names
    unknown = section(in_turn(tmp_path / "u.json", with_ranges=False), "steps")
    assert unknown.figure["data"][0]["customdata"][:2] == ["step 1, 1 of 2", "step 1, 2 of 2"]
    assert "Adapters" not in unknown.text


def job(folder: Path, names: tuple[str, ...], ranks: bool) -> list[Path]:
    """The same three steps under several names."""
    paths = []
    for number, name in enumerate(names):
        paths.append(in_turn(folder / name))
        about = json.loads(paths[-1].read_text("utf-8"))
        if ranks:
            about["distributedInfo"] = {"rank": number, "world_size": len(names)}
        paths[-1].write_text(json.dumps(about), "utf-8")
    return paths


def written(inputs: list[Path], folder: Path) -> tuple[list[Section], str]:
    with analyze(inputs, folder / "x.duckdb") as database:
        return pages.write(database, folder / "page.html", inputs), (folder / "page.html").read_text("utf-8")


@pytest.mark.parametrize(("are_ranks", "title"), [(True, "Ranks"), (False, "Inputs")])
@pytest.mark.first(1)
@pytest.mark.slow
def test_inputs_side_by_side_have_the_step_of_their_cards(are_ranks: bool, title: str, tmp_path: Path) -> None:
    made, text = written(job(tmp_path, ("a.json", "b.json"), are_ranks), tmp_path)
    (found,) = (one for one in made if one.name == "ranks")
    assert found.title == title and f"the section {title} has the others beside it" in text
    assert values(found, "step") == [pytest.approx(0.3), pytest.approx(0.3)]  # both adapters, not one turn
    assert "<b>300.0 µs</b>" in text or "<b>0.3 ms</b>" in text


@pytest.mark.slow
def test_recordings_of_one_run_are_not_side_by_side(tmp_path: Path) -> None:
    made, text = written([FIXTURES / "h200-batch"], tmp_path)
    assert not [one for one in made if one.name == "ranks"]
    assert re.search(r"One of \d inputs: trace.json.gz\.", text)


def test_the_deepest_red_is_explained_where_another_rank_is_named() -> None:
    row = {"lag_ns": 5, "kept_waiting_ns": 9_000_000, "is_straggler": True, "found_by": "arrival", "rank": 7}
    other = row | {"rank": 5, "lag_ns": 8, "kept_waiting_ns": 2_000_000, "is_straggler": False}
    said = rank_sections._apart([{"rank": 7}], [row, other])
    assert "The deepest orange is rank 5 all the same" in said and "waited only 2.0 ms for it" in said
    assert rank_sections._apart([{"rank": 7}], [row, other | {"lag_ns": 5}]) == ""
    assert rank_sections._apart([], [other]) == ""


def test_parts_of_lora_layers_on_a_cpu_have_the_time_of_their_ranges(section: Callable, database_of: Callable) -> None:
    trace = FIXTURES / "torch-cpu.json.gz"
    found = section(trace, "lora")
    rows = database_of(trace).rows("select sum(wall_ns) / 1e6, sum(gpu_op_ns) from lora_summary")
    ((wall, gpu),) = rows
    assert not gpu and wall and "on the CPU" in found.text
    assert sum(values(found, "wall")) == pytest.approx(wall)
    assert sum(sum(one["x"]) for one in found.figure["data"]) == pytest.approx(wall, rel=1e-4)


def test_the_picture_to_post_has_the_peak_of_memory() -> None:
    cards = [{"what": what, "value": "1"} for what in ("step", "tokens", "GPU 0 busy", "kernels", "launches")]
    memory = {"what": "peak memory of cuda:0", "value": "2"}
    every = [*cards, memory, memory | {"what": "peak memory of cpu"}]
    posted = receipt.receipt("r", [], {}, every, []).picture["cards"]
    assert [what for what, _ in posted] == ["step", "tokens", "GPU 0 busy", "peak memory of cuda:0"]
    assert [what for what, _ in receipt.receipt("r", [], {}, cards, []).picture["cards"]][-1] == "kernels"


@pytest.mark.slow
def test_two_gpu_times_of_a_range_are_explained(section: Callable, database_of: Callable) -> None:
    """The picture has each operation once; rows have the backward of their operators, too."""
    words = "counts for a range also the backward of its operators"
    trace = CORPUS / "kineto" / "ddp-backward.a100.json.gz"
    assert database_of(trace).rows("select 1 from range_summary where sequence_kernel_ns > 0 limit 1")
    assert words in section(trace, "ranges").text
    other = CORPUS / "kineto" / "event-sync-multi-stream.json.gz"
    assert not database_of(other).rows("select 1 from range_summary where sequence_kernel_ns > 0 limit 1")
    assert words not in section(other, "ranges").text


@pytest.mark.slow
def test_operators_that_open_annotations_are_said_to_be_narrower(section: Callable) -> None:
    words = "an annotation that an operator opens stands beside the operator"
    assert words in section(CORPUS / "kineto" / "kernel-overlap.b200.json.gz", "ranges").text
    assert words not in section(CORPUS / "kineto" / "event-sync-multi-stream.json.gz", "ranges").text


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ("nsys/cuda-graph.schema-3.24.sqlite", "It is of all that was recorded, 95.1 ms, with what the CPU does before "
         "and after the 186.8 us of the GPU that the verdict is about."),
        ("kineto/kernel-overlap.b200.json.gz", ""),
    ],
)  # fmt: skip
def test_a_critical_path_longer_than_the_verdict_says_so(trace: str, words: str, section: Callable) -> None:
    found = section(CORPUS / trace, "critical")
    assert words in found.text and ("It is of all" in found.text) == bool(words)


def _head(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text.partition("<nav")[0])).split())


def test_what_cards_and_the_critical_path_are_of(tmp_path: Path, database_of: Callable) -> None:
    """Calls take 1.8 s, the GPU works in half of that, and the critical path is of five steps."""
    trace = CORPUS / "nsys" / "llm-attention-nvtx.schema-3.25.sqlite"
    database = database_of(trace)
    made = pages.write(database, tmp_path / "page.html", [trace])
    said = _head((tmp_path / "page.html").read_text("utf-8"))
    ((critical, steps),) = database.rows(
        "select (select sum(critical_ns) from critical_path), (select sum(wall_ns) from step_summary)"
    )
    assert said.count("in all 1.8 s that were recorded") == 2 and "whole recording: 849.4 ms" not in said
    assert re.search("849.4 ms of the 1.8 s that were recorded", said, re.IGNORECASE)
    (found,) = (one for one in made if one.name == "critical")
    assert critical == steps and "It is of all steps, 745.1 ms; the verdict is of the warm ones alone." in found.text


@pytest.mark.slow
def test_the_header_says_how_little_of_a_recording_the_verdict_is_about(tmp_path: Path, database_of: Callable) -> None:
    trace = CORPUS / "nsys" / "cuda-graph.schema-3.24.sqlite"
    pages.write(database_of(trace), tmp_path / "page.html", [trace])
    said = _head((tmp_path / "page.html").read_text("utf-8"))
    assert re.search("The GPU window, from its first work to its last, is 186.8 .s of the 95.1 ms", said)
    other = CORPUS / "kineto" / "kernel-overlap.b200.json.gz"
    pages.write(database_of(other), tmp_path / "page.html", [other])
    assert "GPU window" not in _head((tmp_path / "page.html").read_text("utf-8"))


@pytest.mark.slow
def test_memory_of_another_file_is_said_to_be_that(section: Callable, tmp_path: Path) -> None:
    made, text = written([FIXTURES / "h200-batch"], tmp_path)
    for name in ("memory", "blocks"):
        (found,) = (one for one in made if one.name == name)
        assert re.search(r"Recorded in \S+, with a clock of its own", found.text)
    assert re.search(r"by torch[^<]*, recorded in \S+<", text)


def test_a_snapshot_is_of_what_was_asked_for(tmp_path: Path, database_of: Callable) -> None:
    trace = CORPUS / "memory_snapshots" / "llm-training-step.pickle"
    made = pages.write(database_of(trace), tmp_path / "page.html", [trace])
    said = _head((tmp_path / "page.html").read_text("utf-8"))
    assert "6,688.4 MiB asked for by torch" in said and "allocated by torch" not in said
    (found,) = (one for one in made if one.name == "memory-fragments")
    peak = next(row for row in database_of(trace).dicts("from memory_fragmentation") if row["moment"] == "peak")
    assert peak["unused_bytes"] == peak["reserved_bytes"] - peak["requested_bytes"]
    assert "where that is empty, without what was requested" in found.text
