"""Steps and phases of traces that name them in every way, or in none; and what must not be taken for a step."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import ROOT, corpus_params
from hypothesis import given, settings
from hypothesis import strategies as st
from lorabench import rundir
from lorabench.analyze.model.repeating import CALLED_STEP
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from lorabench.reports.answer.answer import answer
from lorabench.reports.answer.answer_text import lines
from simulated_gpu import Gpu, Training

Event = dict[str, Any]
RANGES = ROOT / "fixtures" / "nvtx-ranges.sqlite"
STEP_US = 1000.0
KERNELS = ["embed", *["norm", "gemm", "attention", "gemm2", "add"] * 6, "head", "loss", "adam"]


def annotation(name: str, start: float, length: float) -> Event:
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}


def launches(start: float, names: list[str], first: int) -> list[Event]:
    """A call each 10 us, and its kernel 5 us later."""
    made = []
    both = {"ph": "X", "pid": 1, "tid": 1}
    for place, name in enumerate(names):
        at, link = start + 10 * place, {"correlation": first + place}
        made.append(both | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 2.0, "args": link})
        on_gpu = link | {"device": 0, "stream": 7}
        made.append(both | {"cat": "kernel", "name": name, "ts": at + 5, "dur": 4.0, "args": on_gpu})
    return made


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Database]:
    """A trace of six steps of 1 ms, each with what `named` opens in it: (name, begin, length) from its number."""

    def make(
        named: Callable[[int], list[tuple[str, float, float]]], kernels: list[str] = KERNELS, cnt: int = 6
    ) -> Database:
        events = []
        for number in range(cnt):
            start = 10_000 + STEP_US * number
            events += [annotation(name, start + begin, length) for name, begin, length in named(number)]
            events += launches(start + 20, kernels, 1 + 1000 * number)
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return analyze([path], tmp_path / "trace.duckdb")

    return make


def steps(database: Database) -> list[tuple[str, int, int]]:
    return database.rows("select found_by, step, kernel_cnt from step_summary order by start_ns")


def test_ranges_that_torch_opened_as_operators_are_what_they_say(tmp_path: Path) -> None:
    """As in traces of 2021: the profiler's steps, the loader's and the optimizer's are among the operators."""
    events = []
    for number in range(4):
        start = 10_000 + STEP_US * number
        inside = [(f"ProfilerStep#{number}", 0.0, 990.0), ("enumerate(DataLoader)#Iter.__next__", 10.0, 100.0),
                  ("Optimizer.zero_grad#SGD.zero_grad", 700.0, 50.0),
                  ("Optimizer.step#SGD.step", 800.0, 150.0)]  # fmt: skip
        events += [annotation(name, start + begin, length) | {"cat": "Operator"} for name, begin, length in inside]
        events += launches(start + 200, KERNELS, 1 + 1000 * number)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with analyze([path], tmp_path / "trace.duckdb") as database:
        found = database.rows("select distinct found_by, data_ns, optimizer_ns from step_summary")
        assert found == [("annotation", 100_000, 150_000)]


def test_a_copy_before_an_operator_with_its_number_is_no_forward(tmp_path: Path) -> None:
    """What makes no node has the sequence number of the next operator that does."""

    def operator(name: str, start: float, length: float, **args: int) -> Event:
        return annotation(name, start, length) | {"cat": "cpu_op", "args": args}

    events = [annotation("step 1", 0, 900), *launches(20, KERNELS, 1)]
    events += [operator("aten::to", 100, 50, **{"Sequence number": 5}), operator("aten::copy_", 110, 30),
               operator("aten::conv2d", 160, 40, **{"Sequence number": 5}),
               operator("aten::convolution", 165, 30, **{"Sequence number": 5}),
               operator("ConvolutionBackward0", 300, 70, **{"Sequence number": 5, "Fwd thread id": 1})]  # fmt: skip
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "trace.duckdb") as database:
        assert database.rows("select forward_ns, backward_ns from step_summary") == [(40_000, 70_000)]


@pytest.mark.parametrize(
    "name",
    ["step {}", "ProfilerStep#{}", "## step {} ##", "Iteration: {}", "train_step_{}", "Step {}/100", "iteration{}"],
)
@pytest.mark.first(1)
def test_numbered_ranges_are_steps(name: str, trace: Callable[..., Database]) -> None:
    database = trace(lambda number: [(name.format(number + 3), 0, 900)])
    assert steps(database) == [("annotation", number + 3, len(KERNELS)) for number in range(6)]
    assert database.rows("select count(distinct path) from step_summary") == [(1,)]


def lengths(database: Database) -> list[tuple[int, int, int | None]]:
    return database.rows(
        "select length_ns // 1000, wall_ns // 1000, between_ns // 1000 from step_summary order by start_ns"
    )


