"""Kineto traces against their raw JSON, read with Python's json and decimal."""

import gzip
import json
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import corpus_files, corpus_params, quick
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database

Event = dict[str, Any]
TRACES = quick(4, corpus_params("kineto/*.json.gz"))


def events_of(path: Path) -> list[Event]:
    """Complete events with exact times in nanoseconds."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    trace = json.loads(raw, parse_float=Decimal, parse_int=Decimal)
    found = trace if isinstance(trace, list) else trace["traceEvents"]
    return [
        e | {"ns": int(e["ts"] * 1000), "dur_ns": int(e["dur"] * 1000)}
        for e in found
        if e.get("ph") == "X" and "dur" in e
    ]


def is_gpu_work(event: Event) -> bool:
    return event.get("cat", "").lower() in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")


@pytest.mark.parametrize("trace", TRACES)
def test_gpu_time_per_name_equals_the_raw_json(trace: Path, database_of: Callable[[Path], Database]) -> None:
    expected: dict[str, list[int]] = defaultdict(list)
    for event in filter(is_gpu_work, events_of(trace)):
        expected[event["name"]].append(event["dur_ns"])
    rows = database_of(trace).rows("select kernel_name, kernel_cnt, kernel_ns, min_ns, max_ns from kernel_summary")
    rows += database_of(trace).rows(
        "select operation_name, operation_cnt, operation_ns, min_ns, max_ns from memory_operation_summary"
    )
    assert {name: tuple(numbers) for name, *numbers in rows} == {
        name: (len(d), sum(d), min(d), max(d)) for name, d in expected.items()
    }


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.first(1)
def test_every_time_is_exact(trace: Path, database_of: Callable[[Path], Database]) -> None:
    kinds = ("cpu_op", "Operator", "user_annotation", "python_function")
    expected = Counter((e["name"], e["ns"], e["ns"] + e["dur_ns"]) for e in events_of(trace) if e.get("cat") in kinds)
    found = database_of(trace).rows("select text, start_ns, end_ns from range_instance")
    assert Counter(found) == expected
    expected = Counter((e["name"], e["ns"], e["ns"] + e["dur_ns"]) for e in events_of(trace) if is_gpu_work(e))
    assert (
        Counter(database_of(trace).rows("select kernel_name, kernel_start_time, kernel_end_time from launch_trace"))
        == expected
    )


@pytest.mark.parametrize("trace", TRACES)
def test_each_launch_has_the_correlation_of_its_work(trace: Path, database_of: Callable[[Path], Database]) -> None:
    calls = {
        (int(e["args"]["correlation"]), e["ns"])
        for e in events_of(trace)
        if "runtime" in e.get("cat", "").lower() or "driver" in e.get("cat", "")
        if "correlation" in e.get("args", {})
    }
    rows = database_of(trace).rows("select correlation_id, call_api_start_time from launch_trace")
    known = {correlation for correlation, _ in calls}
    assert all((c, t) in calls if t is not None else c not in known for c, t in rows)


def test_the_backward_phase_owns_what_was_launched_in_its_window(
    database_of: Callable[[Path], Database],
) -> None:
    """HTA's own sample: the annotation covers 57 µs of its thread, and 124,340 µs of what was launched meanwhile."""
    for trace in corpus_files("kineto/ddp-backward*.json.gz"):
        (row,) = database_of(trace).rows(
            "select direct_kernel_ns, gpu_op_ns from range_summary where name = '## backward ##'"
        )
        events = events_of(trace)
        windows = [e for e in events if e["name"] == "## backward ##" and e["cat"] == "user_annotation"]
        launched = {
            e["args"]["correlation"]
            for e in events
            if e["cat"] in ("cuda_runtime", "cuda_driver")
            and any(w["ns"] <= e["ns"] < w["ns"] + w["dur_ns"] for w in windows)
        }
        within = sum(e["dur_ns"] for e in events if is_gpu_work(e) and e["args"]["correlation"] in launched)
        assert within == 124_339_538
        assert row == (57_312, within)


@pytest.mark.parametrize("trace", TRACES)
def test_sequence_links_are_those_that_torch_drew_as_flows(
    trace: Path, database_of: Callable[[Path], Database]
) -> None:
    raw = json.loads(gzip.decompress(trace.read_bytes()), parse_float=Decimal, parse_int=Decimal)
    flows: dict[Any, dict[str, Any]] = defaultdict(dict)
    for event in raw if isinstance(raw, list) else raw["traceEvents"]:
        if event.get("cat") == "fwdbwd":
            flows[event["id"]][event["ph"]] = event
    drawn = {
        (int(f["f"]["tid"]), int(f["f"]["ts"] * 1000)): (int(f["s"]["tid"]), int(f["s"]["ts"] * 1000))
        for f in flows.values()
        if len(f) == 2
    }
    database = database_of(trace)
    nodes = database.rows(
        """select n.tid, n.start_ns, n.sequence_number, n.range_id from range_instance as n where is_backward"""
    )
    operators: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for sequence, start, tid in database.rows(
        "select sequence_number, start_ns, tid from range_instance "
        "where not is_backward and sequence_number is not null"
    ):
        operators[sequence].append((start, tid))
    linked = [(tid, start, sequence) for tid, start, sequence, _ in nodes if (tid, start) in drawn]
    for tid, start, sequence in linked:
        assert drawn[tid, start] == max(o for o in operators[sequence] if o[0] <= start)[::-1]
    assert len(linked) >= 0.9 * len(drawn), "the flows end at other places than backward nodes"


@pytest.mark.slow
def test_both_formats_of_one_run_give_the_same_numbers(
    synthetic_trace: Callable[..., Path], database_of: Callable[[Path], Database]
) -> None:
    for arguments in ({}, {"operators": False}, {"module_backward": True, "adapters": 3}):
        nsys, kineto = (database_of(synthetic_trace(f, steps=3, **arguments)) for f in ("nsys", "kineto"))
        for view, kept in {
            "range_summary": "* exclude (path_id, parent_path_id, source_id, rank)",
            "range_instance": "* exclude (range_id, text, style, parent_id, path_id, source_id, rank)",
            "unattributed": "* exclude (source_id)",
            "kernel_summary": "* exclude (source_id)",
            "launch_trace": "* exclude (kernel_name, api_call_id, range_id, gpu_op_id, source_id)",
        }.items():
            left, right = (sorted(map(repr, d.rows(f"select {kept} from {view}"))) for d in (nsys, kineto))
            assert left == right, view


@pytest.mark.long
def test_eight_ranks_lie_side_by_side(tmp_path: Path) -> None:
    for archive in corpus_files("kineto/eight-ranks*.tar.gz"):
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path, filter="data")
        folder = next(p for p in tmp_path.iterdir() if p.is_dir())
        with analyze([folder], tmp_path / "ranks.duckdb") as database:
            assert sorted(database.rows("select distinct rank from kernel_summary")) == [(r,) for r in range(8)]
            for rank, total in database.rows("select rank, sum(kernel_ns)::bigint from kernel_summary group by rank"):
                path = next(folder.glob(f"worker{rank}_*"))
                assert total == sum(e["dur_ns"] for e in events_of(path) if e.get("cat") == "kernel")
