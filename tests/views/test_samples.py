"""What nsys sampled of the CPU: its sums, what it says of gaps, and that what is odd in it costs nothing else."""

import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import corpus_params, opened
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from synthetic import AUTOGRAD, MAIN, Call, Op, Range, Timeline

MS = 1_000_000
PROGRAM, PYTHON, ZLIB = (
    "/opt/train/program",
    "/usr/lib/libpython3.11.so.1.0",
    "/usr/lib/x86_64-linux-gnu/libz.so.1.2.13",
)
Frame = tuple[str | None, str]  # function, path of its library


@dataclass(frozen=True)
class Sample:
    """A moment at which a thread ran, and its stack, the innermost function first."""

    start: int
    stack: tuple[Frame, ...]
    thread: int = MAIN


def gap(begin: int = 2 * MS, end: int = 12 * MS) -> Timeline:
    """Two kernels, and a gap between them in which the CPU is in nothing."""
    calls = [
        Call(MAIN, begin - MS, begin - MS + 5000, "cudaLaunchKernel", 1),
        Call(MAIN, end, end + 5000, "cudaLaunchKernel", 2),
    ]
    ops = [Op("kernel", "work", 7, begin - MS + 10_000, begin, 1), Op("kernel", "work", 7, end + 10_000, end + MS, 2)]
    return Timeline([], calls, ops, end + MS)


def sampled(path: Path, samples: list[Sample], timeline: Timeline | None = None) -> Path:
    """A file of nsys with samples of the CPU, as nsys 2022 writes them."""
    writers.write_nsys(path, [timeline or gap()])
    with closing(sqlite3.connect(path)) as file, file:
        ((process,),) = file.execute("select distinct globalPid from CUPTI_ACTIVITY_KIND_KERNEL")
        file.execute("create table COMPOSITE_EVENTS (id integer primary key, start integer, globalTid integer)")
        file.execute(
            "create table SAMPLING_CALLCHAINS (id integer, symbol integer, module integer, unresolved integer,"
            " specialEntry integer, stackDepth integer, primary key (id, stackDepth))"
        )
        texts: dict[str, int] = {}
        for number, one in enumerate(samples, start=1):
            file.execute("insert into COMPOSITE_EVENTS values (?, ?, ?)", [number, one.start, process + one.thread])
            for depth, (name, module) in enumerate(one.stack):
                symbol, library = (
                    texts.setdefault(text, 5000 + len(texts))
                    for text in (name or f"0x7f{number:04x}{depth:02x}", module)
                )
                row = [number, symbol, library, 1 if name is None else None, None, depth]
                file.execute("insert into SAMPLING_CALLCHAINS values (?, ?, ?, ?, ?, ?)", row)
        file.executemany("insert into StringIds values (?, ?)", [(number, text) for text, number in texts.items()])
    return path


def every(period: int, begin: int, end: int, *stack: Frame, thread: int = MAIN) -> list[Sample]:
    """Samples of one stack, so far apart."""
    return [Sample(start, stack, thread) for start in range(begin, end, period)]


def finding(path: Path, folder: Path) -> tuple[str, str]:
    """Evidence and advice of the long gap."""
    with analyze([path], folder / "x.duckdb") as database:
        ((evidence, advice),) = database.rows("select evidence, advice from finding where rule = 'long_idle_gap'")
    return evidence, advice


def counted(
    database: Database, columns: str = "sample_cnt, stack_cnt"
) -> dict[tuple[str | None, str | None], tuple[int, ...]]:
    return {(function, module): tuple(rest) for function, module, *rest in database.rows(
        f"select function, module, {columns} from sample_summary"
    )}  # fmt: skip


