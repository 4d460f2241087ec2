"""Findings beside what a simulated GPU does: the fault that costs, no fault, and the fault that something hides."""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import corpus_params, quick
from lorabench import sql
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict.predictions import what_if
from lorabench.analyze.store.database import Database
from lorabench.reports.answer.answer import answer
from lorabench.reports.answer.verdict_text import verdict
from simulated_gpu import COMPUTE, COPIES, Gpu, Training
from synthetic import Call, Range

LAUNCHES, COMPUTES = Training(kernel=6_000), Training(kernel=400_000)


def pinned() -> Gpu:
    return Gpu(is_pinned=True)


def copies_ahead(gpu: Gpu) -> Gpu:
    """Copies on a stream of their own from pinned memory, each a step ahead of the work that needs it."""
    for step in range(6):
        with gpu.range(f"step {step}"):
            gpu.copy(2_000_000, COPIES)
            for _ in range(20):
                gpu.work(10_000)
                gpu.launch("matmul_gemm_kernel", 400_000)
    return gpu.finished()


def waits_for_nothing(gpu: Gpu) -> Gpu:
    """Synchronisations with a stream that has nothing to do, while another one is busy."""
    gpu.launch("first", 1_000, COPIES)
    for step in range(6):
        with gpu.range(f"step {step}"):
            for _ in range(20):
                gpu.work(10_000)
                gpu.launch("matmul_gemm_kernel", 400_000)
                gpu.synchronise(COPIES)
    return gpu.finished()


def asks_early(host: int, *, waits: bool = True) -> Gpu:
    """The CPU waits for a side stream while the queue is full: the GPU works on, and the work behind it comes late."""
    gpu = pinned()
    for step in range(8):
        with gpu.range(f"step {step}"):
            gpu.launch("small_result_kernel", 1_000_000, COPIES)
            for _ in range(20):
                gpu.work(4_000)
                gpu.launch("matmul_gemm_kernel", 100_000)
            if waits:
                gpu.synchronise(COPIES)
            gpu.work(host)
    return gpu.finished()


@dataclass(frozen=True)
class Fault:
    """Runs with a fault, with it removed, and with the fault where it costs nothing."""

    rule: str
    costs: Callable[[], Gpu]
    without: Callable[[], Gpu]
    hidden: Callable[[], Gpu]


FAULTS = [
    Fault(
        "lost_lead",
        lambda: asks_early(1_500_000),
        lambda: asks_early(1_500_000, waits=False),
        lambda: asks_early(100_000),
    ),
    Fault(
        "late_input",
        lambda: replace(COMPUTES, load=60_000_000).run(pinned()),
        lambda: COMPUTES.run(pinned()),
        lambda: replace(COMPUTES, load=3_000_000).run(pinned()),
    ),
    *(
        Fault(
            rule,
            lambda reads=reads: replace(COMPUTES, load=60_000_000, reads=reads).run(pinned()),
            lambda: COMPUTES.run(pinned()),
            lambda reads=reads: replace(COMPUTES, load=3_000_000, reads=reads).run(pinned()),
        )
        for rule, reads in (("late_input", "between"), ("long_idle_gap", "unnamed"))
    ),
    Fault(
        "synchronisation",
        lambda: replace(COMPUTES, kernel=40_000, syncs=True).run(pinned()),
        lambda: replace(COMPUTES, kernel=40_000).run(pinned()),
        lambda: waits_for_nothing(pinned()),
    ),
    Fault(
        "pageable_async_copy",
        lambda: replace(LAUNCHES, copy=2_000_000).run(Gpu()),
        lambda: replace(LAUNCHES, copy=2_000_000).run(pinned()),
        lambda: replace(COMPUTES, kernel=4_000_000, copy=2_000_000).run(Gpu()),
    ),
    Fault(
        "exposed_copy",
        lambda: replace(COMPUTES, copy=2_000_000).run(pinned()),
        lambda: replace(COMPUTES, copy=0).run(pinned()),
        lambda: copies_ahead(pinned()),
    ),
    Fault(
        "tiny_kernels",
        lambda: replace(COMPUTES, optimizer=300).run(pinned()),
        lambda: replace(COMPUTES, optimizer=300, fused=True).run(pinned()),
        lambda: replace(LAUNCHES, optimizer=300).run(pinned()),
    ),
    Fault(
        "launch_bound_range",
        lambda: LAUNCHES.run(pinned()),
        lambda: replace(LAUNCHES, host=0, captured="forward").run(pinned()),
        lambda: COMPUTES.run(pinned()),
    ),
]


def recorded(run: Gpu, folder: Path) -> Database:
    """What nsys would have written of a run, read."""
    trace = folder / "run.sqlite"
    trace.unlink(missing_ok=True)
    writers.write_nsys(trace, [run.timeline])
    return analyze([trace], folder / "run.duckdb")


