"""Hardware counters of GPUs that nsys samples: read whatever its version, and shared as plain loops share them."""

import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import dear, opened
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from lorabench.reports import perfetto
from synthetic import MAIN, Call, Op, Range, Timeline

MS, US = 1_000_000, 1000
TYPE = 0x0200_0000_0000_0000
SM, ISSUE, TENSOR, READ, WRITE, CLOCK, WARPS = range(40, 47)
NAMES = {
    SM: "SMs Active [Throughput %]", ISSUE: "SM Issue [Throughput %]", TENSOR: "Tensor Active [Throughput %]",
    READ: "DRAM Read Bandwidth [Throughput %]", WRITE: "DRAM Write Bandwidth [Throughput %]",
    CLOCK: "GPC Clock Frequency [MHz]", WARPS: "Compute Warps in Flight [Avg Warps per Cycle]",
}  # fmt: skip
VIEWS = ("metric_summary", "kernel_metric_summary", "range_metric_summary", "metric_over_time")


@dataclass(frozen=True)
class Sample:
    """What the counters of a GPU say at one time, by metric."""

    start: int
    values: dict[int, int] = field(default_factory=dict)
    gpu: int = 0


def kernels(*spans: tuple[str, int, int], ranges: tuple[Range, ...] = ()) -> Timeline:
    """Kernels of these names, begins and ends, each launched a little before it runs."""
    calls = [Call(MAIN, n * 2000, n * 2000 + 1000, "cudaLaunchKernel", n + 1) for n in range(len(spans))]
    ops = [Op("kernel", name, 7, begin, end, n + 1) for n, (name, begin, end) in enumerate(spans)]
    return Timeline(list(ranges), calls, ops, max(end for _, _, end in spans))


def counted(path: Path, samples: list[Sample], timeline: Timeline, names: dict[int, str] | None = None) -> Path:
    """A file of nsys with counters, as those of 2024 are."""
    names = NAMES if names is None else names
    writers.write_nsys(path, [timeline])
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "create table TARGET_INFO_GPU_METRICS (typeId integer not null, sourceId integer not null,"
            " typeName text not null, metricId integer not null, metricName text not null)"
        )
        file.execute(
            "create table GPU_METRICS (rawTimestamp integer, timestamp integer, typeId integer not null,"
            " metricId integer not null, value integer not null)"
        )
        for gpu in {sample.gpu for sample in samples}:
            rows = [(TYPE + gpu, 0, f"GPU Metrics [{gpu}]", metric, name) for metric, name in names.items()]
            file.executemany("insert into TARGET_INFO_GPU_METRICS values (?, ?, ?, ?, ?)", rows)
        for sample in samples:
            for metric, value in sample.values.items():
                row = (sample.start + 5 * MS, sample.start, TYPE + sample.gpu, metric, value)
                file.execute("insert into GPU_METRICS values (?, ?, ?, ?, ?)", row)
    return path


def as_events(path: Path) -> Path:
    """The same file as a version before wrote it: a sample is an object, percentages lack a unit, numbers are texts."""
    with closing(sqlite3.connect(path)) as file, file:
        names = dict(file.execute("select metricId, metricName from TARGET_INFO_GPU_METRICS"))
        found: dict[tuple[int, int], dict[str, str]] = defaultdict(dict)
        for start, kind, metric, value in file.execute("select timestamp, typeId, metricId, value from GPU_METRICS"):
            if metric != WARPS:
                found[start, kind][names[metric].split(" [")[0]] = str(value)
        file.execute("create table GENERIC_EVENT_SOURCES (sourceId integer primary key, data text)")
        file.execute("create table GENERIC_EVENT_TYPES (typeId integer primary key, sourceId integer, data text)")
        file.execute("create table GENERIC_EVENTS (rawTimestamp integer, timestamp integer, typeId integer, data text)")
        sources = [(5, json.dumps({"Name": "GpuMetrics"})), (6, json.dumps({"Name": "Ftrace"})), (7, "no object")]
        file.executemany("insert into GENERIC_EVENT_SOURCES values (?, ?)", sources)
        kinds = {kind for _, kind in found}
        file.executemany("insert into GENERIC_EVENT_TYPES values (?, 5, '{}')", [(kind,) for kind in kinds])
        file.execute("insert into GENERIC_EVENT_TYPES values (77, 6, '{}')")
        rows: list[tuple[Any, ...]] = [(start, None, kind, json.dumps(one)) for (start, kind), one in found.items()]
        rows += [(1, 1, 77, '{"SM Active": 99}'), *((1, 1, kind, "broken {") for kind in kinds)]
        file.executemany("insert into GENERIC_EVENTS values (?, ?, ?, ?)", rows)
        file.execute("drop table GPU_METRICS")
        file.execute("drop table TARGET_INFO_GPU_METRICS")
    return path


