"""Memory over time and at its peak, against loops over the events."""

import gzip
import json
import random
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from brute_force import check_categories
from conftest import ROOT, corpus_params, dear, opened, quick
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database

BEFORE = "(before the recording)"
Event = dict[str, Any]


def by_loops(events: list[Event]) -> dict[tuple[str, str | None], int]:
    """(device, path) -> bytes live at the peak, from the raw events."""
    memory = [e for e in events if e.get("name") == "[memory]"]
    spans = [e for e in events if e.get("cat") == "user_annotation" and e.get("ph") == "X"]
    found: dict[tuple[str, str | None], int] = defaultdict(int)

    def device(e: Event) -> str:
        return "cpu" if e["args"]["Device Type"] == 0 else f"cuda:{e['args']['Device Id']}"

    def path(e: Event) -> str | None:
        around = [
            s
            for s in spans
            if (s["pid"], s["tid"]) == (e["pid"], e["tid"]) and s["ts"] <= e["ts"] <= s["ts"] + s["dur"]
        ]
        around.sort(key=lambda s: (s["ts"], -s["dur"]))
        return "/".join(s["name"] for s in around) or None

    for name in {device(e) for e in memory}:
        mine = sorted((e for e in memory if device(e) == name), key=lambda e: (e["ts"], e["args"]["Bytes"]))
        peak = max(range(len(mine)), key=lambda n: (mine[n]["args"]["Total Allocated"], -mine[n]["ts"]))
        live: dict[int, Event] = {}
        for e in [e for e in mine if e["ts"] <= mine[peak]["ts"]]:
            live.pop(e["args"]["Addr"], None)
            if e["args"]["Bytes"] > 0:
                live[e["args"]["Addr"]] = e
        for e in live.values():
            found[name, path(e)] += e["args"]["Bytes"]
        known = sum(e["args"]["Bytes"] for e in live.values())
        found[name, BEFORE] += mine[peak]["args"]["Total Allocated"] - known
    return {key: value for key, value in found.items() if value}


def peak_of(database: Database) -> dict[tuple[str, str | None], int]:
    rows = database.rows("select device, path, sum(live_bytes) from memory_peak group by all")
    return {(device, path): int(size) for device, path, size in rows}


@pytest.mark.parametrize("seed", quick(4, range(12)))
@pytest.mark.first(1)
def test_what_was_live_at_the_peak_is_found(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    events: list[Event] = []
    for name, start, length in (("step", 0, 900), ("forward", 10, 300), ("lora_A", 20, 50), ("backward", 400, 300)):
        events.append(
            {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}
        )
    events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 30, "dur": 200})
    events.append({"ph": "X", "cat": "user_annotation", "name": "other", "pid": 1, "tid": 2, "ts": 5, "dur": 500})
    live: dict[int, int] = {}
    total = {0: 5000, 1: 70_000}
    for time in sorted(draw.sample(range(1000), 60)):
        kind = draw.randint(0, 1)
        if live and draw.random() < 0.45:
            address = draw.choice(list(live))
            kind, size = address % 2, -live.pop(address)
        else:
            address, size = 2 * draw.randint(1, 10_000) + kind, 8 * draw.randint(1, 50)
            if address in live:
                continue
            live[address] = size
        total[kind] += size
        args = {"Device Type": kind, "Device Id": 0 if kind else -1, "Bytes": size, "Addr": address,
                "Total Allocated": total[kind], "Total Reserved": 100_000}  # fmt: skip
        event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "ts": time, "args": args}
        events.append(event | {"tid": draw.choice((1, 2, 3))})
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert peak_of(database) == by_loops(events)
        check_categories(database)
        assert database.rows("select count(*) from memory_timeline where time_ns < 0") == [(0,)]
        assert database.rows("select sum(live_bytes) - any_value(peak_bytes) from memory_peak group by device") == [
            (0,) for _ in range(len({key[0] for key in peak_of(database)}))
        ]