def findings(run: Gpu, folder: Path) -> dict[str, int]:
    """What each rule saves, of all its places."""
    with recorded(run, folder) as database:
        return dict(database.rows("select rule, sum(saving_ns)::bigint from finding group by rule"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.rule)
@pytest.mark.first(1)
def test_a_finding_saves_what_removing_its_fault_saves(fault: Fault, tmp_path: Path) -> None:
    before = fault.costs()
    saved = before.timeline.end - fault.without().timeline.end
    found = findings(before, tmp_path)
    # of input that is late before the first kernel no device was idle
    first = before.timeline.ops[0].start if fault.rule in ("late_input", "long_idle_gap") else 0
    assert 0.8 * (saved - first) <= found[fault.rule] <= 1.02 * saved or fault.rule == "launch_bound_range"


def offloads(gpu: Gpu) -> Gpu:
    """Results go to the CPU on a stream of their own, and nothing needs them there."""
    for step in range(8):
        with gpu.range(f"step {step}"):
            for _ in range(10):
                gpu.work(5_000)
                gpu.launch("matmul_gemm_kernel", 200_000)
            with gpu.range("offload"):
                gpu.stream_waits(COPIES, COMPUTE)
                gpu.copy(1_000_000, COPIES)
    return gpu.finished()


def test_a_copy_that_blocks_costs_what_it_would_hide_behind(tmp_path: Path) -> None:
    """The GPU is hardly idle: it copies while it has nothing else to do, as the CPU waits."""
    run = offloads(Gpu())
    saved = run.timeline.end - offloads(pinned()).timeline.end
    with recorded(run, tmp_path) as database:
        ((found, evidence),) = database.rows(
            "select saving_ns, evidence from finding where rule = 'pageable_async_copy'"
        )
        ((idle, exposed),) = database.rows(
            "select host_idle_ns + dependency_idle_ns + kernel_wait_ns, exposed_memory_ns from steady_state"
        )
        every = dict(database.rows("select rule, sum(saving_ns) from finding where saving_ns > 0 group by rule"))
    assert found == pytest.approx(saved, rel=0.02) and found > 5 * idle
    assert "of them would be hidden" in evidence
    assert sum(every.values()) <= idle + exposed


def test_calls_that_free_memory_are_told_from_synchronisations(tmp_path: Path) -> None:
    run = replace(COMPUTES, kernel=100_000, frees=2).run(pinned())
    with recorded(run, tmp_path) as database:
        ((calls, advice),) = database.rows("select evidence, advice from finding where rule = 'synchronisation'")
        waits = database.rows("select count(*), count(distinct kind) from waiting_call join name using (name_id) "
                              "where text = 'cudaFree' and kind = 'device'")  # fmt: skip
    assert "of cudaFree" in calls and advice.startswith("Allocate and free no memory")
    assert waits == [(6, 1)], "the second of each step finds nothing to wait for"


@pytest.mark.slow
def test_without_calls_nobody_knows_why_the_gpu_is_idle(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    trace = tmp_path / "hw.sqlite"
    writers.write_nsys(trace, [LAUNCHES.run(pinned()).timeline])
    with closing(sqlite3.connect(trace)) as file:
        for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
            file.execute(f"drop table {table}")
        file.commit()
    said = run_command("summary", trace).out
    assert "calls that launched the GPU's work are not recorded, so why it is idle is not known" in " ".join(
        said.split()
    )
    assert "host" not in said and "dependency" not in said
    assert "are not recorded" in run_command("what-if", trace).out


@pytest.mark.slow
def test_input_that_is_late_is_what_the_first_line_says(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    trace = tmp_path / "late.sqlite"
    writers.write_nsys(trace, [replace(COMPUTES, load=60_000_000).run(pinned()).timeline])
    assert "\nthe input sets the pace: " in run_command("summary", trace).out
    assert "all the GPU waits for input" in run_command("what-if", trace).out.replace("\n  ", " ")
    writers.write_nsys(tmp_path / "host.sqlite", [LAUNCHES.run(pinned()).timeline])
    assert "\nthe CPU sets the pace: " in run_command("summary", tmp_path / "host.sqlite").out


@pytest.mark.parametrize("fault", quick(3, FAULTS), ids=lambda fault: fault.rule)
@pytest.mark.slow
def test_no_fault_and_a_fault_that_costs_nothing_are_not_listed(fault: Fault, tmp_path: Path) -> None:
    hidden = findings(fault.hidden(), tmp_path)
    assert hidden.get(fault.rule, 0) <= 0.002 * fault.hidden().timeline.end
    if fault.rule != "launch_bound_range":
        assert fault.rule not in findings(fault.without(), tmp_path) or fault.rule == "exposed_copy"


def test_late_input_saves_the_time_of_the_input_and_not_the_rest_of_the_gap(tmp_path: Path) -> None:
    """The CPU reads for 6 ms, and works for 4 ms more before it launches again."""
    gpu = Gpu()
    for step in range(6):
        with gpu.range(f"step {step}"):
            with gpu.range("load batch"):
                gpu.work(6_000_000)
            gpu.work(4_000_000)
            for _ in range(4):
                gpu.launch("gemm", 500_000)
            gpu.synchronise()
    with recorded(gpu.finished(), tmp_path) as database:
        ((saved, gaps),) = database.rows(
            "select saving_frac, limit_ns / window_ns from _predicted_finding join finding using (source_id, rule) "
            "join _mean_window using (source_id) where rule = 'late_input'"
        )
        assert saved == pytest.approx(6 / 12, abs=0.02)
        assert gaps == pytest.approx(10 / 12, abs=0.02)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("load", [60_000_000, 400_000])
@pytest.mark.slow
def test_input_that_the_first_step_begins_with_counts(steps: int, load: int, tmp_path: Path) -> None:
    """A profile of one step would else say that the GPU is busy: no work comes before what it waits for."""
    training = replace(COMPUTES, steps=steps, load=load)
    before, without = training.run(pinned()), replace(training, load=0).run(pinned())
    saved = before.timeline.end - without.timeline.end
    with recorded(before, tmp_path) as database:
        found = dict(database.rows("select rule, sum(saving_ns)::bigint from finding group by rule"))
        ((window_ns, parts_ns),) = database.rows(
            "select window_ns, compute_ns + exposed_communication_ns + exposed_memory_ns + host_idle_ns "
            "+ dependency_idle_ns + kernel_wait_ns from steady_state"
        )
        ((idle_ns, summed_ns),) = database.rows(
            "select (select sum(idle_ns) from idle_summary), (select sum(idle_ns) from gpu_timeline_summary)"
        )
    if load < 500_000:
        assert "late_input" not in found
    else:
        assert 0.9 * saved <= found["late_input"] <= 1.02 * saved
    assert window_ns == parts_ns
    assert idle_ns == summed_ns, "these are about all from the first GPU work on"


@pytest.mark.parametrize(
    ("name", "call", "advice"),
    [("NCCL:ncclCommInitRank", "cudaStreamCreate", "A communicator is created"),
     ("exchange", "cudaProfilerStop", "A profiler begins or ends"),
     ("exchange", "cudaMalloc", "Allocate and free no memory")],
)  # fmt: skip
@pytest.mark.first(1)
def test_what_to_do_about_a_call_that_the_gpu_waits_for_depends_on_the_call(
    name: str, call: str, advice: str, tmp_path: Path
) -> None:
    gpu = pinned()
    for _ in range(4):
        gpu.launch("elementwise_kernel", 100_000)
        with gpu.range(name):
            start = gpu.now
            gpu.work(5_000_000)
            gpu.timeline.calls.append(Call(gpu.tid, start, gpu.now, call, 1_000_000 + start))
            gpu.launch("elementwise_kernel", 100_000)
    with recorded(gpu.finished(), tmp_path) as database:
        ((found,),) = database.rows("select advice from finding where rule = 'long_idle_gap'")
    assert found.startswith(advice)


def waits_in(call: str) -> Callable[[Gpu], None]:
    """Waits for all that is queued in a call of this name."""

    def act(gpu: Gpu) -> None:
        gpu.synchronise()
        gpu.timeline.calls[-1] = replace(gpu.timeline.calls[-1], name=call)

    return act


def gives_and_waits(gpu: Gpu) -> None:
    gpu.copy(2_000)
    gpu.timeline.ops[-1] = replace(gpu.timeline.ops[-1], bytes=8)
    gpu.synchronise(7)


def reads_and_waits_for_all(gpu: Gpu) -> None:
    gpu.read_back(2_000, waits_for=None)


def frees_now_and_then(gpu: Gpu) -> None:
    if len(gpu.timeline.calls) % 4:
        gpu.read_back(2_000)
    else:
        gpu.free()


@pytest.mark.parametrize(
    ("wait", "advice"),
    [(Gpu.read_back, "The CPU reads a result back"),
     (reads_and_waits_for_all, "The CPU reads a result back"),
     (frees_now_and_then, "The CPU reads a result back"),
     (gives_and_waits, "Small copies (8 bytes on average)"),
     (lambda gpu: gpu.synchronise(7), "Move it after the step, or do it every N steps"),
     (Gpu.synchronise, "Leave it out, or do it every N steps: a synchronize()"),
     (waits_in("cuCtxSynchronize"), "Leave it out, or do it every N steps"),
     (waits_in("cudaEventSynchronize"), "The CPU waits for an event"),
     (Gpu.free, "Allocate and free no memory"),
     (waits_in("cudaFreeHost"), "Host memory is pinned or freed"),
     (waits_in("cudaHostAlloc"), "Host memory is pinned or freed"),
     (waits_in("cuModuleUnload"), "GPU code is unloaded")],
    ids=["a result", "a result and all", "results, and once memory", "small copies", "a stream", "all", "a context",
         "an event", "memory", "host memory", "memory to pin", "a module"],
)  # fmt: skip
@pytest.mark.slow
def test_what_to_do_about_a_wait_depends_on_what_the_cpu_waits_for(
    wait: Callable[[Gpu], None], advice: str, tmp_path: Path
) -> None:
    gpu = pinned()
    for _ in range(8):
        for _ in range(4):
            gpu.launch("vector_add", 200_000)
        wait(gpu)
        gpu.work(1_000_000)
    with recorded(gpu.finished(), tmp_path) as database:
        found = [row[0] for row in database.rows("select advice from finding where rule = 'synchronisation'")]
    assert [text for text in found if text.startswith(advice)] == found != []


@pytest.mark.parametrize("has_steps", [True, False])
@pytest.mark.parametrize(
    ("call", "again"),
    [
        ("cuModuleLoadData", "What the code was specialized on changes"),
        ("cudaGraphInstantiate", "Graphs are rebuilt again and again"),
    ],
)
@pytest.mark.slow
def test_what_is_made_ready_all_the_time_is_not_paid_once(
    call: str, again: str, has_steps: bool, tmp_path: Path
) -> None:
    def made(when: Callable[[int], bool]) -> tuple[str, bool]:
        gpu = pinned()
        for number in range(12):
            with gpu.range(f"step {number}") if has_steps else nullcontext():
                if when(number):
                    gpu.timeline.calls.append(Call(gpu.tid, gpu.now, gpu.now + 3_000_000, call, 1_000_000 + number))
                    gpu.work(3_000_000)
                for length in (100_000, 200_000, 100_000):
                    gpu.launch(f"vector_{length}", length)
                gpu.synchronise()
        with recorded(gpu.finished(), tmp_path) as database:
            rows = "select advice, is_once from _answer_rule where rule = 'compiling_or_loading'"
            ((advice, is_once),) = database.rows(rows)
        return advice, is_once

    advice, is_once = made(lambda number: True)
    assert advice.startswith(again) and not is_once
    advice, is_once = made(lambda number: number == 5)
    assert ("paid once" in advice) == is_once
    assert is_once or (has_steps and call == "cudaGraphInstantiate")


@pytest.mark.parametrize("has_steps", [True, False])
@pytest.mark.slow
def test_kernels_that_load_at_their_first_launch_are_paid_once_wherever_they_come(
    has_steps: bool, tmp_path: Path
) -> None:
    """All over a recording each kernel is loaded once; that is no recompilation."""
    gpu = Gpu(is_pinned=True, load=3_000_000)
    for number in range(12):
        with gpu.range(f"step {number}") if has_steps else nullcontext():
            for name in ("gemm", f"of_shape_{number}"):
                gpu.launch(name, 100_000)
            gpu.synchronise()
    with recorded(gpu.finished(), tmp_path) as database:
        ((advice, is_once),) = database.rows(
            "select advice, is_once from _answer_rule where rule = 'compiling_or_loading'"
        )
    assert "paid once" in advice and is_once


def pausing(gpu: Gpu, inside: str | None, pause: int = 60_000_000) -> Gpu:
    """A loop that waits for its results in each of many short turns, and once does something long."""
    for number in range(40):
        gpu.launch("gemm", 200_000)
        gpu.synchronise()
        if number == 20:
            with gpu.range(inside) if inside else nullcontext():
                gpu.work(pause)
        gpu.work(300_000)
    return gpu.finished()


def test_one_pause_is_not_said_to_be_many_gaps(tmp_path: Path) -> None:
    with recorded(pausing(pinned(), None, 600_000_000), tmp_path) as database:
        (evidence,) = database.rows(
            "select evidence from finding where saving_ns > 5e7 and rule in ('host_work', 'long_idle_gap')"
        )[0]
    assert re.match(r"a gap of 600\.\d ms, ended by gemm \(and \d+ more of \d+\.\d us on average\)", evidence)


@pytest.mark.parametrize(
    "inside", ["executor_utils::Nvrtc::CompileProgram", "FusionKernelRuntime::compileFusionParallel", "XLA compilation"]
)
@pytest.mark.first(1)
def test_what_compiles_in_a_range_is_not_called_input_or_logging(inside: str, tmp_path: Path) -> None:
    with recorded(pausing(pinned(), inside), tmp_path) as database:
        advice = database.rows("select advice from finding where saving_ns > 5e7")[0][0]
    assert advice.startswith("Something is compiled there, which is paid once")


@pytest.mark.parametrize("inside", ["CompiledFunction", "decompiled", "save checkpoint"])
@pytest.mark.slow
def test_what_was_compiled_before_is_no_compiling(inside: str, tmp_path: Path) -> None:
    with recorded(pausing(pinned(), inside), tmp_path) as database:
        assert "is compiled there" not in database.rows("select advice from finding where saving_ns > 5e7")[0][0]


@pytest.mark.parametrize(("is_beside", "reads"), [(True, True), (True, False), (False, False)])
@pytest.mark.first(1)
def test_copies_that_are_asynchronous_already_are_not_to_become_so(
    is_beside: bool, reads: bool, tmp_path: Path
) -> None:
    gpu = pinned()
    for step in range(6):
        with gpu.range(f"step {step}"):
            gpu.copy(2_000_000, COPIES if is_beside else COMPUTE)
            gpu.stream_waits(COMPUTE, COPIES)
            for _ in range(20):
                gpu.launch("matmul_gemm_kernel", 50_000)
            if reads:
                gpu.read_back()
            gpu.synchronise()
    with recorded(gpu.finished(), tmp_path) as database:
        advice = [row[0] for row in database.rows("select advice from finding where rule = 'exposed_copy'")]
    assert advice and all(text.startswith("These copies are asynchronous") is is_beside for text in advice)


@pytest.mark.parametrize("call", ["cudaEventQuery", "cudaStreamQuery"])
@pytest.mark.slow
def test_a_cpu_that_asks_over_and_over_waits(call: str, tmp_path: Path) -> None:
    """Kernels that are twice as fast halve what it waits: it does not work meanwhile."""

    def runs(factor: float, polls: bool = True) -> Gpu:
        gpu = Gpu(is_pinned=True, factor=lambda name: factor)
        for number in range(12):
            with gpu.range(f"step {number}"):
                for _ in range(6):
                    gpu.launch("gemm", 500_000)
                if polls:
                    gpu.poll(call)
                else:
                    gpu.synchronise(COMPUTE)
                gpu.work(200_000)
        return gpu.finished()

    run = runs(1)
    saved = run.timeline.end - runs(0.5).timeline.end
    with recorded(run, tmp_path) as database:
        found = answer(database)
        (change,) = what_if(database, ["scale=gemm:0.5"]).to_dicts()
        waits = database.rows("select kind, count(*) from waiting_call group by all")
        found_by_rule = {row["rule"]: row["saving_ns"] for row in found["findings"]}
    with recorded(runs(1, polls=False), tmp_path) as database:
        waited = {row["rule"]: row["saving_ns"] for row in answer(database)["findings"]}
    assert waits == [("event" if "Event" in call else "stream", 12)]
    assert change["saving_ns"] * change["step_cnt"] == pytest.approx(saved, rel=0.02)
    assert verdict(found).startswith("GPU-bound")
    assert found_by_rule["synchronisation"] == pytest.approx(waited["synchronisation"], rel=0.05)


def test_events_that_are_looked_at_in_passing_are_no_wait(tmp_path: Path) -> None:
    """As an allocator does that asks which blocks are free, between launches and behind one another."""
    gpu = pinned()
    for _ in range(40):
        gpu.launch("gemm", 20_000)
        for _ in range(3):
            with gpu._call("cudaEventQuery"):
                pass
    for _ in range(4):  # of a queue that goes on: it was not what they asked for
        for _ in range(40):
            gpu.launch("gemm", 200_000)
        for _ in range(20):
            with gpu._call("cudaEventQuery"):
                pass
            gpu.work(5_000)
            gpu.launch("gemm", 200_000)
    with recorded(gpu.finished(), tmp_path) as database:
        assert database.rows("select count(*) from waiting_call where kind <> 'queue'") == [(0,)]


def told_to_wait(number: int) -> Gpu:
    """Kernels that begin long after their launch; a program with an odd number has told their stream to wait."""
    gpu = pinned()
    for _ in range(6):
        gpu.launch("vector_add", 300_000)
        if number % 2:
            gpu.stream_waits(COMPUTE, COPIES)
        else:
            gpu.work(7_000)  # launches when a program beside it has just told its stream
        gpu.awaited[COMPUTE] = gpu.ends[COMPUTE][-1] + 800_000 + 50_000 * number
        gpu.launch("vector_add", 300_000)
        gpu.work(1_600_000)  # waiting, it would be for work that is not recorded
    return gpu.finished()


def tiny(kernel: str) -> Gpu:
    """Kernels of PyTorch one behind the other, each of which takes little longer than the distance to the next."""
    gpu = pinned()
    gpu.launch("void at::native::gemm", 1_000_000)
    for _ in range(60):
        gpu.launch(kernel, 2_000)
    return gpu.finished()


@pytest.mark.slow
def test_a_trace_says_the_same_beside_others(tmp_path: Path) -> None:
    """Programs that number their threads, streams and calls alike share nothing in one database."""
    runs = [told_to_wait(number) for number in range(4)]
    runs += [replace(COMPUTES, kernel=100_000, frees=2).run(pinned()), LAUNCHES.run(Gpu()), offloads(Gpu())]
    runs += [tiny("void at::native::vectorized_elementwise_kernel<4, add>"),
             tiny("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>")]  # fmt: skip
    asked = "select rule, place, saving_ns, evidence, advice from finding where source_id = {} order by all"
    traces, alone = [], []
    for number, run in enumerate(runs):
        traces.append(tmp_path / f"program{number}.sqlite")
        writers.write_nsys(traces[-1], [run.timeline])
        with analyze([traces[-1]], tmp_path / f"alone{number}.duckdb") as database:
            alone.append(database.rows(asked.format(1)))
    with analyze(traces, tmp_path / "all.duckdb") as database:
        names = dict(database.rows("select name, source_id from source"))
        beside = [database.rows(asked.format(names[trace.name])) for trace in traces]
    assert beside == alone
    tips = [advice for rows in alone[-2:] for rule, _, _, _, advice in rows if rule == "tiny_kernels"]
    assert ["optimizer" in advice for advice in tips] == [False, True]
    assert any("told to wait" in str(row) for rows in alone[1::2] for row in rows), "or nothing was tried"


def two_threads(pause: int) -> Gpu:
    """A thread that pauses before it launches, then the thread of the backward, over and over."""
    gpu = pinned()
    for _ in range(3):
        gpu.work(pause)
        for _ in range(4):
            gpu.launch("elementwise_kernel", 100_000)
        with gpu.backward_thread():
            for _ in range(4):
                gpu.launch("elementwise_kernel", 100_000)
    return gpu.finished()


def test_a_thread_that_goes_on_behind_another_one_waited_for_it(tmp_path: Path) -> None:
    """What the other one did before it launched is in no call: it is not the first one's own work."""
    run, without = two_threads(50_000_000), two_threads(0)
    first = 50_000_000  # before any work
    saved = run.timeline.end - without.timeline.end - first
    assert findings(run, tmp_path)["long_idle_gap"] == pytest.approx(saved, rel=0.05)


def late(times: int) -> Gpu:
    """A program without ranges whose kernels are all launched late."""
    gpu = pinned()
    for number in range(times):
        gpu.work(3_000_000 + number)
        gpu.launch("elementwise_kernel", 100_000)
    return gpu.finished()


@pytest.mark.slow
def test_processes_of_one_file_save_what_they_save_on_average(tmp_path: Path) -> None:
    """The longest alone would be no shorter for what others wait for; and all shares are of the mean of the windows."""
    runs = [late(10), late(30)]
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline for run in runs], are_processes=True)
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        windows = [window for (window,) in database.rows("select window_ns from steady_state")]
        found = database.rows("select saving_ns, saving_frac, rule from finding where rule <> 'dominant_kernel'")
        told = answer(database)
    assert len(set(windows)) == 2
    mean = sum(windows) / 2
    idle = mean - 100_000 * 20
    assert sum(saving for saving, _, _ in found) == pytest.approx(idle, rel=0.02)
    assert sum(share for _, share, _ in found) == pytest.approx(told["parts"]["host"], rel=0.02)
    assert told["window_ns"] == round(mean)


@pytest.mark.parametrize("works", [False, True])
@pytest.mark.first(1)
def test_a_cpu_that_waits_at_the_first_steps_begin_waits_for_what_is_not_recorded(works: bool, tmp_path: Path) -> None:
    """The recording begins in the middle of a program: the last step's kernels are still running, and are not in it."""
    gpu = pinned()
    with gpu.range("step 0"):
        begin = gpu.now
        gpu.work(30_000_000)
        if not works:
            gpu.timeline.calls.append(Call(gpu.tid, begin, gpu.now, "cudaDeviceSynchronize", 999))
        gpu.launch("matmul_gemm_kernel", 2_000_000)
    with recorded(gpu.finished(), tmp_path) as database:
        found = database.rows(
            "select rule, saving_ns is null from finding where rule in ('unrecorded_work', 'long_idle_gap')"
        )
    assert found == [("long_idle_gap", False) if works else ("unrecorded_work", True)]


def test_the_stream_of_the_work_is_the_one_that_matters() -> None:
    assert {op.stream for op in COMPUTES.run(pinned()).timeline.ops} == {COMPUTE}


@pytest.mark.parametrize("padding", [0.0, 0.05, 0.4])
@pytest.mark.slow
def test_padding_costs_its_share_of_what_the_gpu_computes(padding: float, tmp_path: Path) -> None:
    rows = [f"timing,{step},a,1000,{round(1000 * (1 - padding))}" for step in range(6)]
    head = "pass,step,adapter,computed_token_cnt,token_cnt"
    (tmp_path / "steps.csv").write_text("\n".join([head, *rows]), "utf-8")
    run = COMPUTES.run(pinned())
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        assert database.rows("select padding_frac from step_statistics") == [(pytest.approx(padding),)]
        found = database.rows("select saving_ns, evidence from finding where rule = 'padding'")
        ((nobodys,),) = database.rows("select sum(critical_ns) from _blamed_kernel where rule is null")
    if padding < 0.1:
        assert found == []
    else:
        assert found == [(pytest.approx(padding * nobodys), "40 % of 1,000 tokens a step are padding")]
        assert nobodys <= sum(op.end - op.start for op in run.timeline.ops if op.kind == "kernel")


def test_a_wait_inside_a_gap_hides_none_of_it(tmp_path: Path) -> None:
    """The CPU does something else, asks an idle GPU whether it is done, as profilers do, and goes on."""

    def program(pause: int) -> Gpu:
        gpu = pinned()
        for step in range(8):
            with gpu.range(f"step {step}"):
                for _ in range(20):
                    gpu.work(4_000)
                    gpu.launch("matmul_gemm_kernel", 40_000)
                gpu.work(2_000_000)
                gpu.synchronise()
                gpu.work(pause)
                gpu.synchronise()
                gpu.work(20_000)
        return gpu.finished()

    run = program(20_000_000)
    saved = run.timeline.end - program(0).timeline.end
    # behind the last step no work waits for the CPU
    assert 0.95 * saved * 7 / 8 <= findings(run, tmp_path)["long_idle_gap"] <= 1.02 * saved


@pytest.mark.parametrize("pause", [100_000, 2_000_000, 10_000_000])
@pytest.mark.slow
def test_work_behind_a_wait_saves_what_the_wait_leaves(pause: int, tmp_path: Path) -> None:
    """The CPU asks for a result in each step and works on before it launches: without the wait some of it hides."""

    def program(pause: int, *, waits: bool) -> Gpu:
        gpu = pinned()
        for step in range(8):
            with gpu.range(f"step {step}"):
                with gpu.range("forward"):
                    for _ in range(20):
                        gpu.work(4_000)
                        gpu.launch("matmul_gemm_kernel", 100_000)
                if waits:
                    gpu.synchronise()
                gpu.work(pause)
        return gpu.finished()

    run = program(pause, waits=True)
    ahead, idle = program(pause, waits=False).timeline.end, program(0, waits=False).timeline.end
    found = findings(run, tmp_path)
    # behind the last step no work waits for the CPU
    assert 0.95 * (run.timeline.end - ahead) * 7 / 8 <= found["synchronisation"] <= 1.02 * (run.timeline.end - ahead)
    assert 0.95 * (ahead - idle) * 7 / 8 <= found.get("host_work", 0) <= 1.02 * (ahead - idle)


@pytest.mark.parametrize("kernel", [20_000, 800_000, 1_900_000, 4_000_000])
@pytest.mark.slow
def test_copies_hide_behind_other_work_alone(kernel: int, tmp_path: Path) -> None:
    """In each step 20 MB are copied and 10 kernels run: that can hide as far as there is work beside it."""

    def program(stream: int) -> Gpu:
        gpu = pinned()
        for step in range(8):
            with gpu.range(f"step {step}"):
                gpu.copy(20_000_000, stream)
                for _ in range(10):
                    gpu.work(4_000)
                    gpu.launch("matmul_gemm_kernel", kernel)
        return gpu.finished()

    run = program(COMPUTE)
    saved = run.timeline.end - program(COPIES).timeline.end
    with recorded(run, tmp_path) as database:
        ((hidden_ns,),) = database.rows("select saving_ns from followed_rule where rule = 'hidden_copy'")
        asked = "select saving_ns, is_predicted, advice from finding where rule = 'exposed_copy'"
        ((saving_ns, is_predicted, advice),) = database.rows(asked)
    assert hidden_ns == pytest.approx(saved, rel=0.02)
    # most of them can be hidden, or there is only one way: fewer
    copied = sum(op.end - op.start for op in run.timeline.ops if op.kind == "memcpy")
    assert is_predicted == (2 * saved >= copied)
    assert saving_ns == pytest.approx(saved if is_predicted else copied, rel=0.02)
    assert advice.startswith("Copy less") == (not is_predicted)


def test_each_place_of_copies_is_said_its_own_share_of_what_hides_beside_other_work(tmp_path: Path) -> None:
    gpu = pinned()
    for step in range(8):
        with gpu.range(f"step {step}"):
            for name, size in (("large", 30_000_000), ("small", 10_000_000)):
                with gpu.range(name):
                    gpu.copy(size, COMPUTE)
                    gpu.launch("matmul_gemm_kernel", 200_000)
    with recorded(gpu.finished(), tmp_path) as database:
        ((hidden_ns,),) = database.rows("select saving_ns from followed_rule where rule = 'hidden_copy'")
        asked = "select place, saving_ns, evidence from finding where rule = 'exposed_copy'"
        said = {place.split("/")[-1]: (saving_ns, evidence) for place, saving_ns, evidence in database.rows(asked)}
        limit_ns = sum(saving_ns for saving_ns, _ in said.values())
        for saving_ns, evidence in said.values():
            values = (saving_ns, hidden_ns * saving_ns / limit_ns)
            ((own, share),) = database.rows("select said_ns(?), said_ns(?)", *values)
            assert f"; with all such copies gone, these save {own} (then the rest is the limit)" in evidence
            assert evidence.endswith(f"; if they are only hidden behind other work, {share} (the link is busy)")
    assert said["large"][0] > 2 * said["small"][0] > 0


@pytest.mark.parametrize("staged", [None, 100_000])
@pytest.mark.slow
def test_at_most_is_no_less_than_any_of_what_the_advice_says(staged: int | None, tmp_path: Path) -> None:
    """Copied in, computed, over and over, without steps: that can be copied beside the kernels, or not at all."""

    def program(copy: int) -> Gpu:
        gpu = Gpu(staged=staged)
        for _ in range(5):
            gpu.copy(copy)
            gpu.launch("matmul_gemm_kernel", 15_000_000)
        return gpu.finished()

    run = program(20_000_000)
    with recorded(run, tmp_path) as database:
        asked = "select saving_ns, is_predicted, evidence from finding where rule = 'exposed_copy'"
        ((saving_ns, is_predicted, evidence),) = database.rows(asked)
        hidden, faster = (what_if(database, [of]).to_dicts()[0] for of in ("hide-copies=*", "scale=copy:0.01"))
    assert not is_predicted
    assert saving_ns == pytest.approx(run.timeline.end - program(0).timeline.end, rel=0.02)
    assert faster["saving_ns"] == pytest.approx(run.timeline.end - program(200_000).timeline.end, rel=0.02)
    assert hidden["saving_ns"] == pytest.approx(75_000_000, rel=0.02), "the kernels run beside copies of 100 ms"
    assert "75.0 ms of them fit beside the other work here" in evidence


def test_what_is_loaded_takes_its_time_whatever_else_waits(tmp_path: Path) -> None:
    """Without the waits streams may overlap, which no trace shows: that saves what loading leaves of the idle time."""
    gpu = pinned()
    gpu.load = 8_000_000
    for number in range(30):
        gpu.work(30_000)
        gpu.launch("again" if number != 15 else "once", 400_000, stream=30 + number)
        gpu.synchronise()
    with recorded(gpu.finished(), tmp_path) as database:
        asked = "select rule, sum(saving_ns), sum(limit_ns) from _predicted_finding where saving_ns > 0 group by rule"
        found = {rule: (saving, limit) for rule, saving, limit in database.rows(asked)}
        ((idle,),) = database.rows("select sum(saving_ns) from _judged_gap")
    saving, limit = found["compiling_or_loading"]
    assert saving == pytest.approx(limit, rel=0.01)
    assert saving + found["synchronisation"][0] <= idle


@pytest.mark.parametrize("is_read_back_first", [True, False])
@pytest.mark.first(1)
def test_of_copies_beside_each_other_the_longer_one_is_named(is_read_back_first: bool, tmp_path: Path) -> None:
    gpu = pinned()
    for step in range(6):
        with gpu.range(f"step {step}"):
            for name, ns, stream in sorted(
                [("read back", 1_000_000, COMPUTE), ("load", 9_000_000, COPIES)], reverse=is_read_back_first
            ):
                with gpu.range(name):
                    gpu.copy(ns, stream)
            gpu.synchronise()
    with recorded(gpu.finished(), tmp_path) as database:
        places = {place for (place,) in database.rows("select place from finding where rule = 'exposed_copy'")}
    assert places == {"step/load"}


@pytest.mark.parametrize("kept", [1, 5, 20])
@pytest.mark.first(1)
@pytest.mark.slow
def test_kernels_of_graphs_that_are_not_recorded_are_no_idle_time(kept: int, tmp_path: Path) -> None:
    """Of the kernels in a graph some are in the trace, as some drivers leave it."""
    run = replace(COMPUTES, captured="forward").run(pinned())
    launched, place = Counter(op.correlation for op in run.timeline.ops), Counter[int]()
    ops, run.timeline.ops = run.timeline.ops, []
    for op in ops:
        place[op.correlation] += 1
        if launched[op.correlation] == 1 or place[op.correlation] % kept in (0, 1):  # two of so many
            run.timeline.ops.append(op)
    with recorded(run, tmp_path) as database:
        blamed = dict(
            database.rows("select rule, sum(idle_ns)::bigint from _judged_gap where rule is not null group by all")
        )
        found = database.rows("select saving_ns from finding where rule = 'unrecorded_graph'")
    assert (list(blamed), found) == (([], []) if kept == 1 else (["unrecorded_graph"], [(None,)]))


def test_a_step_that_the_cpu_only_queues_is_as_long_as_its_work(tmp_path: Path) -> None:
    """Nothing waits: the CPU is done with all steps while the GPU is in the first."""
    run = replace(COMPUTES, steps=5).run(pinned())
    with recorded(run, tmp_path) as database:
        ((shortest,),) = database.rows("select min(wall_ns) from step_summary")
        ((busy,),) = database.rows("select min(gpu_busy_ns) from step_summary")
        ((shown,),) = database.rows("select min_ns from _answer_step")
    assert shortest < busy / 2
    assert busy <= shown == pytest.approx(busy, rel=0.01), "with the distance between kernels"


@pytest.mark.parametrize("name", ["load batch", "DALI:[DALI][DataReader] Run #0"])
@pytest.mark.first(1)
def test_input_that_another_thread_reads_is_late_for_all_of_them(name: str, tmp_path: Path) -> None:
    """A thread reads for 20 ms, another one copies what it read, and a third trains on it for 5 ms."""
    events: list[dict[str, object]] = []

    def add(thread: int, start: float, length: float, link: int = 0, **more: object) -> None:
        args = {"correlation": link} if link else {}
        events.append({"ph": "X", "pid": 1, "tid": thread, "ts": start, "dur": length, "args": args} | more)

    for step in range(12):
        begin, link = 1e4 + 20_000 * step, 10 * step + 1
        add(1, begin, 19_900, cat="user_annotation", name=name)
        add(2, begin + 19_950, 20, link, cat="cuda_runtime", name="cudaMemcpyAsync")
        add(3, begin + 20_100, 300, cat="user_annotation", name=f"step {step}")
        add(3, begin + 20_110, 20, link + 1, cat="cuda_runtime", name="cudaLaunchKernel")
        on_gpu = {"pid": 0, "tid": 7}
        add(7, begin + 19_980, 100, cat="gpu_memcpy", name="Memcpy HtoD (Pinned -> Device)", **on_gpu)
        events[-1]["args"] = {"correlation": link, "device": 0, "stream": 7, "bytes": 1 << 20}
        add(7, begin + 20_140, 5_000, cat="kernel", name="gemm", **on_gpu)
        events[-1]["args"] = {"correlation": link + 1, "device": 0, "stream": 7}
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with analyze([tmp_path / "t.json"], tmp_path / "t.duckdb") as database:
        ((rule, place, saving, advice),) = database.rows("select rule, place, saving_frac, advice from finding limit 1")
    assert (rule, place) == ("late_input", name)
    assert advice.startswith("Let DALI read ahead") == ("DALI" in name)
    assert saving == pytest.approx(0.72, abs=0.05)


TORCH = re.compile(
    r"(?i)torch|DataLoader|non_blocking|lorabench\.span|\.item\(\)|with_stack|Liger|DDP|autocast|bitsandbytes"
)


def with_torch(run: Gpu) -> Gpu:
    """The same run, with a range that torch makes around its first kernel."""
    launch = run.timeline.calls[0]
    run.timeline.ranges.append(Range(launch.tid, launch.start, launch.end, "aten::mm"))
    return run


@pytest.mark.parametrize("fault", quick(3, FAULTS), ids=lambda fault: fault.rule)
@pytest.mark.slow
def test_a_program_in_which_nothing_shows_torch_is_not_told_what_to_do_in_torch(fault: Fault, tmp_path: Path) -> None:
    asked = "select distinct advice from finding where rule = ?"
    with recorded(fault.costs(), tmp_path) as database:
        plain = database.rows(asked, fault.rule)
    with recorded(with_torch(fault.costs()), tmp_path) as database:
        torchs = database.rows(asked, fault.rule)
    assert plain and not [advice for (advice,) in plain if TORCH.search(advice)]
    (rule,) = (file for file in sql.in_folder(sql.FINDINGS) if file.name == fault.rule)
    advice, _, elsewhere = rule.method.partition("\n\nWithout torch: ")
    assert torchs and (elsewhere or advice,) in plain if (advice,) in torchs else torchs


@pytest.mark.parametrize("fault", quick(3, FAULTS), ids=lambda fault: fault.rule)
@pytest.mark.first(1)
def test_the_rules_that_are_asked_find_what_all_do(fault: Fault, tmp_path: Path) -> None:
    with recorded(fault.costs(), tmp_path) as database:
        asked = database.rows("from _finding order by all")
        assert asked and asked == database.rows("from main._finding order by all")


def test_advice_that_names_torch_has_another_text_for_programs_without_it() -> None:
    for rule in sql.in_folder(sql.FINDINGS):
        advice, _, elsewhere = rule.method.partition("\n\nWithout torch: ")
        names_torch = TORCH.search(advice) and rule.name != "math_attention"  # torch's own kernels are what it is about
        assert bool(elsewhere) == bool(names_torch), rule.name
        assert not TORCH.search(elsewhere), rule.name


@pytest.mark.parametrize("latency", [6_000, 18_000])
@pytest.mark.first(1)
@pytest.mark.slow
def test_launches_cost_what_their_gaps_are_however_long_they_are_on_their_way(latency: int, tmp_path: Path) -> None:
    """As on AMD's GPUs: launched 18 us before it begins, but each launch comes 25 us behind the one before."""
    gpu = Gpu(is_pinned=True, latency=latency)
    for step in range(6):
        with gpu.range(f"step {step}"):
            for _ in range(40):
                gpu.work(20_000)
                gpu.launch("matmul_gemm_kernel", 6_000)
    with recorded(gpu.finished(), tmp_path) as database:
        ((saved, idle),) = database.rows(
            "select (select sum(saving_ns) from finding where rule = 'launch_bound_range'), "
            "(select sum(idle_ns) from _judged_gap where rule = 'launch_bound_range')"
        )
    assert 0.9 * idle <= saved <= idle, "but for the distance that kernels keep"


@pytest.mark.parametrize("path", corpus_params("nsys/fsdp-2gpu-*.sqlite"))
@pytest.mark.slow
def test_shards_that_fsdp_keeps_in_the_hosts_memory_are_named(path: Path, tmp_path: Path) -> None:
    """Half of its copies were launched before the recording; those within the device hang on no link."""
    with analyze([path], tmp_path / "x.duckdb") as database:
        rows = database.rows("select place, evidence, advice from _predicted_finding where rule = 'exposed_copy'")
        ((are_before,),) = database.rows("select are_before from _launch_missing")
    assert are_before and len(rows) > 60
    for place, evidence, advice in rows:
        is_shard = re.match(r"FSDP::|\(launch not recorded\)", place or "") and "the most in copy HtoD" in evidence
        assert advice.startswith("FSDP keeps its shards") == bool(is_shard)
        assert ("the link is busy" in evidence) == ("copy HtoD" in evidence or "copy DtoH" in evidence)


@pytest.mark.parametrize("inner", ["{'mod': '/lib/torch/nn.py:%d'}", "layers/%d"])
@pytest.mark.parametrize("around", [None, "model"])
@pytest.mark.first(1)
def test_what_is_around_places_is_a_range_and_no_part_of_a_name(inner: str, around: str | None, tmp_path: Path) -> None:
    """Profilers write paths of files into names, with the slash that stands between names as well."""
    gpu = pinned()
    for step in range(8):
        with gpu.range(f"step {step}"):
            gpu.work(1_000)
            with gpu.range(around) if around else nullcontext():
                for number in range(6):
                    with gpu.range(inner % number):
                        for _ in range(10):
                            gpu.work(60_000)
                            gpu.launch("vector_add", 5_000)
    with recorded(gpu.finished(), tmp_path) as database:
        ((within, count),) = database.rows(
            "select within, place_cnt from _answer_rule where rule = 'launch_bound_range'"
        )
    assert (within, count) == (f"step/{around}" if around else "", 6)


@pytest.mark.slow
def test_waiting_for_work_that_is_not_recorded_is_no_lost_lead(tmp_path: Path) -> None:
    """In one of the waits the GPU works on what another process launched, or what was launched before."""
    gpu = Gpu(staged=60_000)
    for step in range(8):
        with gpu.range(f"step {step}"):
            for _ in range(10):
                gpu.launch("gemm", 400_000)
            if step == 4:
                gpu.launch("elsewhere", 40_000_000)
            gpu.copy(200_000)
            gpu.work(20_000)
    run = gpu.finished()
    whole = lost_lead(run, tmp_path / "whole")
    run.timeline.ops = [op for op in run.timeline.ops if op.name != "elsewhere"]
    rest = lost_lead(run, tmp_path / "rest")
    assert whole - rest == pytest.approx(40_000_000, rel=0.05)


def lost_lead(run: Gpu, folder: Path) -> int:
    """How long calls wait that make the CPU lose its lead."""
    folder.mkdir()
    with recorded(run, folder) as database:
        ((ns,),) = database.rows("select coalesce(sum(saving_ns), 0)::bigint from _lost_lead")
        return int(ns)


@pytest.mark.parametrize("is_in_all", [True, False])
def test_a_batch_that_is_late_by_itself_once_is_not_rare_where_all_are(is_in_all: bool, tmp_path: Path) -> None:
    """In the other steps reading is less than half of a gap, which is blamed on what else the CPU does."""
    gpu = pinned()
    for step in range(10):
        with gpu.range(f"step {step}"):
            if step:
                with gpu.range("metrics"):
                    gpu.work(30_000_000)
            if is_in_all or not step:
                with gpu.range("data"):
                    gpu.work(5_000_000)
            for _ in range(10):
                gpu.launch("matmul_gemm_kernel", 100_000)
            gpu.synchronise()
    with recorded(gpu.finished(), tmp_path) as database:
        found = database.rows("select evidence from finding where rule = 'late_input'")
    assert [evidence.endswith("; in other steps that is a part of longer gaps") for (evidence,) in found] == [is_in_all]


@pytest.mark.parametrize("work", ["aten::_fused_adamw_, op_id = 7", "waiting for a lock"])
@pytest.mark.first(1)
def test_what_a_cpu_computes_on_in_the_optimizer_is_not_to_be_read_less_often(work: str, tmp_path: Path) -> None:
    gpu = pinned()
    for step in range(6):
        with gpu.range(f"step {step}"):
            with gpu.range("forward"):
                for _ in range(10):
                    gpu.launch("matmul_gemm_kernel", 200_000)
            with gpu.range("optimizer"):
                gpu.read_back(500_000)
                with gpu.range(work):
                    gpu.work(9_000_000)
                gpu.copy(500_000)
    with recorded(gpu.finished(), tmp_path) as database:
        advice = database.rows("select advice from finding where rule in ('synchronisation', 'blocking_copy')")
    assert advice and all(
        text.startswith("The CPU computes on what was copied") is work.startswith("aten") for (text,) in advice
    )


@pytest.mark.parametrize(("else_ms", "said"), [(3, "; reading takes 6.0 ms of a step"), (0, "")])
def test_of_gaps_with_other_work_it_is_said_what_reading_takes(else_ms: int, said: str, tmp_path: Path) -> None:
    gpu = pinned()
    for step in range(10):
        with gpu.range(f"step {step}"):
            with gpu.range("data"):
                gpu.work(6_000_000)
            gpu.work(1_000_000 * else_ms)
            for _ in range(10):
                gpu.launch("matmul_gemm_kernel", 100_000)
            gpu.synchronise()
    with recorded(gpu.finished(), tmp_path) as database:
        ((evidence,),) = database.rows("select evidence from finding where rule = 'late_input'")
    assert re.fullmatch(rf"the GPU waits 10 times, \S+ ms on average{re.escape(said)}(; .* would be saved)?", evidence)