def every(period: int, begin: int, end: int, gpu: int = 0, **values: int) -> list[Sample]:
    """Samples of the same values, so far apart."""
    known = {name.lower(): metric for name, metric in (
        ("sm", SM), ("issue", ISSUE), ("tensor", TENSOR), ("read", READ), ("write", WRITE), ("clock", CLOCK)
    )}  # fmt: skip
    return [
        Sample(start, {known[name]: value for name, value in values.items()}, gpu)
        for start in range(begin, end, period)
    ]


def of_kernels(database: Database, columns: str) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(rest) for name, *rest in database.rows(
        f"select kernel_name, {columns} from kernel_metric_summary"
    )}  # fmt: skip


IDLE = {"sm": 0, "issue": 0, "tensor": 0, "read": 0, "write": 0}
TWO = kernels(("first", MS, 3 * MS), ("second", 3 * MS, 4 * MS))
OF_TWO = [
    *every(100 * US, 0, MS, **IDLE), *every(100 * US, MS, 3 * MS, sm=97, issue=40, tensor=30, read=50, write=25),
    *every(100 * US, 3 * MS, 4 * MS, sm=90, issue=35, tensor=80, read=5, write=5),
    *every(100 * US, 4 * MS, 5 * MS, **IDLE),
]  # fmt: skip


def test_a_kernel_has_what_the_samples_of_its_time_say(tmp_path: Path) -> None:
    with analyze([counted(tmp_path / "x.sqlite", OF_TWO, TWO)], tmp_path / "x.duckdb") as database:
        found = of_kernels(
            database,
            "sampled_ns, alone_frac, sm_active_frac, tensor_active_frac, dram_read_frac, dram_write_frac, limited_by",
        )
    assert found["first"] == pytest.approx((2 * MS, 1, 0.97, 0.3, 0.5, 0.25, "memory"))
    assert found["second"] == pytest.approx((MS, 1, 0.9, 0.8, 0.05, 0.05, "tensor cores"))


def test_idle_time_within_a_sample_does_not_make_a_kernel_look_idle(tmp_path: Path) -> None:
    """Ten microseconds of work in a hundred that count 8 % are 80 % of them."""
    spans = [("k", start + 20 * US, start + 30 * US) for start in range(MS, 5 * MS, 100 * US)]
    samples = every(100 * US, 0, 6 * MS, sm=8, tensor=4)
    with analyze([counted(tmp_path / "x.sqlite", samples, kernels(*spans))], tmp_path / "x.duckdb") as database:
        assert of_kernels(database, "sm_active_frac, tensor_active_frac, alone_frac")["k"] == pytest.approx(
            (0.8, 0.4, 1)
        )
        ((mean, busy),) = database.rows("select mean_frac, busy_frac from metric_summary where metric = 'SMs Active'")
    assert (mean, busy) == pytest.approx((0.08, 0.08))


@pytest.mark.parametrize(
    ("length", "value"),
    [(9 * US, 8), (50 * US, 60)],
    ids=["a tenth of whole percents", "more than the work can have done"],
)
def test_what_counters_cannot_say_is_null(length: int, value: int, tmp_path: Path) -> None:
    spans = [("k", start + 20 * US, start + 20 * US + length) for start in range(MS, 5 * MS, 100 * US)]
    samples = every(100 * US, 0, 6 * MS, sm=value, issue=value, tensor=value, read=value, write=value)
    with analyze([counted(tmp_path / "x.sqlite", samples, kernels(*spans))], tmp_path / "x.duckdb") as database:
        assert (
            of_kernels(database, "sm_active_frac, tensor_active_frac, dram_read_frac, limited_by")["k"] == (None,) * 4
        )


