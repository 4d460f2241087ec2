"""What is advised about idle gaps beside what a simulated program did in them: the fault, and another of its shape."""

import sqlite3
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import writers
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict.predictions import what_if
from simulated_gpu import Gpu
from synthetic import AUTOGRAD, PAGE, Call, Op, Range

MS = 1_000_000


def calls(gpu: Gpu, name: str, ns: int, tid: int | None = None) -> None:
    """The CPU is in a call that launches nothing."""
    start = gpu.now
    gpu.work(ns)
    gpu.correlation += 1
    gpu.timeline.calls.append(Call(tid or gpu.tid, start, gpu.now, name, gpu.correlation))


def said(run: Gpu, folder: Path, rule: str, *, torch: bool = False) -> tuple[str, str]:
    """Evidence and advice of a rule's most expensive place."""
    trace = folder / "run.sqlite"
    trace.unlink(missing_ok=True)
    if torch:
        first = run.timeline.calls[0]
        run.timeline.ranges.append(Range(first.tid, first.start, first.end, "aten::mm"))
    writers.write_nsys(trace, [run.timeline])
    with analyze([trace], folder / "run.duckdb") as database:
        rows = database.rows(
            "select evidence, advice from finding where rule = ? order by saving_ns desc nulls last limit 1", rule
        )
    assert rows, f"no {rule}"
    return rows[0]


def in_each_step(name: str, ns: int, steps: int = 8) -> Gpu:
    """In each step the CPU is in a call while the GPU has nothing to do."""
    gpu = Gpu(is_pinned=True)
    for step in range(steps):
        with gpu.range(f"step {step}"):
            gpu.launch("gemm_kernel", 500_000)
            gpu.work(510_000)
            calls(gpu, name, ns)
            gpu.launch("gemm_kernel", 500_000)
    return gpu.finished()


@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize(
    ("name", "once", "often"),
    [
        ("cudaHostRegister", "Host memory is pinned there", "Host memory is pinned there"),
        ("cudaMalloc", "A call this long initializes CUDA or a library", "Allocate and free no memory"),
        ("cuLinkComplete", "A call this long initializes CUDA or a library", "Avoid this call within steps"),
    ],
)
@pytest.mark.first(1)
def test_what_takes_a_second_in_every_step_is_not_paid_once(
    name: str, once: str, often: str, steps: int, tmp_path: Path
) -> None:
    _, advice = said(in_each_step(name, 1_200 * MS, steps), tmp_path, "long_idle_gap")
    assert advice.startswith(often if steps > 1 else once)


@pytest.mark.parametrize(
    ("name", "torch", "advised"),
    [
        ("cuMemCreate", False, "Allocate and free no memory"),
        ("cudaStreamCreateWithFlags", False, "Streams, events and handles are created there: create them"),
        ("cublasCreate_v2", False, "Streams, events and handles are created there"),
        ("cudaGraphicsCreate", False, "Avoid this call"),
        ("cudaFreeAsync", False, "A pool releases its memory"),
        ("cudaFreeAsync", True, "PyTorch's pool (backend:cudaMallocAsync) keeps its memory already"),
        ("cudaMallocAsync", True, "PyTorch's pool (backend:cudaMallocAsync) keeps its memory already"),
        ("cudaFreeHost", True, "Pinned host memory is freed"),
        ("cudaMemGetInfo", False, "The driver is queried there"),
    ],
)
@pytest.mark.first(1)
def test_a_call_in_each_step_is_advised_on_by_what_it_does(
    name: str, torch: bool, advised: str, tmp_path: Path
) -> None:
    evidence, advice = said(in_each_step(name, 3 * MS), tmp_path, "long_idle_gap", torch=torch)
    assert evidence.endswith(f"in it the CPU is in {name}") and advice.startswith(advised)