IN_ZLIB = every(MS // 5, 3 * MS, 11 * MS, (None, ZLIB), ("deflate", ZLIB), ("main", PROGRAM))


def test_a_gap_names_the_library_in_which_its_samples_are(tmp_path: Path) -> None:
    evidence, advice = finding(sampled(tmp_path / "x.sqlite", IN_ZLIB), tmp_path)
    assert evidence.endswith("; 40 samples of the CPU there: 100% in libz.so.1.2.13 (deflate)")
    assert advice.startswith("Look at what runs there in libz.so.1.2.13 and what calls it (sample_summary)")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (PYTHON, "Python itself runs there"),
        ("/usr/bin/python3.12", "Python itself runs there"),
        ("C:\\Python311\\python311.dll", "Python itself runs there"),
        ("/usr/lib/libcuda.so.550.54.15", "The driver itself runs there"),
        ("/usr/lib/libtorch_cpu.so", "Look at what runs there in libtorch_cpu.so"),
    ],
)
@pytest.mark.first(1)
def test_advice_goes_by_the_library_with_most_samples(module: str, said: str, tmp_path: Path) -> None:
    samples = every(MS // 5, 3 * MS, 11 * MS, ("work", module)) + every(MS, 3 * MS, 11 * MS, ("deflate", ZLIB))
    evidence, advice = finding(sampled(tmp_path / "x.sqlite", samples), tmp_path)
    assert "48 samples of the CPU there: 83% in" in evidence and "17% in libz.so.1.2.13 (deflate)" in evidence
    assert advice.startswith(said)


@pytest.mark.parametrize("thread", [MAIN, AUTOGRAD])
def test_a_thread_that_is_not_seen_running_is_said_to_wait(thread: int, tmp_path: Path) -> None:
    """Neither what ran before and after the gap says what it does in it, nor another thread."""
    busy = every(MS // 5, -20 * MS, 2 * MS, ("main", PROGRAM)) + every(MS // 5, 13 * MS, 20 * MS, ("main", PROGRAM))
    inside = every(MS // 5, 3 * MS, 11 * MS, ("main", PROGRAM), thread=AUTOGRAD) if thread == AUTOGRAD else []
    evidence, advice = finding(sampled(tmp_path / "x.sqlite", busy + inside), tmp_path)
    assert evidence.endswith("; its thread hardly runs there (0 samples, and room for 50)")
    assert advice.startswith("It waits there for a file, a lock, another process or a core")


def test_nobody_is_told_to_record_samples_that_the_file_holds(tmp_path: Path) -> None:
    few = [Sample(1000, (("main", PROGRAM),)), Sample(8 * MS, (("main", PROGRAM),))]
    told = {number: finding(sampled(tmp_path / f"{number}.sqlite", few[:number]), tmp_path)[1] for number in (0, 2)}
    assert "record its samples (nsys profile --sample=process-tree)" in told[0]
    assert told[2].startswith("Name what the CPU does there") and "--sample" not in told[2]


def test_a_sample_counts_once_for_each_function_on_its_stack(tmp_path: Path) -> None:
    recursive = (("walk", PROGRAM), ("walk", PROGRAM), ("main", PROGRAM))
    broken = (("walk", PROGRAM), ("[Broken backtraces]", "[Broken backtraces]"))
    samples = [Sample(3 * MS, recursive), Sample(4 * MS, broken), Sample(5 * MS, ()), Sample(20 * MS, ((None, ZLIB),))]
    with analyze([sampled(tmp_path / "x.sqlite", samples)], tmp_path / "x.duckdb") as database:
        found = counted(database, "sample_cnt, stack_cnt, late_cnt, late_stack_cnt")
    assert found == {
        ("walk", "program"): (2, 2, 2, 2),
        ("main", "program"): (0, 1, 0, 1),
        (None, None): (1, 1, 1, 1),
        (None, "libz.so.1.2.13"): (1, 1, 0, 0),
    }


@given(
    st.lists(
        st.tuples(
            st.integers(0, 14 * MS), st.lists(st.sampled_from([("a", PROGRAM), ("b", ZLIB), (None, ZLIB)]), max_size=4),
            st.sampled_from([MAIN, AUTOGRAD]),
        ),
        max_size=20,
    )
)  # fmt: skip
@pytest.mark.slow
def test_samples_are_summed_as_plain_loops_sum_them(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, list[Frame], int]]
) -> None:
    folder = tmp_path_factory.mktemp("x")
    samples = [Sample(start, tuple(stack), thread) for start, stack, thread in drawn]
    expected: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for one in samples:
        stack = [(name, Path(module).name) for name, module in one.stack] or [(None, None)]
        is_late = one.thread == MAIN and 2 * MS <= one.start < 12 * MS + 10_000
        for function in set(stack):
            is_own = function == stack[0]
            for place, counts in enumerate((is_own, True, is_own and is_late, is_late)):
                expected[function][place] += counts
    with analyze([sampled(folder / "x.sqlite", samples)], folder / "x.duckdb") as database:
        found = counted(database, "sample_cnt, stack_cnt, late_cnt, late_stack_cnt")
    assert found == {function: tuple(counts) for function, counts in expected.items()}


@pytest.mark.parametrize("path", corpus_params("nsys/*.sqlite"))
@pytest.mark.first(6)
def test_samples_are_summed_as_the_file_has_them(path: Path) -> None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
        file.text_factory = lambda raw: raw.decode("utf-8", "replace")
        stacks: dict[int, dict[int, tuple[str | None, str]]] = defaultdict(dict)
        if file.execute("select name from sqlite_master where name = 'SAMPLING_CALLCHAINS'").fetchall():
            for sample, depth, symbol, module, unresolved in file.execute(
                "select c.id, stackDepth, s.value, m.value, unresolved from SAMPLING_CALLCHAINS as c "
                "join StringIds as s on s.id = symbol join StringIds as m on m.id = module where symbol <> module"
            ):
                stacks[sample][depth] = (None if unresolved == 1 else symbol, module)
    own: Counter[Any] = Counter(stack[min(stack)] for stack in stacks.values())
    on_stack: Counter[Any] = Counter(function for stack in stacks.values() for function in set(stack.values()))
    with opened(path) as database:
        rows = database.rows("select function, module, sample_cnt, stack_cnt from sample_summary")
        spent = database.rows("select sum(sample_frac), sum(late_cnt), any_value(late_cnt) is null from sample_summary")
    assert Counter(rows) == Counter(
        (name, module.rsplit("/", 1)[-1], own[name, module], cnt) for (name, module), cnt in on_stack.items()
    )
    assert not rows or spent[0][0] == pytest.approx(1)


def test_functions_of_several_inputs_are_each_its_own(tmp_path: Path) -> None:
    paths = [
        sampled(tmp_path / f"{name}.sqlite", every(MS, 3 * MS, 11 * MS, (name, f"/lib/{name}.so")))
        for name in ("one", "two")
    ]
    with analyze(paths, tmp_path / "x.duckdb") as database:
        found = database.rows("select source_id, function, module, sample_cnt from sample_summary order by all")
    assert found == [(1, "one", "one.so", 8), (2, "two", "two.so", 8)]


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("update SAMPLING_CALLCHAINS set stackDepth = 'deep' where id = 3 and stackDepth = 0", {(None, None): 40}),
        ("update COMPOSITE_EVENTS set start = 'soon' where id = 3", {}),
        ("delete from SAMPLING_CALLCHAINS where id = 3", {(None, "libz.so.1.2.13"): 39, (None, None): 1}),
        ("update COMPOSITE_EVENTS set globalTid = null where id = 3", {(None, "libz.so.1.2.13"): 39}),
        ("alter table COMPOSITE_EVENTS rename column start to begin", {}),
        ("drop table SAMPLING_CALLCHAINS", {(None, None): 40}),
        ("drop table COMPOSITE_EVENTS", {}),
        ("delete from StringIds where value like '%libz%'", {(None, None): 40}),
    ],
)  # fmt: skip
@pytest.mark.first(3)
def test_samples_that_are_odd_cost_nothing_else(
    statement: str, left: dict[tuple[str | None, str | None], int], tmp_path: Path
) -> None:
    path = sampled(tmp_path / "x.sqlite", IN_ZLIB)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(statement)
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*) from gpu_op") == [(2,)]
        found = {key: own for key, (own, _) in counted(database).items() if own}
        lost = database.rows("select value from trace_info where section = 'lost'")
    assert found == left
    assert bool(lost) == ("deep" in statement or "soon" in statement or "null" in statement)


