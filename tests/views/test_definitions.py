"""Each report against its definition, worked out by plain loops over the operations of real and synthetic traces."""

import bisect
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import corpus_params, quick
from lorabench import sql
from lorabench.analyze.model.waits import KINDS
from lorabench.analyze.store import checks
from lorabench.analyze.store.database import Database

Row = dict[str, Any]
Key = tuple[Any, ...]

SYNTHETIC = [
    pytest.param(("nsys", {}), id="nsys"),
    pytest.param(("kineto", {"steps": 4, "layers": 3, "adapters": 3}), id="kineto"),
    pytest.param(("nsys", {"operators": False, "module_backward": True, "kernels_per_operator": 3}), id="modules"),
]
REAL = [*corpus_params("nsys/*.sqlite"), *corpus_params("kineto/*.json.gz")]


@pytest.fixture(scope="module", params=[*SYNTHETIC, *quick(5, REAL)])
def database(request: pytest.FixtureRequest, database_of: Callable, synthetic_trace: Callable) -> Database:
    return _opened(request.param, database_of, synthetic_trace)


def _opened(what: Any, database_of: Callable, synthetic_trace: Callable) -> Database:
    if isinstance(what, Path):
        return database_of(what)  # type: ignore[no-any-return]
    format, arguments = what
    return database_of(synthetic_trace(format, **arguments))  # type: ignore[no-any-return]


def rows(database: Database, statement: str) -> list[Row]:
    return database.query(statement).to_dicts()


@pytest.fixture(scope="module")
def operations(database: Database) -> list[Row]:
    """All GPU work with its class, in order of start."""
    found = rows(
        database,
        """select gpu_op.*, moved.* exclude gpu_op_id, name.text as name, range_path.path from gpu_op
        join name using (name_id) left join memory_operation as moved using (gpu_op_id)
        left join range using (range_id) left join range_path using (path_id) order by gpu_op.start_ns, gpu_op_id""",
    )
    rules = rows(database, "select * from kernel_class_rule order by priority")
    classes: dict[Key, str] = {}
    for op in found:
        key = op["kind"], op["name"], op["path"]
        op["class"] = classes[key] if key in classes else classes.setdefault(key, _class_of(op, rules))
    return found


def _class_of(op: Row, rules: list[Row]) -> str:
    if op["kind"] in ("memcpy", "memset"):
        return "copy"
    for rule in rules:
        text = without_arguments(op["name"]) if rule["subject"] == "kernel" else op["path"]
        if text is not None and re.search(rule["pattern"], text, re.IGNORECASE):
            return str(rule["class"])
    return "other"


def without_arguments(name: str) -> str:
    """A kernel's name up to the parenthesis that the last one closes."""
    if not name.removesuffix(" const").endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if name[at] == "(" and not depth:
            return name[:at]
    return name