def test_kernels_that_share_samples_are_said_to(tmp_path: Path) -> None:
    """No limit is said of what is mostly a mixture."""
    spans = [
        (name, start + offset, start + offset + 50 * US)
        for start in range(MS, 5 * MS, 100 * US)
        for name, offset in (("a", 0), ("b", 50 * US))
    ]
    samples = every(100 * US, 0, 6 * MS, sm=70, issue=10, tensor=65, read=10, write=10)
    with analyze([counted(tmp_path / "x.sqlite", samples, kernels(*spans))], tmp_path / "x.duckdb") as database:
        found = of_kernels(database, "alone_frac, tensor_active_frac, limited_by")
    assert found == {"a": pytest.approx((0, 0.65, None)), "b": pytest.approx((0, 0.65, None))}


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({"sm": 99, "issue": 30, "tensor": 62, "read": 40, "write": 30}, "memory"),
        ({"sm": 99, "issue": 70, "tensor": 62, "read": 10, "write": 10}, "instructions"),
        ({"sm": 30, "issue": 20, "tensor": 20, "read": 10, "write": 10}, "idle multiprocessors"),
        ({"sm": 99, "issue": 20, "tensor": 20, "read": 10, "write": 10}, "latency"),
        (
            {"sm": 99, "issue": 50, "tensor": 20, "read": 10, "write": 10},
            None,
        ),  # may be all that units for 32 bits can do
        ({"sm": 99, "issue": 20, "tensor": 20}, None),  # memory is not known
        ({"sm": 99, "issue": 70, "read": 10, "write": 10}, None),  # whose instructions is not known
        ({"sm": 30, "issue": 20, "read": 10, "write": 10}, None),
        ({"sm": 99, "issue": 20, "tensor": 80}, "tensor cores"),
        ({"read": 70, "write": 10}, "memory"),
        ({"clock": 1_980_000_000}, None),
    ],
)
@pytest.mark.first(3)
def test_the_limit_is_what_is_most_in_use(values: dict[str, int], limit: str | None, tmp_path: Path) -> None:
    samples = every(100 * US, 0, 5 * MS, **values)
    with analyze([counted(tmp_path / "x.sqlite", samples, TWO)], tmp_path / "x.duckdb") as database:
        found = of_kernels(database, "limited_by")
    assert found == ({"first": (limit,), "second": (limit,)} if "clock" not in values else {})


def test_older_files_say_the_same(tmp_path: Path) -> None:
    said, names = [], {**NAMES, SM: "SM Active [Throughput %]"}
    for name, is_old in (("new", False), ("old", True)):
        path = counted(tmp_path / f"{name}.sqlite", [*OF_TWO, *every(MS, 0, MS, clock=1_500_000_000)], TWO, names)
        with analyze([as_events(path) if is_old else path], tmp_path / f"{name}.duckdb") as database:
            rows = [sorted(map(repr, database.rows(f"from {view}"))) for view in VIEWS]
            assert not database.rows("from source_fact where section = 'lost'")
        said.append(rows)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("stored", "hertz"), [(1_980_000_000, 1.98e9), (-1_768_172_296, 2_526_795_000.0), (1410, 1.41e9)]
)
def test_clocks_are_in_hertz_however_they_are_stored(stored: int, hertz: float, tmp_path: Path) -> None:
    samples = every(100 * US, 0, 5 * MS, clock=stored)
    with analyze([counted(tmp_path / "x.sqlite", samples, TWO)], tmp_path / "x.duckdb") as database:
        assert database.rows("select metric, max_frac, min_hz, max_hz from metric_summary") == [
            ("GPC Clock Frequency", None, hertz, hertz)
        ]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("SM Active [Throughput %]", "sm_active_frac"),
        ("SMs Active", "sm_active_frac"),
        ("SM Issue Active [Throughput %]", "sm_issue_frac"),
        ("Tensor Active / FP16 Active", "tensor_active_frac"),
        ("DRAM Read Throughput", "dram_read_frac"),
        ("GPU Memory Write Bandwidth [Throughput %]", "dram_write_frac"),
    ],
)
@pytest.mark.first(2)
def test_names_of_all_generations_are_known(name: str, column: str, tmp_path: Path) -> None:
    samples = every(100 * US, 0, 5 * MS, sm=55)
    with analyze([counted(tmp_path / "x.sqlite", samples, TWO, {SM: name})], tmp_path / "x.duckdb") as database:
        assert of_kernels(database, column)["first"] == pytest.approx((0.55,))


