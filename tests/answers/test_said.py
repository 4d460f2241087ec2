"""What is said of loops whose truth is known, in the terminal, on the page and of two of them."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import writers
from conftest import opened, quick
from loops import GEMM, Loop
from lorabench import rundir
from lorabench.errors import RegressionError
from lorabench.progress import Silent
from lorabench.reports.answer import answer, answer_text, next_text
from lorabench.reports.comparison import changes
from lorabench.reports.page import cells
from lorabench.reports.page import page as pages
from lorabench.reports.tables import why_empty
from lorabench.reports.terminal import table
from simulated_gpu import Gpu, Training

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"
MUL = ADD.replace("_add", "_mul")
MIB = 1 << 20


def loop(
    steps: int = 12,
    kernels: Sequence[str] = (GEMM,) * 4,
    length: float = 200,
    load: Sequence[float] = (),
    cold: float = 1,
) -> Loop:
    """Steps of kernels, the first `cold` times as long, behind a range that loads for so many us, in turn."""
    made = Loop()
    for number in range(steps):

        def work(number: int = number) -> None:
            if load and load[number % len(load)]:
                made.pause("load batch", load[number % len(load)])
            for name in kernels:
                made.kernel(name, length * (cold if number == 0 else 1))
            made.synchronise()

        made.inside(f"step {number}", work)
    return made


def compared(folder: Path, first: Loop, other: Loop, by: str | None = None) -> changes.Compared:
    inputs = [first.write(folder / "a.json"), other.write(folder / "b.json")]
    return changes.compare_inputs(inputs, by, None, None, False, Silent())


def holding(rank: int, size: int) -> Loop:
    """A rank that takes so much memory in each step."""
    made = Loop(2, rank)
    for number in range(6):

        def work(number: int = number) -> None:
            made.allocate(size, 4096 * (number + 1))
            made.kernel(GEMM, 200)
            made.allocate(-size, 4096 * (number + 1))
            made.synchronise()

        made.inside(f"step {number}", work)
    return made


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks") / "job"
    folder.mkdir()
    for rank, size in enumerate((100 * MIB, 900 * MIB)):
        holding(rank, size).write(folder / f"rank{rank}.json")
    return folder


@pytest.mark.parametrize(("rank", "own", "other"), [(0, 100, 900), (1, 900, 100)])
@pytest.mark.first(1)
@pytest.mark.slow
def test_the_page_of_a_rank_has_the_memory_of_that_rank(
    ranks: Path, rank: int, own: int, other: int, tmp_path: Path
) -> None:
    with opened(*sorted(ranks.iterdir()), db=ranks.with_name("job.duckdb")) as database:
        pages.write(database, tmp_path / "page.html", rank=rank)
    text = re.sub(r"<[^>]*>", " ", (tmp_path / "page.html").read_text("utf-8"))
    assert re.search(rf"peak memory of cuda:0\s+{own}\.0 MiB", text)
    assert not re.search(rf"\b{other}(\.0+)? MiB", text), "of the other rank"


@pytest.mark.slow
def test_memory_of_ranks_is_compared_by_the_one_that_needs_most(ranks: Path, tmp_path: Path) -> None:
    alone = shutil.copy(ranks / "rank1.json", tmp_path / "rank1.json")
    found = changes.compare_inputs([ranks, Path(alone)], "memory", None, None, False, Silent())
    assert [found.rows[0][name] for name in found.names] == [900 * MIB, 900 * MIB]
    assert "rank 1 of A" in " ".join(found.notes)


@pytest.mark.parametrize("each", quick(3, [2, 3, 7, 1, 4]))
@pytest.mark.first(1)
@pytest.mark.slow
def test_elementwise_kernels_of_different_steps_are_no_row(each: int, tmp_path: Path) -> None:
    trace = loop(kernels=(ADD, MUL, ADD, MUL, ADD, MUL, ADD)[:each]).write(tmp_path / "loop.json")
    with opened(trace, db=tmp_path / "loop.duckdb") as database:
        rows = database.rows("select run_id, count(*) from _fusible_run group by 1 order by 1")
        assert rows == database.rows("select run_id, count(*) from main._fusible_run group by 1 order by 1")
        findings = {row["rule"]: row for row in answer.answer(database)["findings"]}
        ((share,),) = database.rows("select 100 * sum(critical_frac) / 12 from critical_path where activity = 'kernel'")
    assert [count for _, count in rows] == ([each - 1] * 12 if each >= 3 else [])
    assert ("unfused_elementwise" in findings) == (each >= 3)
    said = re.search(r"(\d+) % of the time is on the critical path in it", findings["dominant_kernel"]["evidence"])
    adding = (each + 1) // 2 / each
    assert said and float(said[1]) == pytest.approx(share * adding, abs=1.5)
    assert (" not in other findings" in findings["dominant_kernel"]["evidence"]) == (each >= 3)


def test_a_wait_between_elementwise_kernels_ends_their_row(tmp_path: Path) -> None:
    made = Loop()
    for number in range(12):

        def work() -> None:
            for _ in range(3):
                made.kernel(ADD, 200)
                made.kernel(MUL, 200)
                made.synchronise()

        made.inside(f"step {number}", work)
    with opened(made.write(tmp_path / "loop.json"), db=tmp_path / "loop.duckdb") as database:
        assert database.rows("from _fusible_run") == database.rows("from main._fusible_run") == []


@pytest.mark.slow
def test_a_kernel_is_as_long_on_average_in_two_processes_as_in_one(tmp_path: Path) -> None:
    found = []
    run = Training(kernel=40_000).run(Gpu(is_pinned=True))
    for count in (1, 2):
        writers.write_nsys(tmp_path / f"{count}.sqlite", [run.timeline] * count)
        with opened(tmp_path / f"{count}.sqlite", db=tmp_path / f"{count}.duckdb") as database:
            found.append(database.rows("select place, evidence from finding where rule = 'dominant_kernel'"))
    assert found[0] and [text.rpartition(",")[2] for _, text in found[0]] == [
        text.rpartition(",")[2] for _, text in found[1]
    ]


@pytest.fixture(scope="module")
def with_cold_steps(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[Path]]:
    """A loop, and the same with a first step that takes so many times as long."""
    folder = tmp_path_factory.mktemp("cold")

    def get(cold: int) -> list[Path]:
        (folder / f"{cold}").mkdir(exist_ok=True)
        paths = [folder / "a.json", folder / f"{cold}" / "b.json"]
        for path, times in zip(paths, (1, cold), strict=True):
            if not path.exists():
                loop(cold=times).write(path)
        return paths

    return get


@pytest.mark.parametrize("by", [None, "kernel", "class", "api"])
@pytest.mark.parametrize("cold", [4, 9])
@pytest.mark.first(1)
def test_a_cold_step_changes_no_comparison(
    cold: int, by: str | None, with_cold_steps: Callable[[int], list[Path]]
) -> None:
    found = changes.compare_inputs(with_cold_steps(cold), by, None, None, False, Silent())
    assert found.verdict[0].startswith("no difference")
    assert found.rows[0]["b.json"] == pytest.approx(found.rows[0]["a.json"], rel=0.01)
    assert changes.check(found, 0.02) == [] and "cold ones (1 of B) are left out" in " ".join(found.notes)


@pytest.mark.slow
def test_values_of_a_step_are_those_of_warm_steps_whatever_their_number(tmp_path: Path) -> None:
    found = compared(tmp_path, loop(8, cold=5), loop(24, cold=9, length=300), "kernel")
    assert [found.rows[0][name] for name in found.names] == pytest.approx([800_000, 1_200_000])


@pytest.mark.parametrize("load", [0, 1])
@pytest.mark.slow
def test_input_that_one_program_does_not_load_is_where_the_difference_comes_from(load: int, tmp_path: Path) -> None:
    with_load, without = loop(load=(2_000,)), loop(load=(load,))
    slower, faster = compared(tmp_path, without, with_load), compared(tmp_path, with_load, without)
    assert "most of it data (+2.0" in slower.verdict[0] or "most of it data (+1.999" in slower.verdict[0]
    assert "most of it data (-" in faster.verdict[0]


@pytest.mark.slow
def test_steps_that_are_long_and_short_by_turns_tell_a_difference(tmp_path: Path) -> None:
    found = compared(tmp_path, loop(20, load=(0, 2_000)), loop(20, load=(0, 6_000)))
    assert "x as slow as" in found.verdict[0] and "most of it data (+2.0" in found.verdict[0]
    with pytest.raises(RegressionError):
        changes.check(found, 0.05)


@pytest.mark.slow
def test_what_differs_by_nothing_that_is_shown_is_no_difference(tmp_path: Path) -> None:
    found = compared(tmp_path, loop(), loop(length=200.01))
    assert found.verdict[0].startswith("no difference") and ": the same, " in found.verdict[1]


@pytest.mark.slow
def test_a_view_that_has_rows_is_not_said_to_be_empty(tmp_path: Path) -> None:
    with opened(loop(load=(2_000,)).write(tmp_path / "loop.json"), db=tmp_path / "loop.duckdb") as database:
        assert why_empty.why_nothing(database, "finding", ()) == "no row of finding matches what the statement asks for"
        assert why_empty.why_nothing(database, "kernel_summary", ["--rank 5"]).endswith("matches --rank 5")
        assert "has no rows: " in why_empty.why_nothing(database, "memory_peak", ["--rank 5"])


@pytest.mark.slow
def test_what_to_type_next_of_several_inputs_can_be_typed(
    ranks: Path, run_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ranks)
    inputs = sorted(path.name for path in ranks.iterdir())
    with opened(*map(Path, inputs)) as database:  # in the cache of the commands
        lines = next_text.lines(answer.answer(database), inputs)
    commands = [line[6:].split()[1:] for line in lines]
    assert any("query" in command for command in commands)
    for command in commands[1:]:
        assert run_command(*command).returncode == 0, command


@pytest.mark.parametrize(
    "names",
    [
        ["fused_layer_norm_backward_kernel<4096>", "fused_layer_norm_backward_kernel<8192>", "other"],
        [f"a_kernel_with_a_long_name_of_{size}_values_and_more_behind" for size in (4096, 8192)],
        ["same", "same", "fused_layer_norm_backward_kernel_of_one #1", "fused_layer_norm_backward_kernel_of_one #12"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [16, 24, 31])
def test_names_that_differ_are_cut_to_different_texts(size: int, names: list[str]) -> None:
    cut = table._told_apart(names, size)
    assert max(map(len, cut)) <= size and len(set(cut)) == len(set(names))


@pytest.mark.parametrize(
    ("ns", "text"),
    [(1_234_567, "1.235"), (100_000, "0.100"), (35_000, "0.035"), (1_400, "0.0014"), (3, "0.0000030"), (0, "0.000")],
)  # fmt: skip
def test_a_short_time_is_not_shown_as_none(ns: int, text: str) -> None:
    ((cell,),) = cells.of_rows([{"mean_ns": ns}])[1]
    assert cell.text == text


@pytest.mark.slow
def test_a_table_of_the_longest_says_of_how_many(tmp_path: Path) -> None:
    with opened(loop(40).write(tmp_path / "loop.json"), db=tmp_path / "loop.duckdb") as database:
        (found,) = [part for part in pages.write(database, tmp_path / "page.html") if part.name == "timeline"]
    assert (len(found.rows), found.left_out) == (100, 60) and "longest" in found.text


def on_cpu(load: float = 0, idle: float = 0, evaluate: float = 0, steps: int = 12) -> Loop:
    """Steps of operators alone; before them input is waited for, behind them nothing runs; sometimes it evaluates."""
    made = Loop()

    def compute(length: float) -> None:
        for _ in range(5):
            made.event("cpu_op", "aten::mm", made.now, length / 5 - 1)
            made.now += length / 5

    for number in range(steps):

        def work(number: int = number) -> None:
            if load:
                made.pause("load batch", load)
            made.inside("forward", lambda: compute(5_000))
            made.inside("backward", lambda: compute(10_000))
            made.inside("optimizer", lambda: compute(1_000))
            made.now += idle
            if number % 5 == 2:
                compute(evaluate)

        made.inside(f"train_step {number}", work)
    return made


@pytest.mark.parametrize(
    ("load", "idle"), quick(4, [(0, 0), (20_000, 0), (0, 30_000), (10_000, 40_000), (40_000, 5_000)])
)
@pytest.mark.slow
def test_without_a_gpu_what_no_operator_fills_is_found_and_named(load: float, idle: float, tmp_path: Path) -> None:
    with opened(on_cpu(load, idle).write(tmp_path / "loop.json"), db=tmp_path / "loop.duckdb") as database:
        findings = {row["rule"]: row for row in answer.answer(database)["findings"]}
    whole = {"late_input": 12 * load, "python_time": 12 * idle}
    for rule, expected in whole.items():
        assert (rule in findings) == (expected > 0)
        if expected:  # also before the first operator of all steps, and behind the last
            assert findings[rule]["saving_ns"] / 1e3 == pytest.approx(expected, rel=0.01)
            assert not findings[rule]["is_predicted"]
    if idle:
        between = "(between optimizer and load batch)" if load else "(between optimizer and forward)"
        assert findings["python_time"]["place"] == between


@pytest.mark.parametrize(("category", "is_unread"), [("mtia_ccp_events", True), ("cpu_op", False)])
@pytest.mark.slow
def test_of_a_cpu_that_may_wait_for_an_accelerator_nothing_is_advised(
    category: str, is_unread: bool, tmp_path: Path
) -> None:
    """What is not read of an accelerator may fill every gap between operators."""
    path = on_cpu(0, 30_000).write(tmp_path / "loop.json")
    trace = json.loads(path.read_text("utf-8"))
    end = max(event["ts"] for event in trace["traceEvents"] if "dur" in event)
    trace["traceEvents"] += [
        {"ph": "X", "cat": category, "name": "job", "pid": 9, "tid": 9, "ts": end / 200 * number, "dur": 1}
        for number in range(200)
    ]
    path.write_text(json.dumps(trace), "utf-8")
    with opened(path, db=tmp_path / "loop.duckdb") as database:
        found = answer.answer(database)
    assert ("python_time" in {row["rule"] for row in found["findings"]}) is not is_unread
    assert any("accelerator's work is not read" in line for line in answer_text.lines(found)) is is_unread


def test_what_steps_wait_for_without_a_profiler_is_said_beside_their_length(tmp_path: Path) -> None:
    directory = rundir.RunDirectory(tmp_path / "run", False)
    loader = {"waited_ns": 14.4e6, "step_ns": 48.1e6, "batch_cnt": 2, "worker_cnt": 2}
    directory.write_json(
        rundir.SUMMARY, {"step_cnt": 12, "step_wall_ns": {"p50": 50.4e6, "max": 60e6}, "loader": loader, "device": {}}
    )
    on_cpu().write(directory.partial / "trace.json")
    directory.finish({"status": rundir.OK, "message": None, "command": ["python", "train.py"]})
    with opened(tmp_path / "run" / "trace.json", db=tmp_path / "loop.duckdb") as database:
        lines = list(answer_text.lines(answer.answer(database)))
    said = " ".join(" ".join(lines).split())
    assert "without a profiler the median step takes 50.4 ms, waits 14.4 ms of it for input; all else" in said
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("pieces", [1, 4])
@pytest.mark.first(1)
@pytest.mark.slow
def test_a_fetch_in_which_operators_run_is_one(pieces: int, tmp_path: Path) -> None:
    """A sample is made by operators, four of them a batch."""
    events: list[dict[str, Any]] = []
    for step in range(8):
        start, most = 60_000.0 * step, 40_000.0
        events += [event("user_annotation", f"ProfilerStep#{step}", start, 59_000.0)]
        events += [event("user_annotation", "enumerate(DataLoader)#Iter.__next__", start, most)]
        events += [event("cpu_op", "aten::full", start + most * (1 + n) / pieces - 50, 20.0) for n in range(pieces)]
        events += [event("cpu_op", "aten::mm", start + most + 100, 18_000.0)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with opened(tmp_path / "t.json", db=tmp_path / "t.duckdb") as database:
        ((count, saved, evidence),) = database.rows(
            "select occurrence_cnt, saving_ns, evidence from finding where rule = 'late_input'"
        )
    assert count in (7, 8) and saved == pytest.approx(count * 40e6, rel=0.02)
    assert evidence.startswith(f"the loop waits {count} times, 40.0 ms on average") or "39.9" in evidence


@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.slow
def test_what_follows_the_last_operator_of_a_range_is_named_by_it(is_inside: bool, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    for step in range(8):
        start = 60_000.0 * step
        events += [event("user_annotation", f"ProfilerStep#{step}", start, 59_000.0)]
        events += [event("user_annotation", "my_forward", start + 100, 40_000.0 if is_inside else 1_200.0)]
        events += [event("cpu_op", "aten::mm", start + 200, 1_000.0)]
        events += [event("cpu_op", "aten::mm", start + 40_500, 18_000.0)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with opened(tmp_path / "t.json", db=tmp_path / "t.duckdb") as database:
        ((place, most),) = database.rows(
            "select arg_max(place, saving_ns), max(saving_ns) from finding where rule = 'python_time'"
        )
    assert most > 250e6 and place.endswith("my_forward") is is_inside


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.slow
def test_what_a_lost_end_of_a_file_may_have_held_is_not_blamed_on_python(is_cut: bool, tmp_path: Path) -> None:
    path = on_cpu(0, 30_000).write(tmp_path / "loop.json")
    if is_cut:
        whole = path.read_text("utf-8")
        path.write_text(whole[: whole.rindex('"aten::mm"')], "utf-8")
    with opened(path, db=tmp_path / "loop.duckdb") as database:
        found = answer.answer(database)
    assert ("python_time" in {row["rule"] for row in found["findings"]}) is not is_cut
    assert any("in what is left of this file" in line for line in answer_text.lines(found)) is is_cut


NODE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


@pytest.mark.parametrize(
    ("names", "around", "is_python"),
    [((NODE, NODE), "backward", False), ((NODE, NODE), "layer", True), (("aten::mm", NODE), "backward", True)],
)
@pytest.mark.slow
def test_a_pause_between_two_nodes_of_a_backward_is_no_python(
    names: tuple[str, str], around: str, is_python: bool, tmp_path: Path
) -> None:
    events: list[dict[str, Any]] = []
    for step in range(8):
        start, pause = 60_000.0 * step, 40_000.0 if step == 5 else 10.0
        events += [event("user_annotation", f"ProfilerStep#{step}", start, 59_950.0)]
        events += [event("user_annotation", around, start + 100, 3_000.0 + pause)]
        events += [event("user_annotation", "norm", start + 150, 2_900.0 + pause)]
        events += [event("cpu_op", names[0], start + 100, 1_100.0)]
        events += [event("cpu_op", names[1], start + 1_200 + pause, 1_880.0)]
        events += [event("cpu_op", "aten::mm", start + 3_100 + pause, 59_900 - 3_100 - pause)]
        events += [event("cpu_op", "aten::mm", start, 105.0) | {"tid": 2}]  # operators of another thread
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with opened(tmp_path / "t.json", db=tmp_path / "t.duckdb") as database:
        found = database.rows("select place, evidence, advice from finding where rule = 'python_time'")
    assert bool(found) is is_python
    for place, evidence, advice in found:
        assert place.endswith(f"{around}/norm") and evidence.startswith("no operator runs once, 40.0 ms")
        assert advice.startswith("It is there once: if your program does nothing there but once")


@pytest.mark.parametrize(("usual_us", "is_few"), [(300.0, True), (20_000.0, False)])
@pytest.mark.slow
def test_of_a_few_late_batches_it_is_said_that_workers_start(usual_us: float, is_few: bool, tmp_path: Path) -> None:
    """More workers, which is what all late batches call for, take longer to start."""
    events: list[dict[str, Any]] = []
    for step in range(12):
        start, wait = 100_000.0 * step, 80_000.0 if step % 6 == 3 else usual_us
        events += [event("user_annotation", f"ProfilerStep#{step}", start, 99_000.0)]
        events += [event("user_annotation", "enumerate(DataLoader)#Iter.__next__", start, wait)]
        events += [event("cpu_op", "aten::mm", start + wait, 98_900.0 - wait)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    with opened(tmp_path / "t.json", db=tmp_path / "t.duckdb") as database:
        ((advice,),) = database.rows("select advice from finding where rule = 'late_input'")
    assert advice.startswith("A few batches make most of it") is is_few
    assert "persistent_workers=True" in advice


def event(category: str, name: str, start: float, length: float) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}


@pytest.mark.parametrize(
    ("times", "loader", "said"),
    [
        ({"p50": 50e6, "mean": 51e6}, {}, "the median step takes 50.0 ms; all else"),
        ({"p50": 20e6, "mean": 26e6}, {}, "a step takes 26.0 ms on average; all else"),
        ({"p50": 20e6, "mean": 22e6}, {"waited_ns": 20e6}, "22.0 ms on average, waits 20.0 ms of it for input;"),
        ({"p50": 40e6, "mean": 41e6}, {"waited_ns": 32e6, "rank": 1}, "that of rank 1 waits 32.0 ms of it for input;"),
        ({"p50": 20e6, "mean": 22e6}, {"waited_ns": 9e6, "step_ns": 21.8e6}, "average, waits 9.0 ms of it for input;"),
        ({"p50": 20e6, "mean": 29e6}, {"waited_ns": 9e6, "step_ns": 21e6},
         "29.0 ms on average; those that do not evaluate 21.0 ms, waiting 9.0 ms of it for input;"),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_mean_is_held_against_a_mean(
    times: dict[str, float], loader: dict[str, float], said: str, tmp_path: Path
) -> None:
    directory = rundir.RunDirectory(tmp_path / "run", False)
    directory.write_json(rundir.SUMMARY, {"step_cnt": 12, "step_wall_ns": times, "loader": loader, "device": {}})
    on_cpu().write(directory.partial / "trace.json")
    directory.finish({"status": rundir.OK, "message": None, "command": ["python", "train.py"]})
    with opened(tmp_path / "run" / "trace.json", db=tmp_path / "loop.duckdb") as database:
        assert said in " ".join(" ".join(answer_text.lines(answer.answer(database))).split())


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([10, 10.5], "10.2 ms on average"), ([10, 30], "30.0 ms once, else 10.0 ms"),
        ([5, 5, 30], "30.0 ms once, else 5.0 ms on average"), ([7], "7.0 ms"),
    ],
)  # fmt: skip
def test_lengths_that_are_alike_are_said_by_their_mean(lengths: list[float], said: str, synthetic_trace: Any) -> None:
    long = [length for length in lengths if 8 * length >= max(lengths)]
    mean = sum(lengths) / len(lengths)
    with opened(synthetic_trace("nsys")) as database:
        found = database.rows(
            f"select said_lengths({len(lengths)}, {mean}e6, {max(lengths)}e6, {len(long)}, {sum(long)}e6)"
        )
    assert found == [(said,)]


@pytest.mark.slow
def test_a_step_that_evaluates_says_that_no_phase_is_longer(tmp_path: Path) -> None:
    with opened(on_cpu(evaluate=30_000).write(tmp_path / "loop.json"), db=tmp_path / "loop.duckdb") as database:
        ((evidence,),) = database.rows("select evidence from finding where rule = 'uneven_steps'")
    assert "what is in no phase (saving, logging, garbage collection …) is 30.0 ms longer" in evidence


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("_compile.compile_inner (dynamo_timed)", "compiling and loading is 29.0 ms longer"),
        ("forward without gradient", "a forward without gradient (evaluating) is 29.0 ms longer"),
    ],
)
@pytest.mark.slow
def test_a_slow_step_says_what_fills_its_time_where_that_is_known(name: str, said: str, tmp_path: Path) -> None:
    made = on_cpu(evaluate=30_000)
    for long in [e for e in made.events if e["name"].startswith("train_step") and e["dur"] > 30_000]:
        made.event("user_annotation", name, long["ts"] + long["dur"] - 29_500, 29_000)
    with opened(made.write(tmp_path / "loop.json"), db=tmp_path / "loop.duckdb") as database:
        ((evidence,),) = database.rows("select evidence from finding where rule = 'uneven_steps'")
        phases = dict(database.rows("select phase, cpu_ns from phase_summary"))
    assert said in evidence
    assert ("no_grad" in phases) == (name == "forward without gradient")
    assert phases.get("no_grad", 58_000_000) == 58_000_000  # in two steps


def test_a_region_that_is_compiled_again_is_one_place_whatever_torch_counts(tmp_path: Path) -> None:
    made = on_cpu()
    starts = [event["ts"] for event in made.events if event["name"].startswith("train_step")]
    for number in range(2):
        region = f"Torch-Compiled Region: 2/{number + 1}"
        made.event("cpu_op", region, starts[4 + number] + 5_990, 3_020)
        made.event("cpu_op", "_compile.compile_inner (dynamo_timed)", starts[4 + number] + 6_000, 3_000)
    with opened(made.write(tmp_path / "loop.json"), db=tmp_path / "loop.duckdb") as database:
        ((place, evidence, advice),) = database.rows(
            "select place, evidence, advice from finding where rule = 'compiling_or_loading'"
        )
    assert "Torch-Compiled Region: 2/_compile" in place and evidence == "compiled 2 times in 2 steps"
    assert advice.startswith("What the code was specialized on changes from step to step")


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.first(1)
def test_what_is_compiled_in_one_of_many_steps_is_paid_once(times: int, tmp_path: Path) -> None:
    made = on_cpu()
    starts = [event["ts"] for event in made.events if event["name"].startswith("train_step")]
    for number in range(times):
        made.event("cpu_op", "_compile.compile_inner (dynamo_timed)", starts[4 + number] + 6_000, 3_000)
    with opened(made.write(tmp_path / "loop.json"), db=tmp_path / "loop.duckdb") as database:
        ((advice,),) = database.rows("select advice from finding where rule = 'compiling_or_loading'")
        (row,) = [row for row in answer.answer(database)["findings"] if row["rule"] == "compiling_or_loading"]
    assert ("paid once" in advice) == (times == 1) and answer.bound(row) == ("once" if times == 1 else "at most")
