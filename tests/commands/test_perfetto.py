"""--perfetto: each slice of the database to the nanosecond, on tracks that nest, arrows from calls to their work."""

import gzip
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, corpus_params, quick
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.store.database import Database
from lorabench.reports import perfetto
from simulated_ranks import Job, simulate

FIXTURES = ROOT / "fixtures"
TRACES = [
    FIXTURES / "lora-run.json.gz", FIXTURES / "lora-run.sqlite", FIXTURES / "h200-batch" / "trace.json.gz",
    *quick(2, [*corpus_params("nsys/*.sqlite"), *corpus_params("kineto/*.json.gz")]),
]  # fmt: skip
Event = dict[str, Any]


def ns(us: float) -> int:
    return round(us * 1000)


def by_track(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


@pytest.fixture(scope="module", params=TRACES, ids=lambda path: path.name)
def export(request: Any, database_of: Callable[[Path], Database], tmp_path_factory: pytest.TempPathFactory) -> Any:
    database = database_of(request.param)
    path = tmp_path_factory.mktemp("perfetto") / "trace.json.gz"
    perfetto.write(database, path)
    return database, json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def test_every_slice_is_there_to_the_nanosecond(export: tuple[Database, list[Event]]) -> None:
    database, events = export
    found = Counter((event["cat"], event["name"], ns(event["dur"])) for event in events if event["ph"] == "X")
    for statement in (
        "select kind::varchar, text, end_ns - start_ns from gpu_op join name using (name_id)",
        "select kind::varchar, text, end_ns - start_ns from range join name on name.name_id = range.text_id",
        "select 'call', text, end_ns - start_ns from api_call join name using (name_id) where not is_duplicate",
        "select 'idle', replace(rule, '_', ' '), end_ns - start_ns from _blamed_gap where rule is not null",
    ):
        found.subtract(Counter(database.rows(statement)))
    assert not +found and not -found


def test_slices_of_a_track_nest(export: tuple[Database, list[Event]]) -> None:
    for track in by_track(export[1]).values():
        open_ends: list[int] = []
        for begin, length in sorted(((ns(e["ts"]), ns(e["dur"])) for e in track), key=lambda one: (one[0], -one[1])):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or begin + length <= open_ends[-1]
            open_ends.append(begin + length)


def test_an_arrow_leads_from_each_call_to_its_first_work(export: tuple[Database, list[Event]]) -> None:
    database, events = export
    begins = {
        (*track, ns(slice["ts"])): slice["cat"] for track, slices in by_track(events).items() for slice in slices
        if slice["cat"] in ("call", "kernel", "memcpy", "memset", "graph")
    }  # fmt: skip
    arrows = [event for event in events if event["ph"] in "sf"]
    for event in arrows:
        category = begins[event["pid"], event["tid"], ns(event["ts"])]
        assert (category == "call") == (event["ph"] == "s")
    ((expected,),) = database.rows(
        "select count(*) from gpu_op join api_call using (api_call_id) where is_first_op and not is_duplicate"
    )
    assert len(arrows) == 2 * expected and len({event["id"] for event in arrows}) == expected


def test_counters_are_the_views(export: tuple[Database, list[Event]]) -> None:
    database, events = export
    shares = [event["args"]["busy"] for event in events if event["ph"] == "C" and event["name"] == "busy %"]
    expected = database.rows("select busy_frac from utilisation_over_time where end_ns > start_ns")
    assert sorted(shares) == pytest.approx(sorted(100 * share for (share,) in expected), abs=1e-3)
    last = {e["name"]: e for e in events if e["ph"] == "C" and e["name"] == "MiB"}
    assert bool(last) == bool(database.rows("select 1 from memory_by_category where time_ns is not null limit 1"))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=25))
def test_lanes_nest_and_a_second_one_is_taken_for_what_does_not_alone(slices: list[tuple[int, int]]) -> None:
    rows = sorted(((begin, begin + length) for begin, length in slices), key=lambda row: (row[0], -row[1]))
    chosen = perfetto.lanes([row[0] for row in rows], [row[1] for row in rows])

    def crosses(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one[0] < other[0] < one[1] < other[1] or other[0] < one[0] < other[1] < one[1]

    for at, lane in enumerate(chosen):
        assert not any(crosses(rows[at], rows[n]) for n in range(len(rows)) if chosen[n] == lane)
        for lower in range(lane):
            assert any(crosses(rows[at], rows[n]) for n in range(at) if chosen[n] == lower)


@pytest.mark.slow
def test_ranks_stand_beside_each_other_on_one_clock(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    simulate(Job(ranks=2, ranks_per_host=1, steps=3, offsets=(0, 25_000_000))).write(tmp_path / "ranks")
    said = run_command("report", tmp_path / "ranks", "--perfetto", tmp_path / "x.json").out
    assert said == f"wrote {tmp_path / 'x.json'}; ui.perfetto.dev opens it\n" and not Path("report.html").exists()
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    named = {e["args"]["name"].split(",")[0] for e in events if e["name"] == "process_name"}
    assert {"CPU of rank 0 on node0", "GPU 0 of rank 0 on node0", "CPU of rank 1 on node1"} <= named
    slices = [event for track in by_track(events).values() for event in track]
    assert min(event["ts"] for event in slices) == 0
    # a collective ends for all at once
    ends = sorted(ns(event["ts"] + event["dur"]) for event in slices if "AllReduce" in event["name"])
    assert len(ends) == 6 and max(later - end for end, later in zip(ends[::2], ends[1::2], strict=True)) < 1_000_000


@pytest.mark.slow
def test_names_stay_names(
    tmp_path: Path, run_command: Callable[..., Any], synthetic_trace: Callable[..., Path]
) -> None:
    name = 'a"}]\n\x1b[31m</script>\\é'
    trace = json.loads(synthetic_trace("kineto").read_text())
    next(event for event in trace["traceEvents"] if event.get("cat") == "kernel")["name"] = name
    (tmp_path / "odd.json").write_text(json.dumps(trace))
    run_command("report", tmp_path / "odd.json", "--perfetto", tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text("ascii")
    assert "\x1b" not in text and any(name in e["name"] for e in json.loads(text)["traceEvents"])


def test_it_is_no_trace_that_is_read_again(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    shutil.copy(ROOT / "fixtures" / "lora-run.sqlite", tmp_path)
    made = tmp_path / "perfetto.json.gz"
    run_command("report", tmp_path, "--perfetto", made)
    assert run_command("query", tmp_path, "select count(*) as n from source", "--json").out.strip() == '[{"n":1}]'
    assert "give the trace that it was made of" in run_command("summary", made, code=3).err


@pytest.mark.parametrize("name", ["x.html", "x.pftrace", "x"])
def test_another_suffix_is_one_line(name: str, tmp_path: Path, run_command: Callable[..., Any]) -> None:
    said = run_command("report", FIXTURES / "lora-run.json.gz", "--perfetto", tmp_path / name, code=2).err
    assert said == f"lorabench: --perfetto {tmp_path / name}: write to a .json or .json.gz\n"
    assert not (tmp_path / name).exists()


def test_two_runs_are_no_recording(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text("{}")
    said = run_command("report", tmp_path / "a", tmp_path / "b", "--perfetto", tmp_path / "x.json", code=2).err
    assert said.startswith("lorabench: --perfetto shows one recording")