def union(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches that the intervals cover; those that touch are one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(intervals: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in union(intervals))


def by_device(operations: list[Row]) -> Iterator[tuple[Any, list[Row]]]:
    found = defaultdict(list)
    for op in operations:
        found[op["device_id"]].append(op)
    yield from found.items()


def spans(operations: list[Row], *activities: str) -> list[tuple[int, int]]:
    return [(o["start_ns"], o["end_ns"]) for o in operations if activity(o) in activities]


def activity(op: Row) -> str:
    if op["kind"] in ("memcpy", "memset"):
        return "memory"
    return "communication" if op["class"] == "communication" else "compute"


@pytest.mark.first(6)
def test_gpu_timeline_summary(database: Database, operations: list[Row]) -> None:
    found = {r["device_id"]: r for r in rows(database, "from gpu_timeline_summary")}
    assert found.keys() == dict(by_device(operations)).keys()
    for device, ops in by_device(operations):
        row = found[device]
        busy = length(spans(ops, "compute", "communication", "memory"))
        compute = length(spans(ops, "compute"))
        active = length(spans(ops, "compute", "communication"))
        window = max(o["end_ns"] for o in ops) - min(o["start_ns"] for o in ops)
        assert (row["window_ns"], row["busy_ns"], row["idle_ns"]) == (window, busy, window - busy)
        assert (row["compute_ns"], row["memory_ns"]) == (compute, length(spans(ops, "memory")))
        assert row["communication_ns"] == length(spans(ops, "communication"))
        assert (row["exposed_communication_ns"], row["exposed_memory_ns"]) == (active - compute, busy - active)
        parts = ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
        assert sum(row[p] for p in parts) == row["window_ns"]


@pytest.mark.first(7)
def test_idle_gap(database: Database, operations: list[Row]) -> None:
    limits = dict(database.rows("select name, value from threshold"))
    threshold = limits["kernel_wait_ns"]
    statement = """select start_ns, end_ns, if(source.kind = 'kineto', null, process_id) as process_id
        from waiting_call as wait join thread using (source_id, thread_id) join source using (source_id)
        where wait.kind <> 'queue'"""
    expected, waits = [], rows(database, statement)
    behind_waits: dict[Key, int] = defaultdict(int)
    for device, ops in by_device(operations):
        stretches = union([(o["start_ns"], o["end_ns"]) for o in ops])
        first = {}
        for op in ops:
            first.setdefault(op["start_ns"], op)
        gaps = []
        for (_, start), (end, _) in pairwise(stretches):
            op = first[end]
            is_late = (op["launch_start_ns"] or -1) >= start
            waited = end - op["launch_end_ns"] if is_late else 0
            is_late = is_late and waited <= max(limits["late_launch_ns"], (end - start) / 2)
            is_over = op["kind"] in ("memcpy", "memset") and (op["launch_end_ns"] or end + 1) <= end
            if (op["kind"] == "kernel" or is_over) and op["launch_end_ns"] and op["launch_start_ns"] < start:
                is_late = op["launch_end_ns"] - start > (end - start) / 2 and end - start > threshold
            gaps.append((start, end, op, is_late))
        # as soon behind its launch as those that were launched in a gap
        ways = sorted(
            end - op["launch_start_ns"]
            for start, end, op, _ in gaps
            if op["kind"] == "kernel" and (op["launch_start_ns"] or -1) >= start
        )
        soon = 1.1 * ways[math.ceil(len(ways) / 10) - 1] if len(ways) >= 20 else 0
        for number, (start, end, op, is_host) in enumerate(gaps):
            if op["kind"] == "kernel" and end - start > limits["near_kernel_ns"] and op["launch_start_ns"] is not None:
                gaps[number] = (start, end, op, is_host or end - op["launch_start_ns"] <= soon)
        queued = [end - start for start, end, op, is_host in gaps if op["kind"] == "kernel" and not is_host]
        own = min(threshold, 2 * statistics.median(queued)) if len(queued) >= 20 else threshold
        for start, end, op, is_host in gaps:
            is_touched = op["launch_start_ns"] is None and "Unified Memory" in op["name"]
            cause = (
                "host" if is_host else "kernel_wait" if end - start <= own else "host" if is_touched else "dependency"
            )
            expected.append((device, start, end, cause, op["name"]))
            own_waits = [w for w in waits if w["start_ns"] < start and w["process_id"] == op["process_id"]]
            before = max(own_waits, key=lambda w: w["start_ns"], default=None)
            if cause == "host" and before and start - limits["clock_slack_ns"] <= before["end_ns"] <= end:
                behind_waits[device, cause] += end - start
    found = rows(database, "from idle_gap")
    key = ("device_id", "start_ns", "end_ns", "cause", "ended_by")
    assert sorted(tuple(r[k] for k in key) for r in found) == sorted(expected)
    sums: dict[Key, int] = defaultdict(int)
    for device, start, end, cause, _ in expected:
        sums[device, cause] += end - start
    summary = rows(database, "from idle_summary")
    assert {(r["device_id"], r["cause"]): r["idle_ns"] for r in summary} == sums
    behind = {(r["device_id"], r["cause"]): r["behind_wait_ns"] for r in summary if r["behind_wait_ns"]}
    assert behind == behind_waits
    # others name the call that lies over them, as nothing of its work is recorded
    named = [r for r in found if r["waited_in"] and r["cause"] == "host"]
    assert sum(r["idle_ns"] for r in named) == sum(behind.values())
    idle = {r["device_id"]: r["idle_ns"] for r in rows(database, "from gpu_timeline_summary")}
    assert all(sum(v for (d, _), v in sums.items() if d == device) == total for device, total in idle.items())


def test_kernel_class(database: Database, operations: list[Row]) -> None:
    expected: dict[Key, list[int]] = defaultdict(lambda: [0, 0])
    for op in operations:
        expected[op["class"], op["name"]][0] += 1
        expected[op["class"], op["name"]][1] += op["end_ns"] - op["start_ns"]
    found = rows(database, "from kernel_class")
    assert {(r["class"], r["kernel_name"]): [r["gpu_op_cnt"], r["gpu_op_ns"]] for r in found} == expected
    assert sum(r["gpu_op_frac"] for r in found) == pytest.approx(1 if found else 0)


@pytest.mark.first(6)
def test_launch_summary(database: Database, operations: list[Row], waits: dict[int, int]) -> None:
    expected: dict[Key, list[int]] = defaultdict(lambda: [0] * 7)
    for op in operations:
        if op["api_call_id"] is None:
            continue
        sums = expected[op["name"], op["kind"], op["device_id"]]
        sums[0] += op["is_first_op"]
        sums[1] += 1
        sums[2] += (op["launch_end_ns"] - op["launch_start_ns"]) * op["is_first_op"]
        sums[3] += max(0, op["start_ns"] - op["launch_end_ns"])
        sums[4] += op["start_ns"] - op["launch_start_ns"]
        sums[5] += op["end_ns"] - op["start_ns"]
        sums[6] += waits.get(op["api_call_id"], 0) * op["is_first_op"]
    found: dict[Key, list[int]] = defaultdict(lambda: [0] * 7)
    columns = ("launch_cnt", "gpu_op_cnt", "launch_api_ns", "queue_ns", "launch_latency_ns", "gpu_op_ns",
               "launch_wait_ns")  # fmt: skip
    for row in rows(database, "from launch_summary"):
        assert 0 <= row["launch_wait_ns"] <= row["launch_api_ns"]
        own = (row["launch_api_ns"] - row["launch_wait_ns"]) / row["launch_cnt"] if row["launch_cnt"] else 0
        assert (row["mean_api_ns"] or 0) == pytest.approx(own)
        sums = found[row["kernel_name"], row["kind"], row["device_id"]]
        for n, column in enumerate(columns):
            sums[n] += row[column]
    assert found == expected


def test_what_launches_of_ranges_and_steps_wait(database: Database, waits: dict[int, int]) -> None:
    expected: dict[int, int] = defaultdict(int)
    for pair in rows(
        database, "select distinct reached_range.range_id, api_call_id from reached_range join gpu_op using (gpu_op_id)"
    ):
        expected[pair["range_id"]] += waits.get(pair["api_call_id"], 0)
    found = rows(database, "select range_id, launch_api_ns, launch_wait_ns from range_instance where kind <> 'python'")
    assert {row["range_id"]: row["launch_wait_ns"] for row in found} == {
        row["range_id"]: expected.get(row["range_id"], 0) for row in found
    }
    for row in (*found, *rows(database, "from step_summary")):
        assert 0 <= row["launch_wait_ns"] <= row["launch_api_ns"]
        assert row.get("step") is None or row["range_id"] is None or row["launch_wait_ns"] == expected[row["range_id"]]


def test_launch_outlier(database: Database, operations: list[Row], waits: dict[int, int]) -> None:
    limits = dict(database.rows("select name, value from threshold"))
    expected = []
    for op in (o for o in operations if o["is_first_op"]):
        api, run = op["launch_end_ns"] - op["launch_start_ns"], op["end_ns"] - op["start_ns"]
        api -= waits.get(op["api_call_id"], 0)
        queue = max(0, op["start_ns"] - op["launch_end_ns"])
        if op["kind"] == "kernel" and run < api and run < limits["short_kernel_ns"]:
            expected.append((op["gpu_op_id"], "shorter than its launch", api - run))
        if api > limits["slow_api_ns"]:
            expected.append((op["gpu_op_id"], "slow call", api))
        if queue > limits["late_launch_ns"]:
            expected.append((op["gpu_op_id"], "waited long", queue))
    found = [(r["gpu_op_id"], r["outlier"], r["cost_ns"]) for r in rows(database, "from launch_outlier")]
    assert sorted(found) == sorted(expected)


def bins(database: Database, operations: list[Row]) -> list[tuple[int, int]]:
    ((count,),) = database.rows("select value::integer from threshold where name = 'time_bin_cnt'")
    first, last = min(o["start_ns"] for o in operations), max(o["end_ns"] for o in operations)
    borders = [first + (last - first) * n // count for n in range(count + 1)]
    return list(pairwise(borders))


@pytest.mark.first(3)
def test_utilisation_over_time(database: Database, operations: list[Row]) -> None:
    found = {(r["device_id"], r["bin"]): r for r in rows(database, "from utilisation_over_time")}
    for device, ops in by_device(operations):
        for column, kinds in (("busy_ns", ("compute", "communication", "memory")), ("compute_ns", ("compute",)),
                              ("communication_ns", ("communication",)), ("memory_ns", ("memory",))):  # fmt: skip
            stretches = union(spans(ops, *kinds))
            for number, (start, end) in enumerate(bins(database, operations)):
                inside = sum(max(0, min(e, end) - max(s, start)) for s, e in stretches)
                assert found[device, number][column] == inside
                assert (found[device, number]["start_ns"], found[device, number]["end_ns"]) == (start, end)


@pytest.mark.first(6)
def test_queue_length(database: Database, operations: list[Row]) -> None:
    if not operations:
        assert database.rows("from queue_length") == []
        return
    found = {(r["device_id"], r["stream_id"], r["bin"]): r["waiting_ns"] for r in rows(database, "from queue_length")}
    streams = {(o["device_id"], o["stream_id"]) for o in operations}
    cut = bins(database, operations)
    assert len(found) == len(streams) * len(cut)
    expected: dict[Key, int] = defaultdict(int)
    for op in operations:
        if op["launch_end_ns"] is not None and op["launch_end_ns"] < op["start_ns"]:
            for number, (start, end) in enumerate(cut):
                waited = min(op["start_ns"], end) - max(op["launch_end_ns"], start)
                if waited > 0:
                    expected[op["device_id"], op["stream_id"], number] += waited
    assert {k: v for k, v in found.items() if v} == expected


@pytest.mark.first(1)
def test_memory_bandwidth(database: Database, operations: list[Row]) -> None:
    expected: dict[Key, float] = defaultdict(float)
    for op in operations:
        if op["kind"] not in ("memcpy", "memset") or op["bytes"] is None:
            continue
        for number, (start, end) in enumerate(bins(database, operations)):
            key = (op["device_id"], op["copy_kind"] or "memset", number)
            duration = op["end_ns"] - op["start_ns"]
            overlap = min(op["end_ns"], end) - max(op["start_ns"], start)
            if duration and overlap > 0:
                expected[key] += op["bytes"] * overlap / duration
            if not duration and start <= op["start_ns"] < end:
                expected[key] += op["bytes"]
    found = {
        (r["device_id"], r["copy_kind"], r["bin"]): r["moved_bytes"] for r in rows(database, "from memory_bandwidth")
    }
    assert found == pytest.approx(expected)


def test_step_summary(database: Database, operations: list[Row]) -> None:
    ranges = {r["range_id"]: r for r in rows(database, "select * from range_instance")}
    found = rows(database, "from step_summary")
    pattern = re.compile(r"(step|iter|iteration)[ #_:]+([0-9]+)$", re.IGNORECASE)
    numbered = {
        (r["range_id"], int(m[2]))
        for r in ranges.values()
        if r["kind"] == "annotation" and (m := pattern.search(r["text"]))
    }
    if numbered:
        assert {(r["range_id"], r["step"]) for r in found} <= numbered and {r["found_by"] for r in found} == {
            "annotation"
        }
    assert len({r["found_by"] for r in found}) <= 1
    words = {"data": "data", "h2d": "h2d", "forward": "forward", "## forward ##": "forward", "backward": "backward",
             "## backward ##": "backward"}  # fmt: skip
    for row in found:
        if row["range_id"] is None:
            mine = [
                o for o in operations
                if row["start_ns"] <= (o["launch_start_ns"] or o["start_ns"]) < row["start_ns"] + row["wall_ns"]
            ]  # fmt: skip
            assert row["kernel_ns"] == sum(o["end_ns"] - o["start_ns"] for o in mine if o["kind"] == "kernel")
            assert row["launch_cnt"] == sum(bool(o["is_first_op"]) for o in mine)
            continue
        step = ranges[row["range_id"]]
        inside = defaultdict(int)
        for r in ranges.values():
            is_inside = r["start_ns"] >= step["start_ns"] and r["end_ns"] <= step["end_ns"]
            if r["kind"] == "annotation" and r["name"] in words and r["tid"] == step["tid"] and is_inside:
                inside[words[r["name"]]] += r["wall_ns"]
        for phase, wall_ns in inside.items():
            assert row[f"{phase}_ns"] == wall_ns
        assert row["wall_ns"] == step["wall_ns"]
        assert row["kernel_ns"] == step["kernel_ns"] and row["launch_overhead_ns"] == step["launch_overhead_ns"]


def test_nvtx_projection(database: Database) -> None:
    ranges = {r["range_id"]: r for r in rows(database, "from range_instance") if r["gpu_op_cnt"]}
    found = {r["range_id"]: r for r in rows(database, "from nvtx_projection")}
    assert found.keys() == ranges.keys()
    for key, row in found.items():
        assert row["gpu_span_ns"] == ranges[key]["gpu_span_ns"]
        assert row["proj_end_ns"] - row["proj_start_ns"] == row["gpu_span_ns"]


def test_memory_copy(database: Database, operations: list[Row]) -> None:
    names = dict(database.rows("select api_call_id, text from api_call join name using (name_id)"))
    found = {r["gpu_op_id"]: r for r in rows(database, "from memory_copy")}
    copies = [o for o in operations if o["kind"] in ("memcpy", "memset")]
    assert found.keys() == {o["gpu_op_id"] for o in copies}
    groups: dict[Key, list[tuple[int, int | None, bool, bool]]] = defaultdict(list)
    for op in copies:
        api = names.get(op["api_call_id"], "")
        duration = op["end_ns"] - op["start_ns"]
        pageable = "async" in api.lower() and "Pageable" in (op["src_kind"], op["dst_kind"]) and op["kind"] == "memcpy"
        blocking = "async" not in api.lower() and ("memcpy" in api.lower() or "memset" in api.lower())
        if op["kind"] == "memset":
            blocking = blocking and op["dst_kind"] in ("Pinned", "Managed", "Managed Static")
        elif op["copy_kind"] == "DtoD" or (op["copy_kind"] == "HtoD" and (op["bytes"] or 0) <= 65536):
            blocking = False
        row = found[op["gpu_op_id"]]
        assert (row["is_pageable_async"], row["is_blocking"]) == (pageable, blocking)
        is_known = op["bytes"] is not None  # AMD's traces have copies without a number of bytes
        assert row["bandwidth_bytes"] == (op["bytes"] * 1e9 / duration if duration and is_known else None)
        groups[op["name"], op["src_kind"], op["dst_kind"]].append((duration, op["bytes"], pageable, blocking))
    summary = {(r["name"], r["src_kind"], r["dst_kind"]): r for r in rows(database, "from memory_copy_summary")}
    assert summary.keys() == groups.keys()
    for key, row in summary.items():
        durations, sizes, pageable_async, are_blocking = zip(*groups[key], strict=True)
        sized = [(size, duration) for duration, size in zip(durations, sizes, strict=True) if size is not None]
        moved, took = map(sum, zip(*sized, strict=True)) if sized else (None, 0)
        assert (row["gpu_op_cnt"], row["gpu_op_ns"], row["bytes"]) == (len(durations), sum(durations), moved)
        assert (row["pageable_async_cnt"], row["blocking_cnt"]) == (sum(pageable_async), sum(are_blocking))
        assert row["bandwidth_bytes"] == (moved * 1e9 / took if sized and took else None)


FREES = r"(cu|cuda|hip)(Mem)?(Free|Host(Free|Unregister)|Malloc|Alloc|HostAlloc|HostRegister|ModuleUnload)"


def _lasts(call: Row, op: Row) -> bool:
    """Whether a call lasts until its copy is done, as far as clocks tell, or filled staging buffers for most of it."""
    later = op["end_ns"] - call["end_ns"]
    if op["copy_kind"] == "HtoD" and op["src_kind"] == "Pageable" and (op["bytes"] or 0) > 65536:
        return bool(later <= (op["end_ns"] - op["start_ns"]) // 2)
    return bool(later <= min((call["end_ns"] - call["start_ns"]) // 50, 10_000))


@pytest.fixture(scope="module")
def waiting(database: Database, operations: list[Row]) -> list[tuple[Row, int, int]]:
    """(call, begin, end) of every wait of the CPU for the GPU."""
    calls = rows(
        database, "select api_call.*, name.text as api from api_call join name using (name_id) where not is_duplicate"
    )
    limits = dict(database.rows("select name, value from threshold"))
    of_call: dict[int, list[Row]] = defaultdict(list)
    streams: dict[Key, list[Row]] = defaultdict(list)
    for op in operations:
        of_call[op["api_call_id"]].append(op)
        streams[op["source_id"], op["device_id"], op["stream_id"]].append(op)
    ends = []  # of all that was launched so far, in order of launches: the latest
    for op in sorted(
        (op for op in operations if op["launch_start_ns"] is not None), key=lambda op: op["launch_start_ns"]
    ):
        ends.append((op["launch_start_ns"], max(op["end_ns"], ends[-1][1] if ends else 0)))
    least = 1000 * limits["full_queue_cnt"]
    late = {
        op["api_call_id"] for op in operations
        if op["is_first_op"] and op["launch_end_ns"] is not None and op["start_ns"] - op["launch_end_ns"] >= least
    }  # fmt: skip
    usual: dict[Key, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for call in calls:
        usual[call["source_id"], call["api"]][call["api_call_id"] in late].append(call["end_ns"] - call["start_ns"])
    medians = {
        key: statistics.median(soon) if len(soon) >= 10 else min(10_000, float(np.quantile(soon + slow, 0.05)))
        for key, (soon, slow) in usual.items()
    }
    pending = {}  # of what may wait until memory is no longer used: the end of what is queued
    for call in calls:
        if re.match(FREES, call["api"]) and "async" not in call["api"].lower():
            queued_end = max(
                (end for start, end in ends[: bisect.bisect_left(ends, (call["start_ns"], 0))][-1:]), default=0
            )
            if queued_end > call["start_ns"]:
                pending[call["api_call_id"]] = queued_end
    returns = defaultdict(list)
    for call in calls:
        if call["api_call_id"] in pending:
            returns[call["source_id"], call["api"]].append(call["end_ns"] >= pending[call["api_call_id"]])
    found = []
    for call in calls:
        begin, end = call["start_ns"], call["end_ns"]
        ops = of_call.get(call["api_call_id"], [])
        moved = [
            op for op in ops
            if op["kind"] in ("memcpy", "memset") and _lasts(call, op)
            and re.search("memcpy|memset", call["api"], re.I)
            and not (re.search("async", call["api"], re.I) and op["copy_kind"] in ("DtoD", "PtoP"))
        ]  # fmt: skip
        done = max((min(op["end_ns"], end) for op in moved), default=end + 1)
        if re.match(r"(cu|cuda|hip)(Device|Ctx|Context|Stream|Event)Synchronize", call["api"]):
            found.append((call, begin, end))
        elif begin < done <= end:
            found.append((call, begin, done))
        elif call["api_call_id"] in pending:
            queued_end, of_name = pending[call["api_call_id"]], returns[call["source_id"], call["api"]]
            always = len(of_name) >= 3 and sum(of_name) >= 0.95 * len(of_name)
            is_soon = queued_end <= end and (always or end <= queued_end + 20_000)
            if is_soon and 2 * (queued_end - begin) >= end - begin:
                found.append((call, begin, queued_end))
        if not ops:
            continue
        median = medians[call["source_id"], call["api"]]
        queued = [op for op in ops[:1] if op["start_ns"] - end >= 1000 * limits["full_queue_cnt"]]
        if end - begin < 1.25 * median or not queued:
            continue
        stream = streams[queued[0]["source_id"], queued[0]["device_id"], queued[0]["stream_id"]]
        ahead = stream.index(queued[0]) - sum(op["end_ns"] <= begin for op in stream)
        if ahead + 1 >= limits["full_queue_cnt"]:
            found.append((call, begin + round(median), end))
    return found


@pytest.fixture(scope="module")
def waits(waiting: list[tuple[Row, int, int]]) -> dict[int, int]:
    """How long each call waits."""
    found: dict[int, int] = defaultdict(int)
    for call, begin, end in waiting:
        found[call["api_call_id"]] = max(found[call["api_call_id"]], end - begin)
    return found


def test_sync_summary(database: Database, waiting: list[tuple[Row, int, int]]) -> None:
    ranges = defaultdict(list)
    for r in rows(
        database, "select range.*, path from range join range_path using (path_id) where range.kind <> 'python'"
    ):
        ranges[r["thread_id"]].append(r)
    expected: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    for call, begin, end in waiting:
        around = [r for r in ranges[call["thread_id"]] if r["start_ns"] <= begin and r["end_ns"] >= end]
        path = max(around, key=lambda r: (r["start_ns"], r["depth"]))["path"] if around else None
        sums = expected[call["api"], path]
        sums[0], sums[1], sums[2] = sums[0] + 1, sums[1] + end - begin, max(sums[2], end - begin)
    found: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    for r in rows(database, "from sync_summary"):  # a call may be of two kinds
        sums = found[r["api_name"], r["path"]]
        sums[0], sums[1], sums[2] = sums[0] + r["call_cnt"], sums[1] + r["call_ns"], max(sums[2], r["max_ns"])
    assert found == expected


def test_work_that_no_rule_knows_is_little(database: Database) -> None:
    other = "select sum(gpu_op_ns) filter (class = 'other') / sum(gpu_op_ns) from kernel_class"
    assert (database.rows(other)[0][0] or 0) < 0.05


def test_operators_have_no_less_than_what_they_launch(database: Database) -> None:
    wrong = "select * from _operator_gpu where backward_gpu_ns < 0 or self_gpu_ns not between 0 and gpu_ns"
    assert database.rows(wrong) == []


@pytest.mark.first(7)
def test_tables_equal_the_views_that_define_them(database: Database) -> None:
    tables = ("matched_collective", "path_busy", "path_measure", "range_measure", "set_work", "waiting_call")
    assert checks.definitions(database) == dict.fromkeys(tables, (0, ""))


def test_each_kind_of_wait_that_an_input_may_have_is_looked_for() -> None:
    (defined,) = (view for view in sql.in_folder(sql.DEFINITIONS) if view.name == "defined_waiting_call")
    assert re.findall(r"from (\w+)", defined.statement) == list(KINDS)


IDLE_RULES = (
    "compiling_or_loading", "late_input", "blocking_copy", "pageable_async_copy", "synchronisation", "long_idle_gap",
    "long_dependency", "unified_memory", "launch_bound_range", "unrecorded_graph", "unrecorded_work",
)  # fmt: skip


@pytest.mark.first(5)
def test_findings_blame_each_nanosecond_once(database: Database) -> None:
    """What rules that speak of idle time save together is the idle time that they are blamed for, and no more."""
    devices = dict(database.rows("select source_id, count(distinct device_id) from gpu_op group by all"))
    gaps = {(r["source_id"], r["device_id"], r["gpu_op_id"]): r["idle_ns"] for r in rows(database, "from idle_gap")}
    blamed = rows(database, "from _blamed_gap")
    assert {(r["source_id"], r["device_id"], r["gpu_op_id"]): r["idle_ns"] for r in blamed} == gaps
    assert len(blamed) == len(gaps)
    assert {r["rule"] for r in blamed} <= {*IDLE_RULES, None}
    assert {r["rule"] for r in blamed if r["cause"] == "kernel_wait"} <= {None}
    for source_id, device_cnt in devices.items():
        ((idle,),) = database.rows(  # what lies before the first work counts, too, where a step begins with it
            f"select coalesce(sum(idle_ns), 0) from _judged_gap where source_id = {source_id} and rule is not null"
        )
        saved = database.rows(
            f"select sum(saving_ns) from _finding where source_id = {source_id} and rule in {IDLE_RULES}"
        )[0][0]
        assert (saved or 0) <= idle / device_cnt + 1


def test_exposed_time_is_what_nothing_hides(database: Database) -> None:
    summary = rows(database, "from gpu_timeline_summary")
    for activity, column in (("memory", "exposed_memory_ns"), ("communication", "exposed_communication_ns")):
        exposed: dict[Key, int] = defaultdict(int)
        for row in rows(database, f"from _exposed where activity = '{activity}'"):
            assert row["exposed_ns"] >= 0
            exposed[row["source_id"], row["device_id"]] += row["exposed_ns"]
        assert {k: v for k, v in exposed.items() if v} == {
            (r["source_id"], r["device_id"]): r[column] for r in summary if r[column]
        }


def test_finding(database: Database) -> None:
    """Every finding says where, why and what to do; in the order of the answer, of a rule the largest saving first."""
    found = rows(database, "from finding")
    window = dict(database.rows("select source_id, end_ns - start_ns from _steady_time"))  # where no device works
    window |= dict(database.rows("select source_id, avg(window_ns) from steady_state group by source_id"))
    for source_id in window:
        mine = [row for row in found if row["source_id"] == source_id]
        listed = list(dict.fromkeys(row["rule"] for row in mine if row["saving_ns"] is not None))
        asked = database.rows(f"select rule, saving_ns from _answer_rule where source_id = {source_id}")
        answered = dict(asked)
        assert listed == sorted(listed, key=lambda rule: (-(answered[rule] or 0), rule))
        for rule in {row["rule"] for row in mine}:
            savings = [-1 if row["saving_ns"] is None else row["saving_ns"] for row in mine if row["rule"] == rule]
            assert savings == sorted(savings, reverse=True)
    for row in found:
        assert row["evidence"] and row["advice"]
        if row["saving_ns"] is None:
            levels = {"uneven_steps": "low", "dominant_kernel": "medium", "unrecorded_graph": "high",
                      "unrecorded_work": "high"}  # fmt: skip
            assert row["severity"] == levels[row["rule"]]
            continue
        assert 0 < row["saving_ns"] <= window[row["source_id"]]
        assert row["saving_frac"] == pytest.approx(row["saving_ns"] / window[row["source_id"]], abs=1e-6)
        assert row["severity"] == (
            "high" if row["saving_frac"] >= 0.1 else "medium" if row["saving_frac"] >= 0.02 else "low"
        )
    for source_id, (start, end) in {
        r["source_id"]: (r["start_ns"], r["end_ns"]) for r in rows(database, "from _steady_time")
    }.items():
        steps = [
            r for r in rows(database, "from step_summary")
            if r["source_id"] == source_id and r["found_by"] != "period"  # what differs may be another layer
        ]  # fmt: skip
        edges = {pick(r["start_ns"] for r in steps) for pick in (min, max)} if steps else set()
        longer = sum(
            r["wall_ns"] - r["wall_ns"] / (1 + r["slower_frac"])
            for r in steps
            if r["is_uneven"] and r["start_ns"] >= start and r["start_ns"] not in edges
        )
        is_listed = any(r["rule"] == "uneven_steps" and r["source_id"] == source_id for r in found)
        assert is_listed == (len(steps) >= 5 and longer >= 0.02 * (end - start) > 0)


@pytest.fixture(scope="module", params=[*SYNTHETIC, *corpus_params("nsys/fsdp*"), *corpus_params("kineto/ddp-back*")])
def some(request: pytest.FixtureRequest, database_of: Callable, synthetic_trace: Callable) -> Database:
    return _opened(request.param, database_of, synthetic_trace)


@pytest.mark.parametrize("view", [v.name for v in sql.load() if v.is_public])
def test_a_view_gives_the_same_rows_each_time(some: Database, view: str) -> None:
    assert some.view(view).equals(some.view(view))


def test_kernels_are_blamed_once_and_for_no_more_than_their_time(database: Database) -> None:
    """Rules about kernels share what kernels take of the critical path: each kernel is one rule's, or nobody's."""
    blamed = rows(database, "from _blamed_kernel")
    assert len({r["gpu_op_id"] for r in blamed}) == len(blamed)
    ran = dict(database.rows("select gpu_op_id, end_ns - start_ns from gpu_op where kind = 'kernel'"))
    assert all(0 < r["critical_ns"] <= ran[r["gpu_op_id"]] for r in blamed)
    by_rule: dict[Key, float] = defaultdict(float)
    for r in blamed:
        by_rule[r["source_id"], r["rule"]] += r["critical_ns"] * (
            r["gain_frac"] if r["rule"] == "float32_matmul" else 1
        )
    rules = "('math_attention', 'float32_matmul', 'layout_conversion', 'unfused_elementwise', 'recomputation')"
    found = database.rows(f"select source_id, rule, sum(saving_ns) from _finding where rule in {rules} group by all")
    assert {(s, r): ns for s, r, ns in found} == {k: pytest.approx(v) for k, v in by_rule.items() if k[1]}