def test_a_range_has_what_its_kernels_have(tmp_path: Path) -> None:
    ranges = (Range(MAIN, 0, 1500, "forward"), Range(MAIN, 1900, 3500, "backward"))
    timeline = kernels(("first", MS, 3 * MS), ("second", 3 * MS, 4 * MS), ranges=ranges)
    with analyze([counted(tmp_path / "x.sqlite", OF_TWO, timeline)], tmp_path / "x.duckdb") as database:
        found = database.rows("select path, sampled_ns, tensor_active_frac, limited_by from range_metric_summary")
    assert found == [
        ("backward", MS, pytest.approx(0.8), "tensor cores"), ("forward", 2 * MS, pytest.approx(0.3), "memory"),
    ]  # fmt: skip


@dear(5, long=50)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(1, 25)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 100)), min_size=2, max_size=12),
)
@pytest.mark.slow
def test_counters_are_shared_as_plain_loops_share_them(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int, int]], sampled: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("x")
    spans = [(name, 100 * US + begin * US, 100 * US + (begin + length) * US) for name, begin, length in drawn]
    starts, at = [], 95 * US
    for apart, value in sampled:
        starts.append((at, value))
        at += apart * US
    lengths = sorted(b - a for (a, _), (b, _) in pairwise(starts))
    middle = len(lengths) // 2
    usual = lengths[middle] if len(lengths) % 2 else round((lengths[middle - 1] + lengths[middle]) / 2)
    expected: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0, 0.0])
    for n, (start, value) in enumerate(starts):
        length = starts[n + 1][0] - start if n + 1 < len(starts) else usual
        end = start + (length if length <= 2 * usual else usual)
        ran: dict[str, int] = defaultdict(int)
        for name, begin, stop in spans:
            ran[name] += max(0, min(stop, end) - max(begin, start))
        whole = sum(ran.values())
        moments = {at for _, begin, stop in spans for at in range(max(begin, start), min(stop, end), US // 2)}
        for name, part in ran.items():
            if part:
                share = part / whole
                found = expected[name]
                found[0] += part
                found[1] += part * (part == whole)
                found[2] += value / 100 * (end - start) * share
                found[3] += US // 2 * len(moments) * share
                found[4] += (end - start) * share
    samples = [Sample(start, {SM: value}) for start, value in starts]
    with analyze([counted(folder / "x.sqlite", samples, kernels(*spans))], folder / "x.duckdb") as database:
        found_rows = of_kernels(database, "sampled_ns, alone_frac, sm_active_frac")
    assert found_rows.keys() == expected.keys()
    for name, (part, alone, count, busy, length) in expected.items():
        says = 10 * busy >= length and count <= 1.05 * busy
        ran_ns, alone_frac, value = found_rows[name]
        assert (ran_ns, alone_frac) == pytest.approx((part, alone / part))
        if abs(10 * busy - length) > 1e-6 and abs(count - 1.05 * busy) > 1e-6:  # at the limit digits decide
            assert value == (pytest.approx(min(count / busy, 1), abs=1e-6) if says else None)


@pytest.mark.slow
def test_what_the_device_copies_itself_is_no_kernels_bandwidth(tmp_path: Path) -> None:
    """A kernel takes 10 %, the copy that follows it 90 %: of samples in which both ran nobody knows."""
    spans = [("k", start, start + 50 * US) for start in range(MS, 5 * MS, 100 * US)]
    timeline = kernels(*spans)
    for kind, is_within in (("memcpy", True), ("memset", False), ("memcpy", False)):
        ops = [
            Op(
                kind, "", 8, op.start + 50 * US, op.end + 50 * US, op.correlation + 1000, bytes=1 << 20,
                is_within=is_within,
            )
            for op in timeline.ops
        ]  # fmt: skip
        calls = [
            Call(MAIN, call.start, call.end, "cudaMemcpyAsync", call.correlation + 1000) for call in timeline.calls
        ]
        whole = Timeline([], timeline.calls + calls, timeline.ops + ops, 6 * MS)
        coarse = every(100 * US, MS, 5 * MS, sm=48, read=25, write=25)
        fine = [
            sample
            for start in range(MS, 5 * MS, 100 * US)
            for sample in (*every(50 * US, start, start + 50 * US, sm=96, read=5, write=5),
                           *every(50 * US, start + 50 * US, start + 100 * US, sm=0, read=45, write=45))
        ]  # fmt: skip
        known = kind == "memcpy" and not is_within  # as slow as the link to the host
        for number, (samples, expected) in enumerate(((coarse, 0.5 if known else None), (fine, 0.05))):
            path = counted(tmp_path / f"{kind}{known}{number}.sqlite", samples, whole)
            with analyze([path], path.with_suffix(".duckdb")) as database:
                found = of_kernels(database, "sm_active_frac, dram_read_frac")["k"]
            assert found == pytest.approx((0.96, expected))


def test_kernels_side_by_side_do_not_halve_what_they_use(tmp_path: Path) -> None:
    spans = [(name, start + 20 * US, start + 40 * US) for start in range(MS, 5 * MS, 100 * US) for name in ("a", "b")]
    samples = every(100 * US, 0, 6 * MS, sm=18)
    with analyze([counted(tmp_path / "x.sqlite", samples, kernels(*spans))], tmp_path / "x.duckdb") as database:
        assert of_kernels(database, "sm_active_frac, alone_frac")["a"] == pytest.approx((0.9, 0))


@pytest.mark.slow
def test_samples_of_a_part_do_not_speak_for_the_whole(tmp_path: Path, run_command: Any) -> None:
    path = counted(tmp_path / "x.sqlite", [one for one in OF_TWO if one.start < 1_500 * US], TWO)
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = of_kernels(database, "sampled_frac, dram_read_frac, limited_by")
        ((evidence, advice),) = database.rows(
            "select evidence, advice from finding where rule = 'dominant_kernel' and place = 'first'"
        )
    assert found == {"first": pytest.approx((0.25, 0.5, None))}
    assert "counters" not in evidence and not advice.startswith("Memory is its limit")
    assert "(sampled in 17% of that time)" in " ".join(run_command("summary", path).stdout.split())


@pytest.mark.parametrize("name", ["void dgemm_kernel", "volta_dgemm_128x64_nn", "add<double>"])
@pytest.mark.first(1)
def test_numbers_of_64_bits_do_not_wait_for_latency(name: str, tmp_path: Path) -> None:
    """Their units have no counter."""
    samples = every(100 * US, 0, 5 * MS, sm=97, issue=5, tensor=0, read=10, write=5)
    with analyze(
        [counted(tmp_path / "x.sqlite", samples, kernels((name, MS, 3 * MS)))], tmp_path / "x.duckdb"
    ) as database:
        assert of_kernels(database, "limited_by") == {name: (None,)}


def test_a_range_of_kernels_with_other_limits_has_none(tmp_path: Path) -> None:
    ranges = (Range(MAIN, -100, 3500, "step"), Range(MAIN, 0, 1500, "forward"), Range(MAIN, 1900, 3400, "backward"))
    timeline = kernels(("first", MS, 3 * MS), ("second", 3 * MS, 5 * MS), ranges=ranges)
    samples = [
        *every(100 * US, MS, 3 * MS, sm=97, issue=40, tensor=30, read=50, write=25),
        *every(100 * US, 3 * MS, 5 * MS, sm=90, issue=35, tensor=80, read=5, write=5),
    ]
    with analyze([counted(tmp_path / "x.sqlite", samples, timeline)], tmp_path / "x.duckdb") as database:
        found = dict(database.rows("select path, limited_by from range_metric_summary"))
    assert found == {"step": None, "step/forward": "memory", "step/backward": "tensor cores"}


def test_samples_that_are_missing_stand_for_nothing(tmp_path: Path) -> None:
    """The buffer of the counters overflowed from 2 to 4 ms: what ran there has no values."""
    samples = [sample for sample in OF_TWO if not 2 * MS < sample.start < 4 * MS]
    with analyze([counted(tmp_path / "x.sqlite", samples, TWO)], tmp_path / "x.duckdb") as database:
        found = of_kernels(database, "sampled_ns, tensor_active_frac")
    assert found == {"first": (MS + 100 * US, pytest.approx(0.3))}


@pytest.mark.slow
def test_the_page_draws_what_was_sampled_and_nothing_else(tmp_path: Path, run_command: Any) -> None:
    """Between samples that are missing the line is broken; between those that are far apart it is not."""
    lacking = [sample for sample in OF_TWO if not 2 * MS < sample.start < 3_500 * US]
    rare = every(400 * US, 0, 5 * MS, sm=50, tensor=20)
    for name, samples, lost in (("lacking", lacking, 1_400 * US), ("rare", rare, 0)):
        path = counted(tmp_path / f"{name}.sqlite", samples, TWO)
        with analyze([path], path.with_suffix(".duckdb")) as database:
            ((bin_ns, without_ns),) = database.rows(
                "select max(start_ns) / (count(*) - 1) as bin_ns, count(*) filter (sm_active_frac is null) * bin_ns "
                "from _page_counter"
            )
        assert without_ns == pytest.approx(lost, abs=2 * bin_ns)
        page = tmp_path / f"{name}.html"
        run_command("report", path, "-o", page)
        text = page.read_text("utf-8")
        assert "GPU counters over time" in text and "Kernels by GPU counters" in text


def test_the_answer_and_its_finding_name_them(tmp_path: Path) -> None:
    path = counted(tmp_path / "x.sqlite", OF_TWO, TWO)
    with analyze([path], tmp_path / "x.duckdb") as database:
        ((evidence, advice),) = database.rows(
            "select evidence, advice from finding where rule = 'dominant_kernel' and place = 'first'"
        )
        perfetto.write(database, tmp_path / "x.json")
    assert evidence.endswith("; counters: multiprocessors 97 %, tensor cores 30 %, memory bandwidth 75 %")
    assert advice.startswith("Memory is its limit, so bytes are what counts. ")
    assert "ncu" not in advice
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    tensor = [(one["ts"], one["args"]["value"]) for one in events if one["name"] == "Tensor Active [%]"]
    assert [value for _, value in sorted(tensor)] == [0, 30, 80, 0]


def test_counters_of_gpus_that_the_program_does_not_use_are_left_out(tmp_path: Path) -> None:
    samples = [*every(100 * US, 0, 5 * MS, sm=50), *every(100 * US, 0, 5 * MS, gpu=7, sm=99)]
    with analyze([counted(tmp_path / "x.sqlite", samples, TWO)], tmp_path / "x.duckdb") as database:
        assert database.rows("select device_id, max_frac from metric_summary") == [(0, 0.5)]


def test_counters_are_read_where_no_devices_are_listed(tmp_path: Path) -> None:
    path = counted(tmp_path / "x.sqlite", OF_TWO, TWO)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("drop table TARGET_INFO_GPU")
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert of_kernels(database, "sm_active_frac")["first"] == pytest.approx((0.97,))


@pytest.mark.parametrize(
    ("statement", "is_lost"),
    [
        ("drop table TARGET_INFO_GPU_METRICS", True),
        ("update GPU_METRICS set value = 'much'", True),
        ("delete from GPU_METRICS", False),
        ("delete from TARGET_INFO_GPU_METRICS", False),
        ("update TARGET_INFO_GPU_METRICS set metricName = '[]'", False),
        ("update GPU_METRICS set timestamp = 9223372036854775807", False),
        ("update GPU_METRICS set value = -9223372036854775807", False),
        ("update GPU_METRICS set timestamp = null, rawTimestamp = null", False),
        ("update TARGET_INFO_GPU_METRICS set metricName = metricName || char(10) || '<b>'", False),
    ],
)
@pytest.mark.first(3)
def test_what_is_odd_in_counters_costs_nothing_else(statement: str, is_lost: bool, tmp_path: Path) -> None:
    path = counted(tmp_path / "x.sqlite", OF_TWO, TWO)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(statement)
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*) from kernel_summary") == [(2,)]
        assert bool(database.rows("from source_fact where section = 'lost'")) == is_lost
        assert all(database.rows(f"select count(*) from {view}") for view in VIEWS)


def test_a_view_without_counters_says_how_to_sample_them(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    writers.write_nsys(path, [TWO])
    with opened(path) as database:
        assert all(database.rows(f"select count(*) from {view}") == [(0,)] for view in VIEWS)