@settings(max_examples=100)
@given(
    around=st.tuples(*[st.text("#_ :-[]()=/.*0123456789\n", max_size=9)] * 2),
    word=st.sampled_from(["step", "Step", "STEP", "ProfilerStep", "profilerstep"]),
)
@pytest.mark.slow
def test_what_is_called_a_step_by_its_number_alone_is_no_phase(
    database_of: Callable[[Path], Database], around: tuple[str, str], word: str
) -> None:
    """Where a range is called so, the kernels of its input are not searched for a period."""
    ((is_called_step, phase),) = database_of(RANGES).rows(
        "select regexp_matches(text, ?), phase_of(text) from (select ? as text)", CALLED_STEP, word.join(around)
    )
    assert is_called_step and phase is None


@pytest.mark.slow
def test_what_a_loop_does_between_its_ranges_is_time_of_the_step(trace: Callable[..., Database]) -> None:
    """As where the loader is asked before the range is opened."""
    database = trace(lambda number: [(f"step {number}", 0, 600)])
    assert lengths(database) == [(1000, 600, 400)] * 5 + [(600, 600, None)]
    assert "6 steps of 1.0 ms" in " ".join(lines(answer(database)))
    assert "between steps 36%" in " ".join(lines(answer(database)))


@pytest.mark.parametrize("numbers", [[1, 2, 3, 21, 22, 23], [1, 2, 3, 1, 2, 3]], ids=["left out", "a new epoch"])
@pytest.mark.first(1)
def test_steps_that_do_not_follow_one_another_have_nothing_between_them(
    numbers: list[int], trace: Callable[..., Database]
) -> None:
    database = trace(lambda number: [(f"step {numbers[number]}", 0, 600)])
    once = [(1000, 600, 400)] * 2 + [(600, 600, None)]
    assert lengths(database) == 2 * once


@pytest.mark.parametrize(("steps", "count"), [(6, 5), (3, 2), (2, 2), (1, 1)])
@pytest.mark.first(1)
def test_a_step_that_the_recording_ended_in_is_none_where_others_are_whole(
    steps: int, count: int, tmp_path: Path
) -> None:
    path = tmp_path / "cut.sqlite"
    writers.write_nsys(path, [Training(steps=steps).run(Gpu(is_pinned=True)).timeline])
    with closing(sqlite3.connect(path)) as file:
        named = "NVTX_EVENTS left join StringIds on textId = id where coalesce(text, value) like 'step %'"
        last = file.execute(f"select max(start) from {named}").fetchone()
        file.execute("update NVTX_EVENTS set end = null where start = ?", last)
        file.commit()
    with analyze([path], tmp_path / "cut.duckdb") as database:
        assert database.rows("select count(*) from step_summary") == [(count,)]


def test_turns_of_a_step_are_cold_together(trace: Callable[..., Database]) -> None:
    """The first of two adapters pays for all that is new; the step is long, though its second turn is not."""
    database = trace(lambda number: [(f"step {number // 2}", 0, 900 if number == 0 else 200)])
    assert database.rows("select is_cold from _warm_step order by start_ns") == [
        (n < 2,) for n in range(len(lengths(database)))
    ]


def test_adapters_in_turn_follow_one_another(trace: Callable[..., Database]) -> None:
    database = trace(lambda number: [(f"step {number // 2}", 0, 600)])
    assert lengths(database) == [(1000, 600, 400)] * 5 + [(600, 600, None)]
    assert database.rows("select p50_ns from step_statistics") == [(2_000_000,)], "each has both"


@pytest.mark.parametrize("path", [*corpus_params("nsys/*.sqlite"), *corpus_params("kineto/*.json.gz")])
@pytest.mark.first(3)
def test_the_lengths_of_steps_add_up(path: Path, database_of: Callable[[Path], Database]) -> None:
    """From the start of the first to the end of the last; where the CPU runs ahead, of the work between these."""
    database = database_of(path)
    rows = database.rows(
        """select sum(length_ns), sum(length_ns) filter (is_followed) - arg_min(length_ns, pace.start_ns),
            max(decided.end_ns) filter (is_followed) - min(decided.end_ns), max(pace.end_ns) - min(pace.start_ns),
            bool_or(pace.is_ahead), arg_max(pace.busy_ns, pace.start_ns) > arg_max(pace.turn_ns, pace.start_ns)
        from _step_pace as pace join _step_length as length using (step_id) join _step_window as decided using (step_id)
        group by pace.source_id, pace.process_id, pace.thread_id
        having count(*) filter (not pace.is_followed) = 1"""
    )
    for every_ns, between_ns, on_gpu, on_cpu, is_ahead, has_long_last in rows:
        if is_ahead:
            assert between_ns == on_gpu
        elif not has_long_last:
            assert every_ns == on_cpu


@pytest.mark.parametrize(
    "name", ["[pl][profile]run_training_batch", "train_batch_iter", "execute_context_1(88)_generation_0(0)",
             "step[DECODE bs=32]"]
)  # fmt: skip
@pytest.mark.first(1)
def test_frameworks_name_their_steps(name: str, trace: Callable[..., Database]) -> None:
    database = trace(lambda _: [(name, 0, 900), ("forward", 10, 300)])
    assert steps(database) == [("framework", number, len(KERNELS)) for number in range(1, 7)]


