"""The view critical_path: exact on real traces, and right where the answer is known."""

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import corpus_params
from lorabench.analyze.store.database import Database

FIXTURES = Path(__file__).parent.parent / "fixtures"
TRACES = [
    *corpus_params("nsys/*.sqlite"), *corpus_params("kineto/*.json*"), FIXTURES / "lora-run.sqlite",
    FIXTURES / "lora-run.json.gz", FIXTURES / "h200-batch" / "trace.json.gz",
]  # fmt: skip


@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.name if isinstance(p, Path) else p)
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
    for step, wall in database.rows("select step, sum(wall_ns)::bigint from step_summary group by 1"):
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