def apart(count: int) -> Timeline:
    """One thread that gives each of several devices work in turn, and computes between."""
    calls: list[Call] = []
    ops: list[Op] = []
    for number in range(4 * count):
        at = (1 + 10 * number) * MS
        calls.append(Call(MAIN, at, at + 5_000, "cudaLaunchKernel", number + 1))
        ops.append(Op("kernel", "work", 7, at + 10_000, at + MS, number + 1))
    return Timeline([], calls, ops, (1 + 40 * count) * MS)


@pytest.mark.parametrize("count", [1, 6])
def test_gaps_of_several_devices_at_once_are_that_time_once(count: int, tmp_path: Path) -> None:
    timeline = apart(count)
    path = sampled(tmp_path / "x.sqlite", every(MS, 0, (1 + 40 * count) * MS, ("hot", "/lib/libhot.so")), timeline)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("update CUPTI_ACTIVITY_KIND_KERNEL set deviceId = correlationId % ?", [count])
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = [text for (text,) in database.rows("select evidence from finding where rule = 'long_idle_gap'")]
    assert found and not [text for text in found if "hardly" in text or "of the time (" in text]
    assert all("samples of the CPU in all of them: 100% in libhot.so (hot)" in text for text in found)


@pytest.mark.parametrize(
    ("period", "said"),
    [
        (1, "100 samples of the CPU there: 100% in program (hot)"),
        (2, "its thread runs in 50% of the time (50 samples): 100% in program (hot)"),
        (4, "its thread runs in 25% of the time (25 samples): 100% in program (hot)"),
        (10, "its thread hardly runs there (10 samples, and room for 100)"),
    ],
)
@pytest.mark.first(2)
def test_how_much_of_the_time_a_thread_runs_is_said(period: int, said: str, tmp_path: Path) -> None:
    """Before the gap it runs all the time, a sample each millisecond."""
    samples = every(MS, -200 * MS, 2 * MS, ("hot", PROGRAM)) + every(period * MS, 2 * MS, 102 * MS, ("hot", PROGRAM))
    evidence, _ = finding(sampled(tmp_path / "x.sqlite", samples, gap(2 * MS, 102 * MS)), tmp_path)
    assert evidence.endswith(f"; {said}")


