"""Stacks of CUDA calls that nsys recorded: who calls, however stacks are numbered, and what findings say of it."""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import writers
from conftest import corpus_params, dear, opened
from hypothesis import given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from simulated_gpu import Gpu
from synthetic import MAIN, Call, Timeline

Frame = tuple[str | None, str]  # function, path of its library
CUPTI, CUDART = "/opt/nsight/libcupti.so.11.7", "/usr/local/cuda/lib64/libcudart.so.12"
TORCH, PYTHON, PROGRAM = "/lib/libtorch_cuda.so", "/usr/lib/libpython3.11.so.1.0", "/opt/train/program"
IN_CUDA = ((None, CUPTI), (None, "/usr/lib64/libcuda.so.550"))


def stacked(
    path: Path, timeline: Timeline, stack_of: Callable[[str], tuple[Frame, ...] | None], later: int = 0
) -> Path:
    """A file of nsys with stacks of calls, the innermost function first, numbered so much later than calls say."""
    writers.write_nsys(path, [timeline])
    texts: dict[str, int] = {}

    def number_of(text: str) -> int:
        return texts.setdefault(text, 7000 + len(texts))

    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "create table CUDA_CALLCHAINS (id integer, symbol integer, module integer, unresolved integer,"
            " originalIP integer, stackDepth integer, primary key (id, stackDepth))"
        )
        calls = file.execute(
            "select r.rowid, s.value from CUPTI_ACTIVITY_KIND_RUNTIME r join StringIds s on s.id = nameId "
            "order by start"
        ).fetchall()
        chain = 1 - later
        for row, name in calls:
            stack = stack_of(re.sub(r"_v\d+$", "", name))
            if stack is None:
                continue
            file.execute("update CUPTI_ACTIVITY_KIND_RUNTIME set callchainId = ? where rowid = ?", [chain, row])
            for depth, (function, module) in enumerate(stack):
                symbol = number_of(function or f"0x7f{depth:04x}")
                values = [chain + later, symbol, number_of(module), 1 if function is None else None, 0, depth]
                file.execute("insert into CUDA_CALLCHAINS values (?, ?, ?, ?, ?, ?)", values)
            chain += 1
        file.executemany("insert into StringIds values (?, ?)", [(number, text) for text, number in texts.items()])
    return path


def named(call: str) -> tuple[Frame, ...]:
    """A stack as of torch's: CUDA's own functions, whose names say which call it is, and Python's around it."""
    caller = {"cudaStreamSynchronize": "at::native::item(at::Tensor const&)"}.get(call, f"launches_{call}(int)")
    return (
        *IN_CUDA, (call, CUDART), (f"cudaError {call}<char>(char const*)", PROGRAM), (caller, TORCH), (caller, TORCH),
        ("_PyEval_EvalFrameDefault", PYTHON), ("train_step", "/opt/train/train.py"), ("_start", PROGRAM),
    )  # fmt: skip


def training(steps: int = 6) -> Timeline:
    """Steps that end with a wait, behind which the CPU works."""
    gpu = Gpu(is_pinned=True)
    for step in range(steps):
        with gpu.range(f"step {step}"):
            for _ in range(4):
                gpu.launch("gemm", 200_000)
            gpu.synchronise(7)
            gpu.work(2_000_000)
    return gpu.finished().timeline


@pytest.mark.parametrize("later", [0, 1])
def test_a_call_has_its_own_stack_whichever_number_says_so(later: int, tmp_path: Path) -> None:
    """Stacks of nsys 2022 are numbered from 1, and calls say so from 0: each would have that of the one before."""
    path = stacked(tmp_path / "x.sqlite", training(), named, later)
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = database.rows("select api_name, caller, module, stack, call_cnt from call_stack_summary order by all")
        said = database.rows("select value from trace_info where item = 'stacks of CUDA calls'")
        evidence = database.rows("select evidence from finding where rule = 'synchronisation'")
    item, launch = "at::native::item", "launches_cudaLaunchKernel"
    assert found == [
        ("cudaLaunchKernel", launch, "libtorch_cuda.so", f"{launch} < train_step", 24),
        ("cudaStreamSynchronize", item, "libtorch_cuda.so", f"{item} < train_step", 6),
    ]
    assert said == [("30",)]
    assert evidence and all("; called by at::native::item < train_step" in text for (text,) in evidence)


@pytest.mark.parametrize("later", [0, 1])
def test_where_no_symbol_says_which_call_it_is_none_is_left_without_a_stack(later: int, tmp_path: Path) -> None:
    path = stacked(tmp_path / "x.sqlite", training(2), lambda call: (*IN_CUDA, (f"from_{call[4:]}", PROGRAM)), later)
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = database.rows("select api_name, caller, call_cnt from call_stack_summary order by all")
    assert found == [
        ("cudaLaunchKernel", "from_LaunchKernel", 8),
        ("cudaStreamSynchronize", "from_StreamSynchronize", 2),
    ]