@pytest.mark.parametrize("has_totals", [True, False])
@pytest.mark.first(1)
def test_without_totals_it_is_said_that_what_was_there_is_not_counted(
    has_totals: bool, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    """Old traces of torch.profiler have sizes alone."""
    events = []
    for number in range(4):
        args = {"Device Type": 1, "Device Id": 0, "Bytes": 1 << 20, "Addr": number + 1}
        args |= {"Total Allocated": (50 + number) << 20} if has_totals else {}
        events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": number,
                       "args": args})  # fmt: skip
    work = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 5,
            "args": {"device": 0, "stream": 7}}  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [*events, work]}), "utf-8")
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert bool(database.rows("from _memory_from_zero")) != has_totals
    run_command("report", path, "-o", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    assert ("allocated by torch since the recording began" in text) != has_totals
    assert ("53.0 MiB" if has_totals else "4.0 MiB") in text


@pytest.mark.parametrize("lost", [0, 4096])
def test_threads_that_are_timed_in_another_order_than_counted_make_no_memory_negative(
    lost: int, tmp_path: Path
) -> None:
    """Of two that allocate at once the total of the one counted first stands at the later time. What is lost stays."""
    events: list[Event] = []
    total, expected = 0, []
    for number in range(60):
        for tid, size in ((1, 4096), (2, 512 + number)):
            total += size + (lost if (number, tid) == (30, 1) else 0)
            args = {
                "Device Type": 0,
                "Device Id": -1,
                "Bytes": size,
                "Addr": 4096 * (2 * number + tid),
                "Total Allocated": total,
            }
            events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": tid,
                           "ts": 10 * number + tid, "args": args})  # fmt: skip
    for first, second in ((20, 21), (70, 71)):
        events[first]["ts"], events[second]["ts"] = events[second]["ts"], events[first]["ts"]
    events.sort(key=lambda event: event["ts"])
    for place, event in enumerate(events):
        expected.append(sum(e["args"]["Bytes"] for e in events[: place + 1]) + (lost if event["ts"] > 300 else 0))
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([path], tmp_path / "x.duckdb") as database:
        check_categories(database)
        assert [
            live for (live,) in database.rows("select live_bytes from memory_timeline order by time_ns")
        ] == expected


def test_a_phase_that_operators_tell_takes_nothing_from_one_that_a_range_is(tmp_path: Path) -> None:
    """autograd works on a thread of its own while the forward goes on: 100 of them at 150, and 500 of it later."""
    total = 30 << 20
    events: list[Event] = [
        {"ph": "X", "cat": "user_annotation", "name": "forward", "pid": 1, "tid": 1, "ts": 100, "dur": 900},
        {"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MulBackward0", "pid": 1, "tid": 2,
         "ts": 140, "dur": 60},
    ]  # fmt: skip
    for time, tid, mib in ((10, 1, 30), (150, 2, 100), (190, 2, -100), (500, 1, 500), (900, 1, -500)):
        total += mib << 20 if time > 10 else 0
        args = {"Device Type": 1, "Device Id": 0, "Bytes": mib << 20, "Addr": 4096 * (abs(mib) + 1),
                "Total Allocated": total}  # fmt: skip
        events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": tid, "ts": time,
                       "args": args})  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = {phase: tuple(mib) for phase, *mib in database.rows(
            "select phase, begin_bytes >> 20, peak_bytes >> 20, end_bytes >> 20 from memory_phase where phase <> 'load'"
        )}  # fmt: skip
    assert found == {"forward": (30, 530, 30), "backward": (30, 130, 30)}