def test_a_function_is_named_with_its_own_share_and_none_of_another_library(tmp_path: Path) -> None:
    spin, turn = (("spin", PROGRAM),), (("turn", PROGRAM),)
    far = ((None, ZLIB), ("eval", PYTHON), ("eval", PYTHON), ("eval", PYTHON), ("main", ZLIB))
    stacks = [*[spin] * 42, *[turn] * 16, *[far] * 42]
    samples = [Sample((2 + number) * MS, stack) for number, stack in enumerate(stacks)]
    evidence, _ = finding(sampled(tmp_path / "x.sqlite", samples, gap(2 * MS, 102 * MS)), tmp_path)
    assert evidence.endswith("100 samples of the CPU there: 58% in program (spin 42%), 42% in libz.so.1.2.13")


def test_between_steps_it_is_advised_on_input_whatever_the_samples_are(tmp_path: Path) -> None:
    timeline = gap()
    steps = [Range(MAIN, MS // 2, 2 * MS, "step 1"), Range(MAIN, 11 * MS + MS // 2, 13 * MS, "step 2")]
    evidence, advice = finding(sampled(tmp_path / "x.sqlite", IN_ZLIB, replace(timeline, ranges=steps)), tmp_path)
    assert "between two steps" in evidence and evidence.endswith("100% in libz.so.1.2.13 (deflate)")
    assert advice.startswith("Most loops get their input there")
