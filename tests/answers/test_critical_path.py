"""The view critical_path: exact on real traces, and right where the answer is known."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
import writers
from conftest import ROOT, corpus_params
from hypothesis import given, settings
from hypothesis import strategies as st
from lorabench import sql
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from simulated_gpu import Gpu, Training

FIXTURES = ROOT / "fixtures"
TRACES = [
    *corpus_params("nsys/*.sqlite"), *corpus_params("kineto/*.json*"), FIXTURES / "lora-run.sqlite",
    FIXTURES / "lora-run.json.gz", FIXTURES / "h200-batch" / "trace.json.gz",
]  # fmt: skip


@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.name if isinstance(p, Path) else p)
@pytest.mark.first(1)
def test_the_rows_of_a_step_add_up_to_its_time(path: Path, database_of: Callable[[Path], Database]) -> None:
    database = database_of(path)
    whole = database.rows(
        """select process_id, sum(end_ns - start_ns), max(end_ns) - min(start_ns) from critical_segment group by 1"""
    )
    assert all(covered == extent for _, covered, extent in whole)
    found = database.rows(
        "select step, count(*), sum(critical_ns), sum(critical_frac), min(critical_ns) from critical_path group by all"
    )
    walls: dict[int | None, int] = {}
    for step, wall in database.rows("select step, sum(end_ns - start_ns)::bigint from _step_window group by 1"):
        walls[step] = wall
    for step, _, critical, share, least in found:
        assert critical == walls.get(step, critical) and least > 0
        assert share == pytest.approx(critical / walls[step] if step in walls and walls[step] != critical else share)
    if not walls and whole:
        assert sum(row[2] for row in found) == sum(extent for _, _, extent in whole)
    ((on_path,),) = database.rows(
        "select coalesce(sum(critical_ns), 0) from critical_path where activity not in ('cpu', 'launch', 'wait')"
    )
    ((all_of_it,),) = database.rows("select coalesce(sum(end_ns - start_ns), 0) from gpu_op")
    assert on_path <= all_of_it


def test_the_cpu_is_what_a_tiny_model_on_a_large_gpu_waits_for(database_of: Callable[[Path], Database]) -> None:
    database = database_of(FIXTURES / "h200-batch" / "trace.json.gz")
    shares = dict(database.rows("select activity, sum(critical_frac) / 2 from critical_path group by 1"))
    assert shares["cpu"] > 0.99
    backward = database.rows(
        "select sum(critical_ns) from critical_path where path like 'model/%' or path like 'recompute%'"
    )
    ((wall,),) = database.rows("select sum(backward_ns) from step_summary")
    assert 0.8 * wall < backward[0][0] <= wall  # the thread of autograd, while the main thread waits for it


SPANS = st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda span: (span[0], span[0] + span[1]))


def test_a_step_that_the_cpu_only_enqueues_hangs_on_its_kernels(tmp_path: Path) -> None:
    run = Training(kernel=400_000, host=2_000).run(Gpu(is_pinned=True))
    writers.write_nsys(tmp_path / "run.sqlite", [run.timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "x.duckdb") as database:
        found = database.rows(
            "select step, sum(critical_ns), sum(critical_ns) filter (activity in ('kernel', 'memcpy')) "
            "from critical_path group by 1 order by 1"
        )
    ops = run.timeline.ops
    done = [ops[(number + 1) * len(ops) // 6 - 1].end for number in range(6)]
    assert [whole for _, whole, _ in found] == [end - start for start, end in pairwise([1_000_000, *done])]
    assert min(on_gpu / whole for _, whole, on_gpu in found) > 0.98


@given(
    st.lists(st.tuples(SPANS, st.sampled_from([None, 1, 2])), max_size=8),
    st.lists(st.tuples(SPANS, st.sampled_from([(None, 4), (1, 5), (1, 6), (2, 7)])), max_size=8),
)
@settings(max_examples=100)
@pytest.mark.slow
def test_a_segment_lies_in_all_steps_of_its_process_that_it_overlaps(segments: list, steps: list) -> None:
    """Also where steps of a thread overlap, begin at once, or are in one another, as ranges of begin and end may."""
    (view,) = (view for view in sql.in_folder(sql.MODEL) if view.name == "_critical_piece")
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(
            "create table critical_segment (source_id int, process_id int, thread_id int, kind varchar, gpu_op_id int, "
            "start_ns bigint, end_ns bigint)"
        )
        connection.execute(
            "create table _step_window (source_id int, process_id int, thread_id int, step_id int, step int, "
            "start_ns bigint, end_ns bigint)"
        )
        for number, ((start, end), process) in enumerate(segments):
            connection.execute("insert into critical_segment values (1, ?, 3, 'cpu', ?, ?, ?)",
                               [process, number, start, end])  # fmt: skip
        for number, ((start, end), (process, thread)) in enumerate(steps):
            connection.execute("insert into _step_window values (1, ?, ?, ?, ?, ?, ?)",
                               [process, thread, number, number, start, end])  # fmt: skip
        found = connection.execute(f"select gpu_op_id, step, start_ns, end_ns from ({view.statement})").fetchall()
    asked: list = [(span, number, process) for number, (span, (process, _)) in enumerate(steps)]
    if not steps and segments:
        asked = [((min(s for (s, _), _ in segments), max(e for (_, e), _ in segments)), None, None)]
    expected = [
        (number, step, max(start, begin), min(end, until))
        for number, ((start, end), process) in enumerate(segments)
        for (begin, until), step, of in asked
        if start < until and end > begin and (process is None or of is None or process == of)
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("before_ms", [0, 40])
@pytest.mark.slow
def test_what_was_launched_before_the_steps_is_none_of_their_time(before_ms: int, tmp_path: Path) -> None:
    """The CPU runs ahead: the GPU still works on what came before when the first step begins."""
    gpu = Gpu()
    if before_ms:
        gpu.launch("warm_up_kernel", before_ms * 1_000_000)
    for step in range(6):
        with gpu.range(f"step {step}"):
            for _ in range(10):
                gpu.work(1_000)
                gpu.launch("matmul_gemm_kernel", 1_000_000)
    writers.write_nsys(tmp_path / "run.sqlite", [gpu.finished().timeline])
    with analyze([tmp_path / "run.sqlite"], tmp_path / "run.duckdb") as database:
        rows = database.rows(
            "select step, sum(critical_ns), count_if(name = 'warm_up_kernel') from critical_path group by 1"
        )
    assert len(rows) == 6 and all(ns == pytest.approx(10_000_000, rel=0.02) for _, ns, _ in rows), rows
    assert not any(cnt for *_, cnt in rows)