def short_gaps(name: str, times: int = 200) -> Gpu:
    """Before each kernel of 20 us the CPU is in a call for 150 us."""
    gpu = Gpu(is_pinned=True)
    for _ in range(times):
        if name:
            calls(gpu, name, 150_000)
        else:
            gpu.work(150_000)
        gpu.launch("elementwise_kernel", 20_000)
    return gpu.finished()


@pytest.mark.parametrize(
    ("name", "advised"),
    [
        ("cudaMalloc", "Allocate and free no memory"),
        ("cudaMemGetInfo", "The driver is queried there"),
        ("", "Launch fewer and larger kernels"),
    ],
)
@pytest.mark.first(1)
def test_short_gaps_in_which_the_cpu_is_in_a_call_are_not_for_fewer_kernels(
    name: str, advised: str, tmp_path: Path
) -> None:
    run = short_gaps(name)
    evidence, advice = said(run, tmp_path, "launch_bound_range")
    assert advice.startswith(advised)
    assert evidence.endswith(f"of their time the CPU is in {name}" if name else "on average")


def test_a_call_that_others_spend_their_time_in_is_not_that_of_the_gaps(tmp_path: Path) -> None:
    """A thread that takes memory all the time beside the one that launches, and a call that the gaps do not hold."""
    run = short_gaps("")
    for call in [call for call in run.timeline.calls if call.name == "cudaLaunchKernel"]:
        begin, number = call.start, call.correlation + 100_000
        run.timeline.calls.append(Call(AUTOGRAD, begin - 100_000, begin + 40_000, "cudaMalloc", number))
    _, advice = said(run, tmp_path, "launch_bound_range")
    assert advice.startswith("Launch fewer and larger kernels")