def test_python_itself_is_named_where_nothing_else_is(tmp_path: Path) -> None:
    stack = (
        *IN_CUDA,
        ("PyObject_Call", PYTHON),
        ("_PyEval_EvalFrameDefault", "/usr/bin/python3.12"),
        ("_start", PROGRAM),
    )
    path = stacked(tmp_path / "x.sqlite", training(2), lambda call: stack)
    with analyze([path], tmp_path / "x.duckdb") as database:
        found = database.rows("select distinct caller, stack from call_stack_summary")
    assert found == [("PyObject_Call", "PyObject_Call < _PyEval_EvalFrameDefault")]


def test_calls_without_a_symbol_have_no_caller_and_findings_name_none(tmp_path: Path) -> None:
    path = stacked(tmp_path / "x.sqlite", training(), lambda call: (*IN_CUDA, (None, TORCH)))
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert database.rows("select caller, module, sum(call_cnt) from call_stack_summary group by all") == [
            (None, None, 30)
        ]
        assert database.rows("select count(*) from finding where evidence like '%called by%'") == [(0,)]


CALLS = st.lists(
    st.tuples(st.sampled_from(["cudaMalloc", "cudaMemcpy", "cudaLaunchKernel"]), st.integers(1, 3), st.booleans()),
    min_size=1, max_size=12,
)  # fmt: skip


@dear(5, long=50)
@given(CALLS, st.integers(0, 1))
def test_callers_are_counted_as_plain_loops_count_them(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int, bool]], later: int
) -> None:
    """Some calls have a stack; those of one function that are beside each other are told apart by their caller."""
    folder = tmp_path_factory.mktemp("x")
    calls = [
        Call(MAIN, 1_000_000 + 10_000 * n, 1_005_000 + 10_000 * n, name, n + 1) for n, (name, _, _) in enumerate(drawn)
    ]
    left = iter(drawn)

    def stack_of(call: str) -> tuple[Frame, ...] | None:
        _, caller, has_stack = next(left)
        return (*IN_CUDA, (call, CUDART), (f"caller_{caller}", PROGRAM)) if has_stack else None

    path = stacked(folder / "x.sqlite", Timeline([], calls, [], 2_000_000), stack_of, later)
    with analyze([path], folder / "x.duckdb") as database:
        found = database.rows("select api_name, caller, call_cnt, call_ns from call_stack_summary")
    counts = Counter((name, f"caller_{caller}") for name, caller, has_stack in drawn if has_stack)
    assert Counter({(name, caller): cnt for name, caller, cnt, _ in found}) == counts
    assert all(spent == 5_000 * cnt for _, _, cnt, spent in found)


@pytest.mark.parametrize(
    ("statement", "callers", "is_lost"),
    [
        ("update CUDA_CALLCHAINS set stackDepth = 'deep' where id = 3 and stackDepth = 0", 0, True),
        ("delete from CUDA_CALLCHAINS where id = 3", 29, False),
        ("update CUPTI_ACTIVITY_KIND_RUNTIME set callchainId = 77 where callchainId = 3", 29, False),
        ("delete from CUDA_CALLCHAINS", 0, False),
        ("drop table CUDA_CALLCHAINS", 0, False),
        ("alter table CUDA_CALLCHAINS rename column symbol to sign", 0, False),
        ("delete from StringIds where value like '%item%'", 30, False),
    ],
)  # fmt: skip
@pytest.mark.first(3)
def test_stacks_that_are_odd_cost_nothing_else(statement: str, callers: int, is_lost: bool, tmp_path: Path) -> None:
    path = stacked(tmp_path / "x.sqlite", training(), named)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(statement)
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*) from gpu_op") == [(24,)]
        assert database.rows("select coalesce(sum(call_cnt), 0)::int from call_stack_summary") == [(callers,)]
        assert bool(database.rows("select value from trace_info where section = 'lost'")) is is_lost


@pytest.mark.parametrize("path", corpus_params("nsys/duplicate-api-rows*.sqlite"))
def test_callers_of_a_real_recording_are_the_functions_outside_of_cuda(path: Path) -> None:
    """Its stacks are numbered from 1, and its calls say so from 0, as the functions on them show."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
        stacks: dict[int, list[str]] = defaultdict(list)
        for chain, symbol in file.execute(
            "select c.id, s.value from CUDA_CALLCHAINS c join StringIds s on s.id = symbol order by c.id, stackDepth"
        ):
            stacks[chain].append(symbol.split("(")[0])
        calls = file.execute(
            "select s.value, callchainId from CUPTI_ACTIVITY_KIND_RUNTIME r join StringIds s on s.id = nameId "
            "where callchainId is not null"
        ).fetchall()
    expected = Counter[tuple[str, str]]()
    for name, chain in calls:
        stack = stacks[chain + 1]
        assert name in stack
        expected[name, next(f for f in stack if name not in f and not f.startswith("0x"))] += 1
    with opened(path) as database:
        found = database.rows("select api_name, caller, sum(call_cnt)::int from call_stack_summary group by all")
    assert {(name, caller): cnt for name, caller, cnt in found} == expected
