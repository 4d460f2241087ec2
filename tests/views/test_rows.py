"""Rows in, rows out: each public view over a model filled by hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from lorabench import sql
from lorabench.analyze.store import checks
from lorabench.analyze.store.building import building
from lorabench.analyze.store.database import Database
from lorabench.errors import CheckError

Row = dict[str, Any]

# One step on thread 11 of process 1: `step` holds `forward`; the autograd thread 12 launches one kernel.
RANGES = [
    {"range_id": 0, "name_id": 0, "text_id": 9, "start_ns": 0, "end_ns": 100, "covered_ns": 40, "depth": 0, "path_id": 0},
    {"range_id": 1, "name_id": 1, "text_id": 1, "start_ns": 10, "end_ns": 50, "covered_ns": 0, "parent_id": 0, "depth": 1,
     "path_id": 1},
]  # fmt: skip
CALLS = [
    {"api_call_id": 0, "thread_id": 11, "correlation_id": 5, "start_ns": 12, "end_ns": 16},
    {"api_call_id": 1, "thread_id": 11, "correlation_id": 6, "start_ns": 20, "end_ns": 22},
    {"api_call_id": 2, "thread_id": 12, "correlation_id": 7, "start_ns": 60, "end_ns": 65},
    {
        "api_call_id": 3,
        "thread_id": 11,
        "correlation_id": 5,
        "start_ns": 11,
        "end_ns": 17,
        "is_duplicate": True,
    },
]
OPS = [
    {"gpu_op_id": 0, "name_id": 2, "correlation_id": 5, "start_ns": 14, "end_ns": 34, "api_call_id": 0,
     "launch_start_ns": 12, "launch_end_ns": 16, "is_first_op": True, "range_id": 1, "attribution_id": 0},
    {"gpu_op_id": 1, "kind": "memcpy", "name_id": 3, "correlation_id": 6, "start_ns": 30, "end_ns": 60,
     "api_call_id": 1, "launch_start_ns": 20, "launch_end_ns": 22, "is_first_op": True,
     "range_id": 1, "attribution_id": 0},
    {"gpu_op_id": 2, "name_id": 2, "correlation_id": 7, "start_ns": 70, "end_ns": 110, "api_call_id": 2,
     "launch_start_ns": 60, "launch_end_ns": 65, "is_first_op": True, "range_id": 0, "attribution_id": 1},
    {"gpu_op_id": 3, "name_id": 2, "correlation_id": 2, "start_ns": 1, "end_ns": 6},
    {"gpu_op_id": 4, "kind": "graph", "name_id": 5, "correlation_id": 9, "start_ns": 120, "end_ns": 125},
]  # fmt: skip
ATTRIBUTION = [
    {"attribution_id": 0, "path_id": 0, "rule": "direct", "is_self": False},
    {"attribution_id": 0, "path_id": 1, "rule": "direct", "is_self": True},
    {"attribution_id": 1, "path_id": 0, "rule": "window", "is_self": True},
]
TEXTS = ["step", "forward", "gemm", "[CUDA memcpy HtoD]", "cudaLaunchKernel", "[CUDA graph]"]
MODEL: dict[str, list[Row]] = {
    "source": [{"source_id": 1, "kind": "nsys", "name": "a.sqlite", "rank": 3, "world_size": 8, "size_bytes": 77}],
    "source_fact": [{"source_id": 1, "section": "lost", "item": "rows", "value": "2", "note": "why"}],
    "name": [{"name_id": i, "text": t} for i, t in enumerate(TEXTS)] + [{"name_id": 9, "text": "step 4"}],
    "thread": [
        {"source_id": 1, "thread_id": t, "process_id": 1, "pid": 1, "tid": t, "name": None} for t in (11, 12)
    ],
    "range": [
        {"source_id": 1, "kind": "annotation", "style": "PushPop", "thread_id": 11, "is_unfinished": False, "position": r["range_id"],
         "is_backward": False, **r}
        for r in RANGES
    ],
    "range_path": [
        {"path_id": 0, "source_id": 1, "depth": 0, "kind": "annotation", "name_id": 0, "path": "step"},
        {"path_id": 1, "source_id": 1, "parent_path_id": 0, "depth": 1, "kind": "annotation", "name_id": 1,
         "path": "step/forward"},
    ],
    "range_measure": [
        {"range_id": 0, "gpu_op_cnt": 3, "kernel_cnt": 2, "launch_cnt": 3, "launch_api_ns": 11, "queue_ns": 13,
         "launch_latency_ns": 22, "gpu_op_ns": 90, "kernel_ns": 60, "gpu_busy_ns": 86, "first_gpu_start_ns": 14,
         "last_gpu_end_ns": 110, "gpu_busy_inside_ns": 76},
        {"range_id": 1, "gpu_op_cnt": 2, "kernel_cnt": 1, "launch_cnt": 2, "launch_api_ns": 6, "queue_ns": 8,
         "launch_latency_ns": 12, "gpu_op_ns": 50, "kernel_ns": 20, "gpu_busy_ns": 46, "first_gpu_start_ns": 14,
         "last_gpu_end_ns": 60, "gpu_busy_inside_ns": 36},
    ],
    "path_measure": [
        {"path_id": 0, "range_cnt": 1, "unfinished_cnt": 0, "wall_ns": 100, "self_wall_ns": 60, "gpu_span_ns": 96,
         "gpu_busy_inside_ns": 76},
        {"path_id": 1, "range_cnt": 1, "unfinished_cnt": 0, "wall_ns": 40, "self_wall_ns": 40, "gpu_span_ns": 46,
         "gpu_busy_inside_ns": 36},
    ],
    "set_work": [
        {"attribution_id": 0, "rule_cnt": 1, "launch_cnt": 2, "launch_api_ns": 6, "queue_ns": 8, "launch_latency_ns": 12,
         "gpu_op_cnt": 2, "gpu_op_ns": 50, "kernel_cnt": 1, "kernel_ns": 20},
        {"attribution_id": 1, "rule_cnt": 1, "launch_cnt": 1, "launch_api_ns": 5, "queue_ns": 5, "launch_latency_ns": 10,
         "gpu_op_cnt": 1, "gpu_op_ns": 40, "kernel_cnt": 1, "kernel_ns": 40},
    ],
    "path_busy": [
        {"path_id": 0, "device_id": 0, "gpu_busy_ns": 86}, {"path_id": 1, "device_id": 0, "gpu_busy_ns": 46},
    ],
    "attribution": [{"source_id": 1, **a} for a in ATTRIBUTION],
    "api_call": [{"source_id": 1, "name_id": 4, "is_duplicate": False, **c} for c in CALLS],
    "gpu_op": [{"source_id": 1, "kind": "kernel", "process_id": 1, "device_id": 0, "stream_id": 7, **o} for o in OPS],
    "memory_operation": [{"gpu_op_id": 1, "bytes": 1000, "copy_kind": "HtoD"}],
}  # fmt: skip


def fill(database: Database, model: dict[str, list[Row]]) -> None:
    for table, rows in model.items():
        for row in rows:
            database.connection.execute(
                f'insert into "{table}" ({", ".join(row)}) values ({", ".join("?" * len(row))})',
                list(row.values()),
            )


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with building(tmp_path_factory.mktemp("model") / "model.duckdb") as made:
        fill(made, MODEL)
        yield made


def only(rows: list[Row], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in rows]


def view(database: Database, name: str) -> list[Row]:
    return database.view(name).to_dicts()


def test_the_model_by_hand_keeps_all_identities(database: Database) -> None:
    checks.run(database)


def test_range_summary(database: Database) -> None:
    step, forward = view(database, "range_summary")
    assert only([step, forward], "path", "name", "depth", "range_cnt", "wall_ns", "self_wall_ns") == [
        ("step", "step", 0, 1, 100, 60), ("step/forward", "forward", 1, 1, 40, 40),
    ]  # fmt: skip
    assert only([step, forward], "launch_cnt", "launch_api_ns", "queue_ns", "launch_latency_ns") == [
        (3, 4 + 2 + 5, 0 + 8 + 5, 2 + 10 + 10), (2, 6, 8, 12),
    ]  # fmt: skip
    assert only([step, forward], "gpu_op_ns", "kernel_ns", "direct_kernel_ns", "sequence_kernel_ns", "window_kernel_ns") == [
        (90, 60, 20, 0, 40), (50, 20, 20, 0, 0),
    ]  # fmt: skip
    assert only([step, forward], "gpu_busy_ns", "gpu_span_ns", "launch_overhead_ns") == [
        (86, 96, 24),
        (46, 46, 4),
    ]
    assert only([step, forward], "self_launch_cnt", "self_kernel_ns", "self_gpu_op_ns", "self_queue_ns") == [
        (1, 40, 40, 5), (2, 20, 50, 8),
    ]  # fmt: skip
    assert only([step, forward], "parent_path_id", "source_id", "rank") == [(None, 1, 3), (0, 1, 3)]


def test_range_instance(database: Database) -> None:
    step, forward = view(database, "range_instance")
    assert only([step, forward], "name", "text", "tid", "start_ns", "end_ns", "wall_ns", "self_wall_ns") == [
        ("step", "step 4", 11, 0, 100, 100, 60), ("forward", "forward", 11, 10, 50, 40, 40),
    ]  # fmt: skip
    assert only([step, forward], "gpu_span_ns", "launch_overhead_ns", "self_kernel_cnt", "self_gpu_op_ns") == [
        (96, 24, 1, 40), (46, 4, 1, 50),
    ]  # fmt: skip


def test_launch_trace(database: Database) -> None:
    rows = view(database, "launch_trace")
    assert list(rows[0])[:5] == [
        "event_name", "call_api_start_time", "call_api_end_time", "kernel_start_time", "kernel_end_time",
    ]  # fmt: skip
    assert only(rows, *list(rows[0])[:5]) == [
        ("forward", 12, 16, 14, 34), ("forward", 20, 22, 30, 60), ("step", 60, 65, 70, 110),
        (None, None, None, 1, 6), (None, None, None, 120, 125),
    ]  # fmt: skip
    assert only(rows, "rule", "queue_ns", "launch_latency_ns", "launch_api_ns", "tid") == [
        ("direct", 0, 2, 4, 11), ("direct", 8, 10, 2, 11), ("window", 5, 10, 5, 12),
        ("none", None, None, None, None), ("none", None, None, None, None),
    ]  # fmt: skip


def test_range_kernel_summary(database: Database) -> None:
    rows = view(database, "range_kernel_summary")
    assert only(rows, "path", "kernel_name", "rule", "kernel_cnt", "kernel_ns", "self_kernel_ns", "stddev_ns") == [
        ("step", "gemm", "window", 1, 40, 40, 0.0),
        ("step", "gemm", "direct", 1, 20, 0, 0.0),
        ("step/forward", "gemm", "direct", 1, 20, 20, 0.0),
    ]


def test_kernel_summary(database: Database) -> None:
    (row,) = view(database, "kernel_summary")
    assert only([row], "kernel_name", "kernel_cnt", "kernel_ns", "kernel_frac", "median_ns", "min_ns", "max_ns") == [
        ("gemm", 3, 65, 1.0, 20.0, 5, 40)
    ]
    assert row["mean_ns"] == pytest.approx(65 / 3) and row["stddev_ns"] == pytest.approx(17.5594229)


def test_api_summary_counts_a_call_once(database: Database) -> None:
    assert only(view(database, "api_summary"), "api_name", "call_cnt", "call_ns", "call_frac") == [
        ("cudaLaunchKernel", 3, 11, 1.0)
    ]


def test_memory_operation_summary(database: Database) -> None:
    assert only(
        view(database, "memory_operation_summary"),
        "operation_name",
        "copy_kind",
        "operation_ns",
        "bytes",
        "stddev_bytes",
    ) == [("[CUDA memcpy HtoD]", "HtoD", 30, 1000, 0.0)]


def test_unattributed_tells_causes_apart(database: Database) -> None:
    assert only(view(database, "unattributed"), "cause", "kernel_cnt", "kernel_ns", "gpu_op_cnt", "gpu_op_ns") == [
        ("launch not in the file", 0, 0, 1, 5), ("launched before the window", 1, 5, 1, 5),
    ]  # fmt: skip


def test_trace_info(database: Database) -> None:
    rows = only(view(database, "trace_info"), "section", "item", "value")
    assert ("about", "rank of world size", "3 of 8") in rows
    assert ("holds", "GPU operations: kernel", "3") in rows
    assert ("holds", "API calls stored twice", "1") in rows
    assert ("missing", "launching calls of GPU operations", "2") in rows
    assert ("lost", "rows", "2") in rows


BROKEN = [
    ("check_attribution_total", "update attribution set is_self = false where attribution_id = 1"),
    ("check_path_once", "insert into attribution select * from attribution where path_id = 1"),
    ("check_tree", "update range set end_ns = 101 where range_id = 1"),
    ("check_launch_inside", "update gpu_op set launch_start_ns = 9 where gpu_op_id = 0"),
    ("check_busy", "update range_measure set gpu_busy_inside_ns = 41 where range_id = 1"),
    # a path with more than its instances, with less, with fewer operations, and with nothing
    ("check_range_sum", "update range_measure set gpu_op_ns = 86, gpu_busy_ns = 86 where range_id = 0"),
    ("check_range_sum", "update set_work set gpu_op_ns = 49, kernel_ns = 19 where attribution_id = 0"),
    ("check_range_sum", "update set_work set gpu_op_cnt = 1 where attribution_id = 0"),
    ("check_range_sum", "delete from attribution where path_id = 1"),
]


def test_times_are_said_whatever_number_they_are(database: Database) -> None:
    kinds = ("bigint", "hugeint", "double")
    for kind in kinds:
        said = database.rows(f"select said_ns(ns::{kind}) from (values (0), (999), (1000), (2500000)) as t(ns)")
        assert said == [("0 ns",), ("999 ns",), ("1.0 us",), ("2.5 ms",)]


def test_every_check_has_a_statement_that_breaks_it() -> None:
    assert {check for check, _ in BROKEN} == {f.name for f in sql.in_folder(sql.CHECKS)}


LAWS = {
    "saving_within_part": "update _predicted_finding set saving_ns = 41",
    "saving_within_limit": "update _predicted_finding set limit_ns = 20",
}


def test_a_broken_law_is_found() -> None:
    """The idle time is 30 of 100 ns, the copies with nothing beside them 10; what a wait is blamed for is no limit."""
    assert {law.name for law in sql.in_folder(sql.LAWS)} == LAWS.keys()
    for law in sql.in_folder(sql.LAWS):
        with duckdb.connect() as connection:
            (part_of_rule,) = (macro for macro in sql.in_folder(sql.MACROS) if macro.name == "part_of_rule")
            connection.execute(part_of_rule.statement)
            connection.execute(
                "create table _predicted_finding as select 1 as source_id, 'long_idle_gap' as rule, 'x' as place, "
                "30.0 as saving_ns, 30.0 as limit_ns union all select 1, 'synchronisation', 'x', 10.0, 5.0"
            )
            connection.execute(
                "create table steady_state as select 1 as source_id, 100 as window_ns, 30 as host_idle_ns, "
                "0 as dependency_idle_ns, 60 as compute_ns, 10 as exposed_memory_ns, 0 as exposed_communication_ns"
            )
            assert connection.execute(law.statement).fetchall() == []
            connection.execute(LAWS[law.name])
            assert len(connection.execute(law.statement).fetchall()) == 1


@pytest.mark.parametrize(("check", "statement"), BROKEN)
def test_a_broken_identity_is_found_and_named(check: str, statement: str, tmp_path: Path) -> None:
    with building(tmp_path / "model.duckdb") as database:
        fill(database, MODEL)
        database.connection.execute(statement)
        assert database.rows(f"select count(*) > 0 from {check}") == [(True,)]
        with pytest.raises(CheckError, match="does not hold"):
            checks.run(database)