@pytest.mark.parametrize(
    ("copies", "is_within", "advised"),
    [
        (30, False, "Merge small copies"),
        (30, True, "Copy less within the device"),
        (2, False, "Launch fewer and larger"),
        (2, True, "Launch fewer and larger"),
    ],
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_gaps_before_small_copies_are_for_fewer_copies(
    copies: int, is_within: bool, advised: str, tmp_path: Path
) -> None:
    gpu = Gpu(is_pinned=True)
    for step in range(12):
        with gpu.range(f"step {step}"):
            for number in range(32):
                gpu.work(120_000)
                if number < copies:
                    gpu.copy(4_000, is_within=is_within)
                else:
                    gpu.launch("elementwise_kernel", 4_000)
            gpu.launch("gemm", 300_000)
    evidence, advice = said(gpu.finished(), tmp_path, "launch_bound_range")
    assert advice.startswith(advised)
    assert ("before copies and memsets of" in evidence) == (copies == 30)


@pytest.mark.parametrize(("count", "advised"), [(30, "Send more at once"), (0, "Launch fewer and larger")])
@pytest.mark.first(1)
def test_gaps_before_many_small_collectives_are_for_buckets(count: int, advised: str, tmp_path: Path) -> None:
    """A collective of a few us for each gradient, each launched late."""
    gpu = Gpu(is_pinned=True)
    for step in range(12):
        with gpu.range(f"step {step}"):
            for number in range(32):
                with gpu.range("nccl:all_reduce" if number < count else "add"):
                    gpu.work(120_000)
                    gpu.launch("ncclDevKernel_AllReduce_Sum_f32" if number < count else "elementwise_kernel", 4_000)
            gpu.launch("gemm", 300_000)
    _, advice = said(gpu.finished(), tmp_path, "launch_bound_range")
    assert advice.startswith(advised)


@pytest.mark.parametrize("are_graphs", [True, False])
@pytest.mark.slow
def test_what_graphs_launch_already_needs_fewer_graphs(are_graphs: bool, tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    for step in range(12):
        with gpu.range(f"step {step}"):
            for _ in range(10):
                gpu.work(300_000)
                with gpu.graph() if are_graphs else nullcontext():
                    for number in range(6):
                        gpu.launch(f"kernel{number}", 10_000)
    _, advice = said(gpu.finished(), tmp_path, "launch_bound_range")
    assert advice.startswith("They are graphs already") == are_graphs


@pytest.mark.parametrize(
    ("times", "advised", "told"),
    [
        (1, "Look at what the CPU did before the launch", "in it, but not in most of the rest, the CPU is in "),
        (50, "Streams, events and handles are created there", "in it the CPU is in "),
    ],
)
@pytest.mark.first(1)
def test_the_longest_gap_alone_does_not_decide_what_to_do_about_many(
    times: int, advised: str, told: str, tmp_path: Path
) -> None:
    gpu = Gpu(is_pinned=True)
    for number in range(50):
        gpu.launch("gemm_kernel", 1_000_000 + number * 137)
        gpu.work(1_000_000)
        if number == 25 or times == 50:
            calls(gpu, "cudaStreamCreate", 5_500_000 if number == 25 else 3_000_000)
        else:
            gpu.work(3_000_000)
        gpu.launch("other" if number % 7 else "another", 100_000)
    evidence, advice = said(gpu.finished(), tmp_path, "long_idle_gap")
    assert advice.startswith(advised) and evidence.endswith(f"{told}cudaStreamCreate")


def test_what_most_gaps_are_spent_in_is_named_though_the_longest_is_not(tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    for number in range(50):
        gpu.launch("gemm_kernel", 1_000_000)
        gpu.work(1_000_000)
        calls(gpu, "cudaEventCreate" if number == 25 else "cudaMalloc", 5_500_000 if number == 25 else 3_000_000)
        gpu.launch("other" if number % 7 else "another", 100_000)
    evidence, advice = said(gpu.finished(), tmp_path, "long_idle_gap")
    assert advice.startswith("Allocate and free no memory") and evidence.endswith("their time the CPU is in cudaMalloc")


@pytest.mark.parametrize("times", [1, 30])
@pytest.mark.slow
def test_one_slow_launch_among_many_gaps_does_not_decide(times: int, tmp_path: Path) -> None:
    """What ended the longest gap was in its own launch for most of it: one of thirty, or one of all."""
    gpu = Gpu(is_pinned=True)
    for number in range(30):
        gpu.launch("gemm_kernel", 1_000_000 + number * 137)
        is_slow = number == 15 or times == 30
        gpu.work(1_100_000 if is_slow else 4_000_000)
        gpu.launch("other", 100_000)
        if is_slow:  # the call returned late, and the copy began behind it
            call, op = gpu.timeline.calls[-1], gpu.timeline.ops[-1]
            late = 3_500_000 if number == 15 else 2_900_000
            gpu.timeline.calls[-1] = replace(call, end=call.end + late, name="cudaMemcpyAsync")
            gpu.timeline.ops[-1] = replace(
                op, kind="memcpy", name="[memcpy]", start=op.start + late, end=op.end + late, is_pageable=False
            )
            gpu.ends[op.stream][-1] += late
            gpu.now += late
    evidence, advice = said(gpu.finished(), tmp_path, "long_idle_gap")
    alone = "in it, but not in most of the rest, the CPU is in cudaMemcpyAsync itself"
    assert evidence.endswith(alone) == (times == 1)
    assert advice.startswith("Look at what the CPU did" if times == 1 else "The call itself takes this long")


@pytest.mark.parametrize("kind", ["memcpy", "memset"])
@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.first(1)
@pytest.mark.slow
def test_a_copy_whose_call_takes_the_gap_came_late(kind: str, is_over: bool, tmp_path: Path) -> None:
    """Pinned: the call begins while the GPU works and takes 3 ms, or it is over and the copy waits for something."""
    gpu = Gpu(is_pinned=True)
    for step in range(12):
        with gpu.range(f"step {step}"):
            gpu.launch("gemm_kernel", 500_000)
            calls(gpu, "cudaMemcpyAsync" if kind == "memcpy" else "cudaMemsetAsync", 3 * MS if is_over else 10_000)
            if not is_over:
                gpu.work(3 * MS)
            begin = gpu.now + 1_000
            gpu.timeline.ops.append(
                Op(kind, f"[{kind}]", 7, begin, begin + 50_000, gpu.correlation, 1 << 20, is_pageable=False)
            )
            gpu.ends[7].append(begin + 50_000)
            gpu.launch("gemm_kernel", 500_000)
    evidence, advice = said(gpu.finished(), tmp_path, "long_idle_gap" if is_over else "long_dependency")
    assert advice.startswith("The call itself takes this long before the device begins" if is_over else "Record alone")
    assert evidence.endswith("itself") == is_over


def test_what_another_thread_calls_is_no_reason_where_nothing_shows_that_it_is_waited_for(tmp_path: Path) -> None:
    """Without the call of the other thread the run would take exactly as long."""
    gpu = Gpu(is_pinned=True)
    for number in range(12):
        gpu.launch("gemm_kernel", 2_000_000 + number * 1_000)
        start = gpu.now
        gpu.work(12_000_000)
        call = Call(AUTOGRAD, start + 2_500_000, start + 11_000_000, "cudaHostAlloc", 100_000 + number)
        gpu.timeline.calls.append(call)
        gpu.launch("gemm_kernel" if number % 3 else "other", 500_000)
    evidence, advice = said(gpu.finished(), tmp_path, "long_idle_gap")
    assert evidence.endswith("the CPU is in no range or CUDA call (another thread in cudaHostAlloc)")
    assert advice.startswith("Name what the CPU does there")


@pytest.mark.parametrize(
    ("system", "begins", "is_told_of_windows"),
    [
        ("Windows 10.0.26200", "Launch fewer and larger kernels (CUDA graphs), or compare with Linux", True),
        ("Ubuntu 22.04.5 LTS", "Record alone", False),
        (None, "Record alone", True),
    ],
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_work_that_the_driver_holds_back_is_that_of_windows_where_it_was_recorded_there(
    system: str | None, begins: str, is_told_of_windows: bool, tmp_path: Path
) -> None:
    gpu = Gpu(is_pinned=True)
    for _ in range(12):
        gpu.launch("gemm_kernel", 500_000)
        calls(gpu, "cudaLaunchKernel", 10_000)
        begin = gpu.now + 3 * MS
        gpu.timeline.ops.append(Op("kernel", "held", 7, begin, begin + 50_000, gpu.correlation))
        gpu.work(4 * MS)
    gpu.finished()
    trace = tmp_path / "run.sqlite"
    writers.write_nsys(trace, [gpu.timeline])
    with closing(sqlite3.connect(trace)) as file, file:
        file.execute("create table TARGET_INFO_SYSTEM_ENV (name text, value text)")
        file.executemany(
            "insert into TARGET_INFO_SYSTEM_ENV values (?, ?)", [("OsDescription", system), ("Hostname", "laptop")]
        )
    with analyze([trace], tmp_path / "run.duckdb") as database:
        ((advice,),) = database.rows("select advice from finding where rule = 'long_dependency'")
        assert database.rows("select host from source") == [("laptop",)]
    assert advice.startswith(begins) and ("Windows" in advice) == is_told_of_windows


@pytest.mark.parametrize("is_to_host", [False, True])
@pytest.mark.first(1)
@pytest.mark.slow
def test_pages_that_the_cpu_touches_are_fetched_back_by_it(is_to_host: bool, tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    gpu.launch("gemm_kernel", 500_000)
    gpu.synchronise()
    for _ in range(40):
        gpu.work(1_000_000)
        gpu.timeline.ops.append(Op("memcpy", PAGE, 0, gpu.now, gpu.now + 20_000, 0, 65_536, to_host=is_to_host))
        gpu.work(20_000)
    evidence, advice = said(gpu.finished(), tmp_path, "unified_memory")
    with analyze([tmp_path / "run.sqlite"]) as database:
        (limit,) = what_if(database, ["cpu=*:0"]).to_dicts()
    assert limit["saving_ns"] is None and "pages of managed memory" in limit["note"]
    assert evidence.startswith("40 gaps of 1.0 ms") and evidence.endswith("mostly to the CPU") == is_to_host
    assert advice.startswith("The CPU touches pages that are on the GPU" if is_to_host else "Prefetch pages")


@pytest.mark.parametrize("reads", ["within", "between", None])
@pytest.mark.first(1)
@pytest.mark.slow
def test_what_lies_between_steps_is_no_input_where_that_is_read_within_them(reads: str | None, tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    for step in range(12):
        with gpu.range(f"step {step}"):
            if reads == "within":
                with gpu.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
                    gpu.work(20_000)
            for _ in range(10):
                gpu.launch("gemm", 800_000)
            gpu.synchronise()
        if reads == "between":
            with gpu.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
                gpu.work(20_000)
        gpu.work(20 * MS)
    evidence, advice = said(gpu.finished(), tmp_path, "host_work", torch=True)
    assert "between two steps" in evidence
    assert advice.startswith("Input is read within the steps" if reads == "within" else "Most loops get their input")


@pytest.mark.parametrize("name", ["cudaLaunchHostFunc", "cudaEventRecord"])
@pytest.mark.slow
def test_work_behind_a_function_of_the_cpu_is_not_missing(name: str, tmp_path: Path) -> None:
    """The stream waits for 3 ms, and the CPU waits for the stream."""
    gpu = Gpu(is_pinned=True)
    for step in range(20):
        with gpu.range(f"step {step}"):
            for _ in range(4):
                gpu.launch("gemm", 1_000_000)
            calls(gpu, name, 5_000)
            gpu.ends[7][-1] += 3 * MS
            for _ in range(4):
                gpu.launch("gemm", 1_000_000)
            gpu.synchronise()
    is_hosted = name == "cudaLaunchHostFunc"
    evidence, advice = said(gpu.finished(), tmp_path, "long_dependency" if is_hosted else "unrecorded_work")
    assert advice.startswith("Work behind a host function" if is_hosted else "What it waits for was launched before")
    assert evidence.endswith("100% of it after a host function in the stream") == is_hosted


@pytest.mark.parametrize("are_missing", [True, False])
@pytest.mark.slow
def test_where_kernels_of_graphs_are_missing_they_are_what_is_waited_for(are_missing: bool, tmp_path: Path) -> None:
    gpu = Gpu(is_pinned=True)
    for _ in range(12):
        with gpu.graph() if are_missing else nullcontext():
            gpu.launch("first", 500_000)
            if are_missing:
                gpu.ends[7][-1] += 2 * MS
            gpu.launch("last", 500_000)
        for _ in range(3):
            gpu.launch("gemm", 500_000)
        gpu.ends[7][-1] += 2 * MS
        gpu.launch("behind", 500_000)
        gpu.synchronise()
    _, advice = said(gpu.finished(), tmp_path, "unrecorded_work")
    assert advice.startswith("Kernels of CUDA graphs are missing") == are_missing


def test_many_gaps_inside_the_range_that_they_are_of_say_how_many(tmp_path: Path) -> None:
    """The range around the place itself is not said again, and nothing else is there."""
    gpu = Gpu(is_pinned=True)
    for _ in range(12):
        gpu.launch("gemm_kernel", 500_000)
        with gpu.range("update"):
            gpu.work(4 * MS)
            gpu.launch("gemm_kernel", 500_000)
    evidence, advice = said(gpu.finished(), tmp_path, "long_idle_gap")
    assert evidence.startswith("12 gaps, the longest 3.5 ms, ended by gemm")
    assert advice.startswith("Look at what the CPU did before the launch")