def test_a_range_that_repeats_and_covers_most_is_a_step_the_outermost_one(trace: Callable[..., Database]) -> None:
    database = trace(lambda _: [("my batch", 0, 900), ("inner", 10, 850)])
    assert steps(database) == [("repetition", number, len(KERNELS)) for number in range(1, 7)]
    assert database.rows("select distinct path from step_summary") == [("my batch",)]


def test_a_step_ends_with_its_optimizer(trace: Callable[..., Database]) -> None:
    database = trace(
        lambda _: [("Optimizer.step#AdamW.step", 350, 30), ("Forward", 15, 100), ("loss.backward", 120, 200)]
    )
    assert steps(database) == [("optimizer", number, len(KERNELS)) for number in range(1, 7)]
    assert database.rows("select distinct forward_ns, backward_ns, optimizer_ns, gpu_busy_ns from step_summary") == [
        (100_000, 200_000, 30_000, 4_000 * len(KERNELS))
    ]
    assert database.rows("select wall_ns from step_summary order by start_ns offset 1") == [(1_000_000,)] * 5


FORWARD, BACKWARD = ("forward", 0, 100), ("backward", 100, 200)
ITERATIONS = {  # what is in each, when and for how long (us); how many steps it is
    "one after the other": ([FORWARD, BACKWARD, ("optimizer", 310, 20), ("optimizer", 360, 20)], 1),
    "in the backward": ([FORWARD, BACKWARD, ("optimizer", 151, 8), ("optimizer", 251, 8)], 1),
    "the last one behind it": ([FORWARD, BACKWARD, ("optimizer", 151, 8), ("optimizer", 360, 20)], 1),
    "in turn": ([FORWARD, BACKWARD, ("optimizer", 310, 20), ("forward", 400, 50), ("backward", 450, 60),
                 ("optimizer", 520, 20)], 2),
    "one loss for each": ([FORWARD, BACKWARD, ("optimizer", 310, 20), ("backward", 400, 60),
                           ("optimizer", 470, 20)], 2),
    "in its closure": ([("optimizer", 0, 400), ("forward", 10, 90), BACKWARD], 1),
}  # fmt: skip


def nodes(begin: float, length: float, root: int) -> list[Event]:
    """The nodes of a backward, each 20 us one with a lower number."""
    node = {"cat": "cpu_op"}
    return [
        annotation("MmBackward0", begin + 20 * place, 19)
        | node | {"args": {"Sequence number": root - place, "Fwd thread id": 1}}
        for place in range(int(length / 20))
    ]  # fmt: skip


@pytest.mark.parametrize("is_on_gpu", [False, True], ids=["cpu", "gpu"])
@pytest.mark.parametrize("shown_by", ["ranges", "operators"])
@pytest.mark.parametrize(("parts", "step_cnt"), ITERATIONS.values(), ids=ITERATIONS)
@pytest.mark.first(4)
def test_optimizers_between_which_no_backward_begins_are_one_step(
    parts: list[tuple[str, int, int]], step_cnt: int, shown_by: str, is_on_gpu: bool, tmp_path: Path
) -> None:
    """On a GPU what runs in the backward is on autograd's thread, and something is launched all the time."""
    events: list[Event] = []
    for number in range(6):
        start = 10_000 + STEP_US * number
        events += launches(start + 5, ["gemm"] * 60, 1 + 100 * number) if is_on_gpu else []
        for place, (part, begin, length) in enumerate(parts):
            is_inner = part == "optimizer" and 0 < begin < 300
            if part == "optimizer":
                found = [annotation("Optimizer.step#SGD.step", start + begin, length)]
            elif shown_by == "ranges":
                found = [annotation(part, start + begin, length)]
            else:
                found = nodes(start + begin, length, 100 * (number + 1) + 30 * place) if part == "backward" else []
            is_autograds = is_on_gpu and (is_inner or "MmBackward0" in [event["name"] for event in found])
            events += [event | {"tid": 2 if is_autograds else 1} for event in found]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        in_two = "select count(*) from _step where start_ns between 12_000_000 and 13_900_000 group by thread_id"
        counts = database.rows(f"{in_two} order by 1 desc")
        turns = database.rows("select max(turn_id) from _turned_step where not is_beside")
    assert counts[0] == (2 * step_cnt,)
    if shown_by == "ranges" or not is_on_gpu:  # else nothing says which thread waits for autograd's
        assert len(counts) == 1 and turns[0][0] in (6 * step_cnt, 6 * step_cnt - 1)


def test_steps_that_replay_a_graph_end_with_their_optimizers_all_the_same(tmp_path: Path) -> None:
    """Their backward was seen when the graph was made, and then no more."""
    events: list[Event] = []
    for number in range(6):
        start = 10_000 + STEP_US * number
        called = launches(start + 20, KERNELS, 1 + 1000 * number)
        called[0] |= {"name": "cudaLaunchKernel" if number < 2 else "cudaGraphLaunch"}
        events += [*called, annotation("Optimizer.step#SGD.step", start + 500, 30)]
        events += [annotation("backward", start + 100, 200)] if number < 2 else []
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert steps(database) == [("optimizer", number, len(KERNELS)) for number in range(1, 7)]


