"""What nsys traced of the operating system: its sums, and that it is named where the CPU is in nothing else."""

import sqlite3
import statistics
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest
import writers
from conftest import corpus_params, opened
from lorabench.analyze.pipeline import analyze
from synthetic import AUTOGRAD, MAIN, Call, Op, Timeline

MS = 1_000_000
PROCESS = 4242 << 24  # of writers
OsCall = tuple[str, int, int, int]  # name, thread, begin, end


def written(path: Path, calls: list[OsCall], inside: list[Call] | None = None) -> Path:
    """Two kernels, and ten milliseconds between them in which the CPU is in `calls` and in CUDA calls."""
    launches = [
        Call(MAIN, 1 * MS, 1 * MS + 5000, "cudaLaunchKernel", 1),
        Call(MAIN, 12 * MS, 12 * MS + 5000, "cudaLaunchKernel", 2),
    ]
    ops = [Op("kernel", "work", 7, 1 * MS + 10_000, 2 * MS, 1), Op("kernel", "work", 7, 12 * MS + 10_000, 13 * MS, 2)]
    return with_system(path, Timeline([], [*launches, *(inside or [])], ops, 13 * MS), calls)


def with_system(path: Path, timeline: Timeline, calls: list[OsCall]) -> Path:
    """A file of nsys with what it traced of the operating system."""
    writers.write_nsys(path, [timeline])
    names = {name: number for number, name in enumerate({name: 0 for name, *_ in calls}, start=1000)}
    with closing(sqlite3.connect(path)) as file:
        ((process,),) = file.execute("select distinct globalPid from CUPTI_ACTIVITY_KIND_KERNEL")
        file.execute(
            "create table OSRT_API (start integer, end integer, eventClass integer, globalTid integer, nameId integer)"
        )
        file.executemany("insert into StringIds values (?, ?)", [(number, name) for name, number in names.items()])
        for name, thread, start, end in calls:
            file.execute("insert into OSRT_API values (?, ?, 27, ?, ?)", [start, end, process + thread, names[name]])
        file.commit()
    return path


def finding(path: Path, folder: Path) -> tuple[str, str]:
    """Evidence and advice of the long gap."""
    with analyze([path], folder / "x.duckdb") as database:
        ((evidence, advice),) = database.rows("select evidence, advice from finding where rule = 'long_idle_gap'")
    return evidence, advice


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sem_clockwait", "It waits there for another thread or process"),
        ("epoll_wait", "It sleeps or waits there for something outside"),
        ("select", "It sleeps or waits there for something outside"),
        ("waitpid", "It waits there for a process that it started"),
        ("recvmsg", "It sends or receives over a network"),
        ("send", "It sends or receives over a network"),
        ("sendfile64", "It writes there"),
        ("getc", "It reads a file, a pipe or a terminal"),
        ("fwrite", "It writes there"),
        ("pthread_cond_timedwait", "It waits there for another thread or process"),
        ("pthread_create", "It is in the operating system there"),
        ("clock_gettime", "It is in the operating system there"),
        ("clock_nanosleep", "The program sleeps there"),
        ("ioctl", "It is in the operating system there"),
    ],
)
@pytest.mark.first(1)
def test_a_gap_in_which_the_cpu_is_in_the_system_alone_says_in_what(name: str, said: str, tmp_path: Path) -> None:
    evidence, advice = finding(written(tmp_path / "x.sqlite", [(name, MAIN, 3 * MS, 11 * MS)]), tmp_path)
    assert evidence.endswith(f"; in it the CPU is in {name}") and advice.startswith(said)


@pytest.mark.parametrize(("other", "said"), [("read", "It waits there for another"), ("poll", "It sleeps or waits")])
@pytest.mark.first(1)
def test_who_polls_beside_threads_that_do_something_may_wait_for_these(other: str, said: str, tmp_path: Path) -> None:
    """Threads that poll alone are in every program with CUDA."""
    calls = [("poll", MAIN, 3 * MS, 11 * MS), (other, AUTOGRAD, 3 * MS, 10 * MS)]
    _, advice = finding(written(tmp_path / "x.sqlite", calls), tmp_path)
    assert advice.startswith(said)


