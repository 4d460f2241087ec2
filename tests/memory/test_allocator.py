"""Snapshots of a simulated allocator: what is said of them beside what it knows."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import dear
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from lorabench.reports.answer.answer import answer
from simulated_allocator import MIB, Allocator

SIZES = st.sampled_from([64 * MIB, 100 * MIB, 300 * MIB])
NUMBER = st.integers(0, 9)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), SIZES, st.booleans()),
        st.tuples(st.just("free"), NUMBER, st.booleans()),
        st.tuples(st.just("done"), NUMBER, st.just(False)),
    ),
    min_size=1, max_size=14,
)  # fmt: skip


def done(actions: list[tuple[str, int, bool]]) -> Allocator:
    allocator = Allocator(1000 * MIB)
    for action, number, flag in actions:
        if action == "alloc":
            allocator.alloc(number, is_of_graph=flag)
        elif action == "free":
            allocator.free(number, is_late=flag)
        else:
            allocator.done(number)
    return allocator


def read(allocator: Allocator, folder: Path) -> Database:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(allocator.snapshot()))
    return analyze([path], folder / "x.duckdb", force=True)


# what torch gives back before it fails is no longer held; a block that another stream works on is in use; and the pool
# of a graph holds besides only what is not in use at the peak
@example(actions=[("alloc", 300 * MIB, False)] * 3 + [("free", 0, False), ("alloc", 500 * MIB, False)])
@example(actions=[("alloc", 300 * MIB, False)] * 3 + [("free", 0, True), ("alloc", 300 * MIB, False)])
@example(actions=[("alloc", 300 * MIB, True), ("alloc", 100 * MIB, False), ("free", 0, False)])
@example(actions=[("alloc", 300 * MIB, False), ("free", 0, True), ("alloc", 100 * MIB, False), ("done", 0, False)])
@dear(8, 100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
@pytest.mark.slow
def test_levels_and_failures_are_those_of_the_allocator(actions: list[tuple[str, int, bool]], tmp_path: Path) -> None:
    allocator = done(actions)
    with read(allocator, tmp_path) as database:
        levels = database.rows("select live_bytes, reserved_bytes from _memory_level order by time_ns")
        failed = database.rows(
            "select requested_bytes, live_bytes, reserved_bytes, unused_bytes, free_bytes from out_of_memory "
            "order by time_ns"
        )
        unused = database.rows("select unused_bytes from memory_fragmentation where moment = 'peak'")
        told = answer(database)["memory"] if allocator.levels else []
    assert levels == allocator.levels
    # at the first moment of all nothing is known yet of what is live
    assert failed == [
        (one.requested, one.used, one.reserved, one.reserved - one.used - one.idle_of_graphs, one.left)
        for one in allocator.failures
    ]
    most = max((reserved for _, reserved in allocator.levels), default=0)
    highest = [used for used, reserved in allocator.levels if reserved == most]
    assert all(value <= most - max(highest) for (value,) in unused)
    for row in told:
        assert row["peak_bytes"] == max(used for used, _ in allocator.levels)
        assert row["peak_bytes"] + (row["graph_bytes"] or 0) <= most


def test_a_block_that_another_stream_works_on_at_the_end_is_in_use(tmp_path: Path) -> None:
    allocator = done([("alloc", 300 * MIB, False), ("alloc", 100 * MIB, False), ("free", 0, True)])
    with read(allocator, tmp_path) as database:
        ends = database.rows("select allocated_bytes, unused_bytes from memory_fragmentation where moment = 'end'")
        assert [sum(column) for column in zip(*ends, strict=True)] == [400 * MIB, 0]
        assert not database.rows("select 1 from memory_finding where rule = 'fragmentation'")


def test_fragments_are_a_share_of_what_is_held(tmp_path: Path) -> None:
    allocator = Allocator(1000 * MIB)
    for _ in range(9):
        allocator.alloc(100 * MIB)
    for _ in range(8):
        allocator.free(0)
    allocator.history.clear()
    snapshot: dict[str, Any] = allocator.snapshot()
    whole = {**snapshot["segments"][0], "total_size": 900 * MIB}
    whole["blocks"] = [
        {"address": whole["address"] + n * 100 * MIB, "size": 100 * MIB, "requested_size": used, "frames": [],
         "state": "active_allocated" if used else "inactive"}
        for n, used in enumerate([100 * MIB, *[0] * 8])
    ]  # fmt: skip
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [whole], "device_traces": [[]]}))
    with analyze([path], tmp_path / "x.duckdb") as database:
        ((share,),) = database.rows("select cost_frac from memory_finding where rule = 'fragmentation'")
    assert share == pytest.approx(800 / 900)