def test_a_first_step_that_is_left_out_has_its_number_all_the_same(tmp_path: Path) -> None:
    """As in steps.csv of a run: of a first one that did more nobody knows when it began."""
    events = launches(10_000, KERNELS, 1)
    for number in range(6):
        start = 11_000 + STEP_US * number
        events += [annotation("Optimizer.step#AdamW.step", start + 350, 30)]
        events += launches(start + 20, KERNELS, 1000 + 1000 * number)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with analyze([path], tmp_path / "trace.duckdb") as database:
        assert steps(database) == [("optimizer", number, len(KERNELS)) for number in range(2, 7)]


def test_without_any_range_the_period_of_the_kernels_is_the_step(trace: Callable[..., Database]) -> None:
    database = trace(lambda _: [])
    assert steps(database) == [("period", number, len(KERNELS)) for number in range(1, 7)]
    assert database.rows("select wall_ns from step_summary order by start_ns limit 5") == [(1_000_000,)] * 5
    assert database.rows("select count(distinct step) from critical_path") == [(6,)]
    assert database.rows("select found_by, step_cnt from step_statistics") == [("period", 6)]
    assert "6 repetitions of " in " ".join(lines(answer(database))), "nobody said that they are steps"


@pytest.mark.parametrize(
    ("named", "kernels"),
    [
        (lambda number: [("attention scores", 0, 50)], ["gemm"] * 40),
        (lambda number: [(f"step {number}: load", 0, 10)] if number == 1 else [], ["gemm", "add"] * 20),
        (lambda number: [("nccl:all_reduce", 0, 900)], ["gemm"] * 40),
        (lambda number: [("backward", 0, 900)], ["gemm"] * 40),
        (lambda number: [("forward", 0, 100), ("backward", 100, 880), ("GPT", 110, 860)], ["gemm"] * 40),
        (lambda number: [("rand", 0, 40 if number else 4_000)], ["gemm"] * 40),
    ],
    ids=["covers little", "a numbered list", "a collective", "a phase", "a module in a phase", "the first one loads"],
)
@pytest.mark.first(2)
@pytest.mark.slow
def test_what_is_no_step_is_not_taken_for_one(
    named: Callable[[int], Any], kernels: list[str], trace: Callable[..., Database]
) -> None:
    assert steps(trace(named, kernels)) == []


def test_calls_that_are_counted_share_a_path_and_layers_do_not(trace: Callable[..., Database]) -> None:
    database = trace(
        lambda number: [
            (name.format(number), 20 * place, 10)
            for place, name in enumerate(["data copy in {}", "layer {}", "layers.{}.mlp", "adapter_{}", "conv{}"])
        ],
        cnt=12,
    )
    assert database.rows("select path, range_cnt from range_summary where range_cnt > 1") == [("data copy in", 12)]
    assert database.rows("select count(distinct text) from range_instance where name = 'data copy in'") == [(12,)]


FOUND = {
    "ddp-resnet18": ("optimizer", 5),
    "float-microseconds": ("annotation", 5),
    "kernel-overlap": ("framework", 1),
    "llm-attention-nvtx": ("period", 5),
    "llm-training-autograd-thread-no-nvtx": ("period", 13),
    "nested-ranges-domains": ("annotation", 44),
    "sglang-decode-graphs": ("framework", 1),
    "fsdp-2gpu-emit_nvtx": None,
    "duplicate-api-rows": None,
}


SEEN = [
    pytest.param(*param.values, FOUND[name], id=name, marks=param.marks)
    for name in FOUND
    for param in corpus_params(f"*/{name}.*")
]


@pytest.mark.parametrize(("path", "steps"), SEEN)
def test_real_traces_have_the_steps_that_a_person_sees(
    path: Path, steps: tuple[str, int] | None, database_of: Callable[[Path], Database]
) -> None:
    found = database_of(path).rows("select found_by, step_cnt from step_statistics")
    assert found == ([steps] if steps else [])


@pytest.mark.parametrize("wait_us", [0, 400_000])
def test_layers_behind_a_long_start_are_no_steps(wait_us: int, tmp_path: Path) -> None:
    """One pass of an inference: its blocks repeat, after its first kernel took long."""
    block = ["norm", "gemm", "softmax", "gemm2", "add", "norm", "gelu", "gemm3", "add2"]
    events = launches(0, ["embed"], 1) + launches(20 + wait_us, block * 10, 1000)
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert bool(steps(database)) == (wait_us == 0)


@pytest.mark.parametrize("is_one_call", [True, False])
@pytest.mark.slow
def test_what_repeats_in_one_call_of_a_module_are_its_layers(is_one_call: bool, tmp_path: Path) -> None:
    """With stacks a trace says which module's forward the kernels are of."""
    block = ["norm", "gemm", "softmax", "gemm2", "add", "norm", "gelu", "gemm3", "add2"]
    events, length = [], 10 * len(block)
    for place in range(10):
        events += launches(place * length, block, 1 + 100 * place)
    calls = [(-5, 10 * length)] if is_one_call else [(place * length - 5, length) for place in range(10)]
    python = {"ph": "X", "cat": "python_function", "name": "nn.Module: Model_0", "pid": 1, "tid": 1}
    events += [python | {"ts": begin, "dur": took, "args": {"Python id": n}} for n, (begin, took) in enumerate(calls)]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert len(steps(database)) == (0 if is_one_call else 10)