class Reporter:
    """What torch says of memory on a CPU: it counts the blocks that it saw allocated while it recorded.

        recorded      A +64         its table: A 64, total 64
        unrecorded    A -64, A +8   its table: A 64, total 64     (it saw neither)
        recorded      A -8          its table: -,    total 0      the file says: A -64

    So a second recording in one process starts with what the first has left, and a free may have another size than
    the memory had (ProfiledCPUMemoryReporter of c10/core/CPUAllocator.cpp).
    """

    def __init__(self) -> None:
        self.table: dict[int, int] = {}
        self.total = 0
        self.events: list[Event] = []

    def allocate(self, time: int, address: int, size: int) -> None:
        self.table[address] = size
        self._say(time, address, size)

    def free(self, time: int, address: int) -> None:
        if size := self.table.pop(address, 0):
            self._say(time, address, -size)

    def _say(self, time: int, address: int, size: int) -> None:
        self.total += size
        self.write(time, address, size, self.total)

    def write(self, time: int, address: int, size: int, total: int) -> None:
        """One event."""
        args = {"Device Type": 0, "Device Id": -1, "Bytes": size, "Addr": address, "Total Allocated": total}
        self.events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1,
                            "ts": time, "args": args})  # fmt: skip


@pytest.mark.parametrize("is_kept", [True, False])
def test_weights_inside_of_what_a_file_was_read_into_are_weights(is_kept: bool, tmp_path: Path) -> None:
    """safetensors reads a file at once: weights lie in one allocation, behind a header, and none is at its start."""
    reporter, size = Reporter(), 40 << 20
    reporter.allocate(1_000, 4_096, 512)  # freed: another's address inside of the later piece is no harm
    reporter.free(1_100, 4_096)
    reporter.allocate(1_200, 1_000, size)
    reporter.allocate(1_300, 1_000 + size, 30 << 20)
    if not is_kept:
        reporter.free(9_000, 1_000)
    (tmp_path / "memory.json").write_text(json.dumps({"traceEvents": reporter.events}), "utf-8")
    head = "time_ns,device,address,bytes,category,name,adapter,is_before\n"
    rows = [f"2000000,cpu,{4_000 + n * (4 << 20)},{4 << 20},parameter,w{n},,0\n" for n in range(9)]
    (tmp_path / "ledger.csv").write_text(head + "".join(rows), "utf-8")
    with opened(tmp_path / "memory.json", db=tmp_path / "x.duckdb") as database:
        found = database.rows("select category, basis, bytes from _memory_block where bytes > 1000 order by bytes")
        advice = [text for (text,) in database.rows("select advice from memory_finding where rule = 'unexplained'")]
    assert found[0] == ("unknown", "heuristic", 30 << 20)
    assert found[1] == (("parameter", "exact", size) if is_kept else found[1])
    assert all("--with-stack" in text and "python train.py" not in text for text in advice) and advice


TURNS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from((8, 64))), min_size=1, max_size=6)