@pytest.mark.parametrize(("longest", "advised"), [("read", "It reads a file"), ("fsync", "It reads a file")])
def test_of_many_gaps_the_function_with_most_of_their_time_is_named(longest: str, advised: str, tmp_path: Path) -> None:
    calls: list[Call] = []
    ops: list[Op] = []
    inside: list[OsCall] = []
    for number in range(20):
        at = (1 + 10 * number) * MS
        late = MS if number == 10 else 0
        calls += [
            Call(MAIN, at, at + 5_000, "cudaLaunchKernel", 2 * number + 1),
            Call(MAIN, at + 5 * MS + late, at + 5 * MS + late + 5_000, "cudaLaunchKernel", 2 * number + 2),
        ]
        ops += [
            Op("kernel", "work", 7, at + 10_000, at + MS, 2 * number + 1),
            Op("kernel", "work", 7, at + 5 * MS + late + 10_000, at + 10 * MS, 2 * number + 2),
        ]
        inside.append((longest if number == 10 else "read", MAIN, at + MS, at + 5 * MS + late - 10_000))
    evidence, advice = finding(with_system(tmp_path / "x.sqlite", Timeline([], calls, ops, 201 * MS), inside), tmp_path)
    assert advice.startswith(advised)
    assert evidence.endswith("the CPU is in read")


@pytest.mark.parametrize(
    "calls",
    [
        [("poll", AUTOGRAD, 3 * MS, 11 * MS)],  # another thread
        [("poll", MAIN, 3 * MS, 6 * MS)],  # less than half of it
        [],
    ],
)
@pytest.mark.first(2)
def test_what_is_in_the_system_elsewhere_or_for_less_says_nothing(calls: list[OsCall], tmp_path: Path) -> None:
    evidence, _ = finding(written(tmp_path / "x.sqlite", calls), tmp_path)
    assert evidence.endswith("in no range or CUDA call")


def test_a_cuda_call_is_named_before_what_it_does_in_the_system(tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.sqlite", [("ioctl", MAIN, 3 * MS, 11 * MS)], [Call(MAIN, 3 * MS, 11 * MS + 5, "cudaHostAlloc", 3)]
    )
    evidence, advice = finding(path, tmp_path)
    assert "in cudaHostAlloc" in evidence and "pinned" in advice


@pytest.mark.parametrize("path", corpus_params("nsys/*.sqlite"))
@pytest.mark.first(2)
def test_calls_of_the_system_are_summed_as_the_file_has_them(path: Path) -> None:
    expected: dict[str, list[int]] = defaultdict(list)
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
        tables = {name for (name,) in file.execute("select name from sqlite_master")}
        for name, length in file.execute(
            "select value, end - start from OSRT_API join StringIds on id = nameId"
            if "OSRT_API" in tables
            else "select 1, 1 where 0"
        ):
            expected[name].append(length)
    with opened(path) as database:
        found = database.rows("select os_name, call_cnt, call_ns, median_ns, min_ns, max_ns from os_summary")
    assert {name: tuple(row) for name, *row in found} == {
        name: (len(all_), sum(all_), statistics.median(all_), min(all_), max(all_)) for name, all_ in expected.items()
    }


@pytest.mark.parametrize(("name", "said"), [("pthread_cond_wait", True), ("ioctl", False)])
def test_memory_of_another_thread_is_waited_for_where_the_own_one_waits(name: str, said: bool, tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.sqlite",
        [(name, MAIN, 3 * MS, 11 * MS)],
        [Call(AUTOGRAD, 3 * MS, 11 * MS + 5, "cudaHostAlloc", 3)],
    )
    evidence, advice = finding(path, tmp_path)
    assert ("cudaHostAlloc on another thread" in evidence) is said
    assert ("pin buffers once" in advice) is said