@pytest.mark.slow
def test_processes_of_one_file_are_not_added_up(tmp_path: Path) -> None:
    """Adapters in turn are; two processes do the same steps at the same time, each on its device."""
    writers.write_nsys(tmp_path / "run.sqlite", [Training(steps=6, kernel=400_000).run(Gpu()).timeline])
    found = []
    for _ in range(2):
        with analyze([tmp_path / "run.sqlite"], tmp_path / "x.duckdb", force=True) as database:
            found.append(answer(database)["steps"])
        with closing(sqlite3.connect(tmp_path / "run.sqlite")) as trace, trace:
            for (table,) in trace.execute("select name from sqlite_master where type = 'table'").fetchall():
                names = [row[1] for row in trace.execute(f"pragma table_info({table})")]
                other = {"globalPid": "globalPid + (1 << 24)", "globalTid": "globalTid + (1 << 24)", "deviceId": 1}
                if {"globalPid", "globalTid"} & set(names) and table != "ThreadNames":
                    columns = ", ".join(str(other.get(name, name)) for name in names)
                    trace.execute(f"insert into {table} select {columns} from {table}")
    assert found[0]["step_cnt"] == 6
    assert found[1] == pytest.approx(found[0], rel=1e-3), "quantiles of twice as many"


@pytest.mark.parametrize(("name", "count"), [("ProfilerStep#{}", 3), ("step {}", 4)])
@pytest.mark.slow
def test_what_the_profiler_opens_at_its_end_is_no_step(name: str, count: int, tmp_path: Path) -> None:
    events = [annotation(name.format(number), number * 1000, 990) for number in range(3)]
    events += [annotation(name.format(3), 3000, 20), *launches(2100, KERNELS, 1)]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert len(steps(database)) == count


@pytest.mark.parametrize(("phase", "said"), [("backward", "backward"), ("data", "input"), (None, None)])
@pytest.mark.first(1)
@pytest.mark.slow
def test_what_is_longer_in_a_slow_step_is_the_phase_that_most_of_it_lies_in(
    phase: str | None, said: str | None, tmp_path: Path
) -> None:
    events, now = [], 0.0
    for number in range(8):
        extra, begin = 600 if number == 5 else 0, now  # us
        for what, length in {"data": 50, "forward": 300, "backward": 400, "optimizer": 100}.items():
            more = extra // 4 if phase is None else extra * (what == phase)
            events.append(annotation(what, now, length + more))
            now += length + more
        events.append(annotation(f"step {number}", begin, now - begin))
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((evidence,),) = database.rows("select evidence from finding where rule = 'uneven_steps'")
    assert evidence == "one step (step 5) 71 % above the median, 600.0 us longer" + (
        f"; {said} is 600.0 us longer in it" if said else ""
    )


@pytest.mark.parametrize("copied_us", [0, 20_000])
def test_a_range_that_only_waits_is_no_step_where_another_launches(copied_us: int, tmp_path: Path) -> None:
    """A CPU that runs ahead is in its steps for an instant, and in what saves every few of them for all their time."""
    events: list[dict[str, Any]] = []
    cpu, device, ahead = 0.0, 0.0, {"ph": "X", "pid": 1, "tid": 1}

    def launch(call: str, kernel: str, length: float, category: str = "kernel") -> None:
        nonlocal cpu, device
        args = {"correlation": len(events), "device": 0, "stream": 7}
        events.append(ahead | {"cat": "cuda_runtime", "name": call, "ts": cpu, "dur": 5, "args": args})
        device = max(device, cpu + 5)
        events.append({"ph": "X", "pid": 0, "tid": 7, "cat": category, "name": kernel, "ts": device, "dur": length}
                      | {"args": args | {"bytes": 4096}})  # fmt: skip
        device, cpu = device + length, cpu + 10

    for number in range(12):
        begin = cpu
        launch("cudaLaunchKernel", "gemm", 10_000)
        events.append(annotation("step", begin, cpu - begin))
        if number % 3 == 2:
            begin = cpu
            if copied_us:
                launch("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", copied_us, "gpu_memcpy")
            events.append(
                ahead | {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "ts": cpu, "dur": device - cpu}
            )
            cpu = device
            events.append(annotation("save", begin, cpu - begin))
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        found = database.rows("select path, found_by, count(*), sum(kernel_cnt) from step_summary group by all")
    assert found == [("step", "repetition", 12, 12)]


@pytest.mark.parametrize("is_last_slow", [True, False])
@pytest.mark.slow
def test_a_slowest_step_that_does_not_count_is_said_not_to(is_last_slow: bool, tmp_path: Path) -> None:
    """The headline has the last step's length, too: without a word the two contradict each other."""
    events, now = [], 0.0
    for number in range(8):
        length = 1_600 if number == 4 else 4_000 if number == 7 and is_last_slow else 1_000
        events.append(annotation(f"step {number}", now, length))
        now += length
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((evidence,),) = database.rows("select evidence from finding where rule = 'uneven_steps'")
    assert evidence.startswith("one step (step 4) 60 % above the median")
    assert ("the first and the last do not count" in evidence) is is_last_slow