@given(recorded=TURNS, unrecorded=TURNS, again=TURNS, unknown=st.sets(st.integers(1, 3), max_size=1))
@example(recorded=[(1, 64)], unrecorded=[(1, 8), (1, 8), (2, 8)], again=[(1, 8)], unknown=set())
@example(recorded=[(1, 8)], unrecorded=[(1, 8), (1, 8)], again=[(1, 8)], unknown={1})
@dear(5, long=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.slow
def test_a_second_recording_of_a_process_has_no_memory_below_none(
    recorded: list[tuple[int, int]],
    unrecorded: list[tuple[int, int]],
    again: list[tuple[int, int]],
    unknown: set[int],
    tmp_path: Path,
) -> None:
    """Each turn frees an address that is taken, or takes it; the ledger knows what is there when the second begins."""
    reporter, live, time = Reporter(), dict[int, int](), 0
    for turns in (recorded, unrecorded, again):
        reporter.events.clear()
        known = [(address, length) for address, length in live.items() if address not in unknown]
        for address, size in turns:
            time += 10
            if live.pop(address, None) is None:
                live[address] = size
                if turns is not unrecorded:
                    reporter.allocate(time, address, size)
            elif turns is not unrecorded:
                reporter.free(time, address)
    assume(reporter.events)
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    (folder / "memory.json").write_text(json.dumps({"traceEvents": reporter.events}), "utf-8")
    head = "time_ns,device,address,bytes,category,name,adapter,is_before\n"
    rows = [f"0,cpu,{address},{length},parameter,w,,1\n" for address, length in known]
    (folder / "ledger.csv").write_text(head + "".join(rows), "utf-8")
    with analyze([folder / "memory.json"], folder / "x.duckdb") as database:
        most = check_categories(database)
    first = reporter.events[0]["args"]["Addr"]  # with its first event an address is another's
    assert most.get("parameter", 0) == sum(length for address, length in known if address != first)


@given(turns=st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.integers(1, 1_000)), min_size=1, max_size=12))
@example(turns=[(True, 1, 100), (False, 1, 50), (True, 2, 7), (True, 1, 1), (False, 2, 90), (False, 1, 1)])
@dear(5, long=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.slow
def test_pinned_blocks_count_beside_a_total_that_leaves_them_out(
    turns: list[tuple[bool, int, int]], tmp_path: Path
) -> None:
    """As torch writes them on a CPU: with the event of a pinned block the total is 0, with others that of these."""
    live: dict[tuple[bool, int], int] = {}
    reporter, most = Reporter(), 0
    for time, (is_pinned, address, size) in enumerate(turns, start=1):
        bytes_ = -live.pop((is_pinned, address)) if (is_pinned, address) in live else size
        if bytes_ > 0:
            live[is_pinned, address] = bytes_
        total = 0 if is_pinned else sum(length for (pinned, _), length in live.items() if not pinned)
        reporter.write(10 * time, address + 100 * is_pinned, bytes_, total)
        most = max(most, sum(live.values()))
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    (folder / "memory.json").write_text(json.dumps({"traceEvents": reporter.events}), "utf-8")
    with analyze([folder / "memory.json"], folder / "x.duckdb") as database:
        assert database.rows(
            "select max(peak_bytes), sum(live_bytes)::bigint, min(live_bytes) > 0 from memory_peak"
        ) == [(most, most, True)]


@pytest.mark.parametrize("path", corpus_params("kineto/qwen*.json.gz"))
@pytest.mark.first(1)
def test_the_peak_of_real_traces_is_that_of_the_events(path: Path, tmp_path: Path) -> None:
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    expected: dict[str, int] = defaultdict(int)
    for (device, place), size in by_loops(events).items():
        expected[f"{device} {place == BEFORE}"] += size
    with analyze([path], tmp_path / "x.duckdb") as database:
        key = f"device || ' ' || (path is not distinct from '{BEFORE}')"
        found = database.rows(f"select {key}, sum(live_bytes) from memory_peak group by 1")
        ((count,),) = database.rows("select count(*) from memory_timeline")
        check_categories(database)
    assert {key.replace("true", "True").replace("false", "False"): int(size) for key, size in found} == expected
    assert count == sum(e.get("name") == "[memory]" for e in events)


def test_without_events_of_memory_there_are_no_rows(tmp_path: Path) -> None:
    with analyze([ROOT / "fixtures" / "torch-cpu.json.gz"], tmp_path / "x.duckdb") as database:
        assert database.rows("from memory_peak") == database.rows("from memory_timeline") == []


def test_memory_that_nsys_saw_is_categorised_by_its_lifetime(
    synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(synthetic_trace("nsys").read_bytes())
    with closing(sqlite3.connect(path)) as file:
        ((process, first),) = file.execute(
            "select globalTid & ~0xFFFFFF, min(start) from NVTX_EVENTS group by 1 limit 1"
        )
        file.execute(
            "create table CUDA_GPU_MEMORY_USAGE_EVENTS "
            "(start int, globalPid int, deviceId int, address int, bytes int, memoryOperationType int, memKind int)"
        )
        device, pinned, pageable = 2, 1, 0  # as ENUM_CUDA_MEM_KIND of an export says
        for time, address, size, operation, kind in (
            (1, 7, 500, 0, device), (1, 20, 9000, 0, pinned), (2, 8, 300, 0, device), (2, 21, 7000, 0, pageable),
            (3, 7, 500, 1, device), (4, 7, 100, 0, None), (5, 20, 9000, 1, pinned),
        ):  # fmt: skip
            file.execute(
                "insert into CUDA_GPU_MEMORY_USAGE_EVENTS values (?, ?, 0, ?, ?, ?, ?)",
                (first + time, process, address, size, operation, kind),
            )
        file.commit()
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert check_categories(database) == {"temporary": 500, "unknown": 400}
        assert database.rows("select live_bytes from memory_timeline order by time_ns") == [
            (500,), (800,), (300,), (400,)
        ]  # fmt: skip
        assert database.rows(
            "select sum(live_bytes)::bigint, any_value(peak_bytes), any_value(basis) from memory_peak"
        ) == [(800, 800, "heuristic")]
        of_table = database.rows("select section, item, value from source_fact where contains(item, 'MEMORY_USAGE')")
        assert set(of_table) == {
            ("holds", "CUDA_GPU_MEMORY_USAGE_EVENTS", "4"),
            ("holds", "CUDA_GPU_MEMORY_USAGE_EVENTS of the host", "3"),
        }


@pytest.mark.parametrize(
    ("kind", "index", "device"),
    [(0, -1, "cpu"), (1, 3, "cuda:3"), (6, 0, "cuda:0"), (12, 1, "xpu:1"), (13, 0, "mps:0"), (15, 2, "hpu:2"),
     (19, 0, "mtia:0"), (20, 0, "privateuseone:0"), (77, 0, "device type 77:0")],
)  # fmt: skip
@pytest.mark.first(3)
def test_a_device_is_called_as_torch_calls_it(kind: int, index: int, device: str, tmp_path: Path) -> None:
    args = {"Device Type": kind, "Device Id": index, "Bytes": 512, "Addr": 1, "Total Allocated": 512}
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": args}
    (tmp_path / "run.json").write_text(json.dumps({"traceEvents": [event]}), "utf-8")
    with opened(tmp_path / "run.json") as database:
        assert database.rows("select device from memory_event") == [(device,)]


@pytest.mark.parametrize(("freed", "category"), [("next update", "optimizer_state"), ("same update", "temporary"),
                                                 ("next forward", "temporary")])  # fmt: skip
@pytest.mark.slow
def test_state_that_each_update_replaces_is_state(freed: str, category: str, tmp_path: Path) -> None:
    """An optimizer that writes m = b * m + g keeps new memory from one update to the next, and none for two steps."""
    file, address, held = Reporter(), 4096, 0
    events: list[Event] = []
    for step in range(4):
        at = 1_000 * step
        for phase, begin, length in (("forward", 0, 300), ("backward", 350, 300), ("optimizer", 700, 250)):
            events.append({"ph": "X", "cat": "user_annotation", "name": phase, "pid": 1, "tid": 1, "ts": at + begin,
                           "dur": length})  # fmt: skip
        file.allocate(at + 20, 64, 512)
        if held and freed == "next forward":
            file.free(at + 50, held)
        file.free(at + 400, 64)
        file.allocate(at + 720, address := address + 4096, 1 << 20)
        if held and freed == "next update":
            file.free(at + 740, held)
        if freed == "same update":
            file.free(at + 760, address)
        held = address
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [*events, *file.events]}), "utf-8")
    with opened(tmp_path / "t.json") as database:
        found = dict(database.rows("select start_ns // 1000000, category from _memory_block where bytes = 1048576"))
    assert [found[step] for step in range(3)] == [category] * 3  # of the last one nobody knows