@pytest.mark.parametrize(
    ("slow", "summary", "is_said"),
    [
        (5, None, True),
        (0, None, False),  # the profiler begins in it
        (7, None, False),  # and ends
        (5, {"p50": 850_000, "max": 1_450_000}, True),
        (5, {"p50": 850_000, "max": 900_000}, False),  # without a profiler they are even
    ],
)
@pytest.mark.first(2)
@pytest.mark.slow
def test_steps_that_the_profiler_alone_makes_uneven_are_not_said_to_be(
    slow: int, summary: dict[str, int] | None, is_said: bool, tmp_path: Path
) -> None:
    lengths = [1_450 if number == slow else 850 for number in range(8)]
    events = [annotation(f"step {number}", sum(lengths[:number]), length) for number, length in enumerate(lengths)]
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    if summary is not None:
        (tmp_path / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT}))
        (tmp_path / rundir.SUMMARY).write_text(json.dumps({"step_wall_ns": summary}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert bool(database.rows("select 1 from finding where rule = 'uneven_steps'")) is is_said


def test_requests_that_threads_work_at_side_by_side_are_as_long_as_they_are(tmp_path: Path) -> None:
    """A thread of a pool waits for its next request: that is nobody's step."""
    events = [
        annotation(f"step {4 * turn + tid}", 100_000.0 * turn + 1_000 * tid, 20_000.0) | {"tid": tid}
        for turn in range(6)
        for tid in range(4)
    ]
    (tmp_path / "pool.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    with analyze([tmp_path / "pool.json"], tmp_path / "x.duckdb") as database:
        assert set(database.rows("select length_ns from step_summary")) == {(20_000_000,)}
        assert not database.rows("from finding where rule = 'uneven_steps'")


def test_a_cpu_that_blocks_behind_a_busy_gpu_does_not_make_its_steps_uneven(tmp_path: Path) -> None:
    """Ranges of 60 and 140 us, kernels of 100 us a step without a gap: the steps take 100 us each."""
    events: list[Event] = []
    start = 10_000.0
    for number in range(8):
        length = 140.0 if number % 2 else 60.0
        events.append(annotation(f"step {number}", start, length))
        call = {
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": start + 1,
            "dur": 2,
        }
        kernel = {
            "ph": "X",
            "pid": 0,
            "tid": 7,
            "cat": "kernel",
            "name": "gemm",
            "ts": 10_100 + 100.0 * number,
            "dur": 100,
        }
        link = {"correlation": number + 1}
        events += [call | {"args": link}, kernel | {"args": link | {"device": 0, "stream": 7}}]
        start += length
    (tmp_path / "run.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    with analyze([tmp_path / "run.json"], tmp_path / "x.duckdb") as database:
        lengths = [length for (length,) in database.rows("select length_ns from step_summary order by step")]
        assert set(lengths[1:]) == {100_000}
        assert not database.rows("from finding where rule = 'uneven_steps'")


def test_adapters_that_are_trained_one_after_another_have_steps_together(tmp_path: Path) -> None:
    """As in `--peft-mode seq`: step 0 of the second adapter comes behind the last one of the first."""
    directory = rundir.RunDirectory(tmp_path / "run", False)
    events = [
        event
        for turn in range(3)
        for step in range(4)
        for at in [STEP_US * (4 * turn + step)]
        for event in (annotation(f"step {step}", at, 900), *launches(at + 10, KERNELS[:3], 1 + 100 * turn + 10 * step))
    ]
    (directory.partial / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    directory.write_json(rundir.SUMMARY, {"step_wall_ns": {"p50": 2.5e6}})
    directory.finish({"status": "ok", "message": None, "spec": {"peft_mode": "seq", "lora_cnt": 3}})
    with analyze([tmp_path / "run"], tmp_path / "x.duckdb") as database:
        assert database.rows("select step_cnt, p50_ns from step_statistics") == [(4, 3 * 1_000_000)]
        found = answer(database)
    assert next(lines(found)).startswith("trace.json: 4 steps of 3.0 ms")


@pytest.mark.parametrize("training", [
    Training(steps=1, kernel=200_000), Training(steps=1, kernel=100_000, exchange=100_000),
    Training(steps=1, kernel=6_000),
])  # fmt: skip
@pytest.mark.parametrize("event", [0, 300_000])
@pytest.mark.first(1)
def test_a_step_alone_takes_as_long_as_one_of_many(training: Training, event: int, tmp_path: Path) -> None:
    """Until the GPU is done with it, also where it waits in between, and whichever of several comes first."""

    def lengths(steps: int) -> list[int]:
        path = tmp_path / f"{steps}.sqlite"
        run = replace(training, steps=steps).run(Gpu(is_pinned=True, event=event))
        writers.write_nsys(path, [run.timeline])
        with analyze([path], tmp_path / f"{steps}.duckdb") as database:
            return [length for (length,) in database.rows("select length_ns from step_summary order by start_ns")]

    (alone,), many = lengths(1), lengths(8)
    assert alone == pytest.approx(many[3], rel=0.05)
    assert many[0] == pytest.approx(many[3], rel=0.05)


@pytest.mark.parametrize("around", ["forward pass", "## backward ##", "optimizer.step", "train", "profile", None])
@pytest.mark.parametrize("layers", [4, 12])
@pytest.mark.first(2)
def test_layers_of_one_forward_are_no_steps(around: str | None, layers: int, tmp_path: Path) -> None:
    """What repeats within a range that is a phase, and comes once, is a model's layers; within another it is steps."""
    gpu = Gpu(is_pinned=True)
    with gpu.range(around) if around else nullcontext():
        for _ in range(layers):
            for name in KERNELS:
                gpu.work(5_000)
                gpu.launch(name, 10_000)
    path = tmp_path / "run.sqlite"
    writers.write_nsys(path, [gpu.finished().timeline])
    with analyze([path], tmp_path / "run.duckdb") as database:
        found = database.rows("select count(*) from step_summary where found_by = 'period'")
    assert found == [(layers if around in ("train", "profile", None) else 0,)]


def with_graphs(path: Path, lengths: list[int], beside: int) -> Path:
    """A loop that launches a CUDA graph of so long in each turn, and so many small kernels behind it; nsys recorded
    the graphs as a whole.
    """
    gpu = Gpu(is_pinned=True)
    for length in lengths:
        gpu.work(50_000)
        gpu.launch("captured", length)
        for _ in range(beside):
            gpu.launch("fill", 5_000)
        gpu.synchronise()
    writers.write_nsys(path, [gpu.finished().timeline])
    with closing(sqlite3.connect(path)) as file:
        chosen = "demangledName in (select id from StringIds where value = 'captured')"
        file.execute("create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE as select start, end, deviceId, streamId, "
                     "correlationId, globalPid, 1 as graphId "
                     f"from CUPTI_ACTIVITY_KIND_KERNEL where {chosen}")  # fmt: skip
        file.execute(f"delete from CUPTI_ACTIVITY_KIND_KERNEL where {chosen}")
        file.commit()
    return path


@pytest.mark.parametrize("beside", [0, 1, 3])
@pytest.mark.parametrize(
    ("lengths", "count"),
    [
        ([5_000_000] * 8, 8),
        ([5_000_000] * 3, 3),
        ([5_000_000] * 2, 0),
        ([50_000] * 8, 0),
        ([2_000_000, 9_000_000] * 4, 0),
    ],
)
@pytest.mark.first(3)
@pytest.mark.slow
def test_a_loop_over_one_graph_is_its_steps(lengths: list[int], count: int, beside: int, tmp_path: Path) -> None:
    """It is too short for a period of names; graphs that are short, or unlike one another, are parts of something."""
    with analyze([with_graphs(tmp_path / "run.sqlite", lengths, beside)], tmp_path / "run.duckdb") as database:
        found = database.rows("select length_ns from step_summary where found_by = 'period'")
    assert len(found) == count
    assert all(length == pytest.approx(lengths[0], rel=0.05) for (length,) in found)


@st.composite
def loops_of_siblings(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """How long each of some ranges takes in each turn, and the time between them, in us."""
    turns = draw(st.integers(3, 8))
    usual = draw(st.lists(st.integers(200, 1000), min_size=2, max_size=5).filter(lambda us: 1.3 * max(us) < sum(us)))
    return [[us + draw(st.integers(0, 20)) for us in usual] for _ in range(turns)], draw(st.integers(1, 50))


@settings(max_examples=8)
@given(loop=loops_of_siblings())
@pytest.mark.slow
def test_ranges_side_by_side_that_come_in_turn_are_a_step_together(
    loop: tuple[list[list[int]], int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each begins with the first of them, and lasts until that comes again."""
    turns, between = loop
    tmp_path, at, events, begins = tmp_path_factory.mktemp("siblings"), 10_000, [], []
    for lengths in turns:
        begins.append(at)
        for number, length in enumerate(lengths):
            events.append(annotation(f"part {'abcdefgh'[number]}", at, length))
            events.append(annotation("inner", at + 1, length / 2))
            at += length + between
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        found = database.rows("select found_by, step, length_ns from step_summary order by start_ns")
    ends = [*begins[1:], at - between]
    lengths = [1000 * (end - begin) for begin, end in zip(begins, ends, strict=True)]
    assert found == [("repetition", number, length) for number, length in enumerate(lengths, 1)]


@pytest.mark.slow
def test_a_step_of_ranges_side_by_side_says_which_of_them_was_slow(tmp_path: Path) -> None:
    events, at = [], 10_000.0
    for turn in range(12):
        for name, length in (("reader", 100.0), ("backbone", 400.0), ("head", 900.0 if turn == 7 else 300.0)):
            events.append(annotation(name, at, length))
            at += length + 5
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        ((place, evidence),) = database.rows("select place, evidence from finding where rule = 'uneven_steps'")
    assert place == "1 of 12 steps" and "(step 8)" in evidence and evidence.endswith("; head is 600.0 us longer in it")


@pytest.mark.parametrize("names", [["reader", "step 3"], ["reader", "Optimizer.step#SGD.step"], ["reader"]])
@pytest.mark.slow
def test_ranges_side_by_side_are_no_step_beside_what_is_one(names: list[str], tmp_path: Path) -> None:
    events = [
        annotation(name, 1000.0 * turn + 400 * place, 390) for turn in range(6) for place, name in enumerate(names)
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with analyze([tmp_path / "trace.json"], tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*) from _sibling_step") == [(0,)]


@pytest.mark.parametrize("kernel_us", [100, 300])
@pytest.mark.slow
def test_a_step_that_begins_behind_work_of_before_the_recording_is_no_longer_than_others(
    kernel_us: int, tmp_path: Path
) -> None:
    """The CPU is steps ahead: the recording begins with what it launched before, whose launches are missing."""
    gpu, begins = Gpu(is_pinned=True), []
    for step in range(8):
        begins.append(gpu.now)
        with gpu.range(f"step {step}"):
            for _ in range(20):
                gpu.launch("gemm", 1_000 * kernel_us)
    run = gpu.finished()
    begin, line = begins[3], run.timeline
    line.ranges = [one for one in line.ranges if one.start >= begin]
    line.calls = [one for one in line.calls if one.start >= begin]
    line.ops = [one for one in line.ops if one.end > begin]
    path = tmp_path / "late.sqlite"
    writers.write_nsys(path, [line])
    with analyze([path], tmp_path / "late.duckdb") as database:
        lengths = [length for (length,) in database.rows("select length_ns from step_summary order by start_ns")]
    assert len(lengths) == 5
    assert lengths == [pytest.approx(lengths[-1], rel=0.02)] * 5


@pytest.mark.parametrize(("queued", "step_ms"), [(149.0, 156), (0.5, 156.5)])
@pytest.mark.slow
def test_what_a_step_waits_for_that_was_not_recorded_is_no_part_of_it(
    queued: float, step_ms: float, tmp_path: Path
) -> None:
    """A server that queues its steps, of which one is in the file: the GPU is busy with those before."""
    both = {"ph": "X", "pid": 1, "tid": 1}
    events = [annotation("step 7", 10_000, 26_000)]
    at = 12_000 + 1_000 * queued
    for number in range(4):
        link = {"correlation": number + 1}
        call = {
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": 12_000 + 1_000 * number,
            "dur": 3,
            "args": link,
        }
        kernel = {"cat": "kernel", "name": "gemm", "ts": at, "dur": 39_000, "args": link | {"device": 0, "stream": 7}}
        events += [both | call, both | kernel]
        at += 39_000
    (tmp_path / "run.json").write_text(json.dumps({"traceEvents": events}))
    with analyze([tmp_path / "run.json"], tmp_path / "run.duckdb") as database:
        ((length_ns, wall_ns),) = database.rows("select length_ns, wall_ns from step_summary")
        found = answer(database)
    assert length_ns / 1e6 == pytest.approx(step_ms + (2.0 if queued < 1 else 0), abs=0.01)
    assert wall_ns == 26_000_000
    assert found["parts"]["compute"] > 0.98


def operators(names: list[str], length: float = 10) -> list[Event]:
    """Operators of a CPU one behind the other, on one thread."""
    return [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": 10_000 + (length + 2) * place,
            "dur": length,
        }
        for place, name in enumerate(names)
    ]


NODE = "autograd::engine::evaluate_function: "
LAYER = ["layer_norm", "linear", "softmax", "bmm", "gelu", "add", "dropout", "linear"]
BACKWARD = [f"{NODE}{name}Backward0" for name in reversed(LAYER)]
PASS, BACK = ["embedding", *LAYER * 4, "head", "loss"], [f"{NODE}Loss", *BACKWARD * 4, f"{NODE}Embedding"]


@pytest.mark.parametrize(
    ("names", "cnt"),
    [
        ([*PASS, *BACK, "add_", "add_"] * 5, 5),
        (["normal_"] * 6 + [*LAYER, *BACKWARD, "add_"] * 12, 12),
        ([*PASS, *BACK], 0),  # layers of one step repeat, too
        (LAYER * 12, 0),
        ([*LAYER, *LAYER] * 12 + BACKWARD * 24, 0),
        ([*PASS] * 5, 0),  # of inference nobody knows which is a step and which a layer
    ],
    ids=["training", "of one layer", "one step", "layers", "one pass and its backward", "inference"],
)
@pytest.mark.slow
def test_steps_of_a_cpu_alone_repeat_with_their_backward(names: list[str], cnt: int, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(
        json.dumps({"traceEvents": operators([f"aten::{n}" if ":" not in n else n for n in names])})
    )
    with analyze([tmp_path / "run.json"], tmp_path / "run.duckdb") as database:
        found = database.rows("select distinct found_by, launch_cnt from step_summary")
        steps = database.rows("select length_ns from step_summary order by step")
    assert len(steps) == cnt and (not cnt or found == [("period", 0)])
    if cnt:
        assert {length for (length,) in steps[:-1]} == {steps[0][0]}
