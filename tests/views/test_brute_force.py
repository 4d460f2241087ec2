"""The views equal the definitions worked out row by row, on small traces of every awkward shape."""

from pathlib import Path

import brute_force
import pytest
from brute_force import Answers, Call, Op, Range, Trace
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store import checks

PIDS = (5, 9)
THREADS = (5, 6, 9)  # 5 and 9 are main threads of their processes, 6 of neither
TIMES = st.integers(0, 40)
LENGTHS = st.integers(0, 20)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    start = draw(TIMES)
    is_operator = draw(st.booleans())
    backward = is_operator and draw(st.booleans())
    return Range(
        draw(st.sampled_from(PIDS)),
        draw(st.sampled_from(THREADS)),
        start,
        draw(st.one_of(st.none(), LENGTHS.map(lambda n: start + n), LENGTHS.map(lambda n: start + n))),
        "autograd::engine::node"
        if backward
        else draw(st.sampled_from(["aten::a", "aten::b"] if is_operator else "abc")),
        None if is_operator else draw(st.sampled_from([None, None, None, *THREADS])),
        draw(st.integers(1, 3)) if is_operator else None,
        backward,
    )


@st.composite
def calls(draw: st.DrawFn) -> Call:
    start = draw(TIMES)
    tid = draw(st.sampled_from(THREADS))
    return Call(draw(st.sampled_from(PIDS)), tid, start, start + draw(st.integers(0, 4)), draw(st.integers(1, 6)))


@st.composite
def ops(draw: st.DrawFn) -> Op:
    start = draw(TIMES)
    kind = draw(st.sampled_from(["kernel", "kernel", "memset"]))
    device = draw(st.integers(0, 1))
    return Op(draw(st.sampled_from(PIDS)), device, start, start + draw(LENGTHS), draw(st.integers(1, 8)), kind)


def _distinct_calls(found: list[Call]) -> tuple[Call, ...]:
    """Two calls of one correlation and one begin have no order that means anything."""
    return tuple({(c.pid, c.correlation, c.start): c for c in found}.values())


SCATTERED = st.builds(
    Trace,
    st.lists(ranges(), max_size=10).map(tuple),
    st.lists(calls(), max_size=8).map(_distinct_calls),
    st.lists(ops(), min_size=1, max_size=8).map(tuple),
)


class _Tree:
    """A call stack: annotations and operators in each other, in any order, with a launch in many of them."""

    def __init__(self, draw: st.DrawFn):
        self.draw, self.now = draw, 0
        self.ranges: list[Range] = []
        self.calls: list[Call] = []
        self.ops: list[Op] = []

    def grow(self, tid: int, depth: int) -> None:
        for what in self.draw(st.lists(st.sampled_from(["annotation", "operator", "backward", "launch"]), max_size=3)):
            begin = self.now
            self.now += 1
            if what == "launch":
                correlation = len(self.calls) + 1
                self.calls.append(Call(PIDS[0], tid, begin, self.now, correlation))
                start = self.now + self.draw(st.integers(0, 3))
                length = self.draw(st.integers(1, 5))
                self.ops.append(Op(PIDS[0], 0, start, start + length, correlation))
            else:
                if depth:
                    self.grow(tid, depth - 1)
                self.ranges.append(self._range(what, tid, begin))
            self.now += 1

    def _range(self, what: str, tid: int, begin: int) -> Range:
        if what == "annotation":
            return Range(PIDS[0], tid, begin, self.now, self.draw(st.sampled_from("ab")))
        backward = what == "backward"
        name = "autograd::engine::node" if backward else self.draw(st.sampled_from(["aten::a", "aten::b"]))
        sequence = self.draw(st.integers(1, 3))
        return Range(PIDS[0], tid, begin, self.now, name, None, sequence, backward)


@st.composite
def nested(draw: st.DrawFn) -> Trace:
    tree = _Tree(draw)
    for tid in draw(st.lists(st.sampled_from(THREADS[:2]), min_size=1, max_size=4)):
        tree.grow(tid, 3)
    return Trace(tuple(tree.ranges), tuple(tree.calls), tuple(tree.ops) or (Op(PIDS[0], 0, 0, 1, 99),))


TRACES = st.one_of(SCATTERED, nested())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("brute")


@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(trace=TRACES)
def test_views_equal_the_definitions(trace: Trace, folder: Path) -> None:
    path = folder / "trace.sqlite"
    brute_force.write_nsys(trace, path)
    answers = Answers(trace)
    with analyze([path], folder / "trace.duckdb", force=True) as database:
        _check_summary(answers, database.view("range_summary").to_dicts())
        _check_instances(answers, database.view("range_instance").to_dicts())
        _check_launches(answers, database.view("launch_trace").to_dicts())
        _check_unattributed(answers, database.view("unattributed").to_dicts())
        assert set(checks.definitions(database).values()) == {(0, "")}
        _check_kernels(answers, database.view("range_kernel_summary").to_dicts())


def _check_summary(answers: Answers, rows: list[dict[str, object]]) -> None:
    expected = {"/".join(path): row for path, row in answers.range_summary().items()}
    found = {str(row["path"]): row for row in rows}
    assert found.keys() == expected.keys()
    columns = [c for c in (rows[0] if rows else {}) if c.endswith(("_ns", "_cnt"))]
    for path, row in found.items():
        assert {c: row[c] for c in columns} == {c: expected[path].get(c, 0) for c in columns}, path


def _check_instances(answers: Answers, rows: list[dict[str, object]]) -> None:
    work = answers.work_of_range()

    def expected(i: int) -> tuple[object, ...]:
        r, mine = answers.trace.ranges[i], [answers.trace.ops[o] for o in work[i]]
        own = sum(answers.owner(o) == i for o in answers.found)
        return (
            r.pid, r.tid, r.start, answers.end(i), "/".join(answers.path(i)), len(mine),
            sum(o.end - o.start for o in mine), answers.busy(work[i]), own,
            max((o.end for o in mine), default=0) - min((o.start for o in mine), default=0) if mine else None,
        )  # fmt: skip

    found = [
        (r["pid"], r["tid"], r["start_ns"], r["end_ns"], r["path"], r["gpu_op_cnt"], r["gpu_op_ns"],
         r["gpu_busy_ns"], r["self_gpu_op_cnt"], r["gpu_span_ns"])
        for r in rows
    ]  # fmt: skip
    assert sorted(map(repr, found)) == sorted(repr(expected(i)) for i in range(len(answers.trace.ranges)))


def _check_launches(answers: Answers, rows: list[dict[str, object]]) -> None:
    def expected(o: int) -> tuple[object, ...]:
        op, call, owner = answers.trace.ops[o], answers.launch[o], answers.owner(o)
        rule = answers.found[o][0][0] if answers.found[o] else "none"
        return (
            op.start, op.end, op.device, op.kind, call and call.start, call and call.end, rule,
            None if owner is None else answers.trace.ranges[owner].name,
        )  # fmt: skip

    found = [
        (r["kernel_start_time"], r["kernel_end_time"], r["device_id"], r["kind"], r["call_api_start_time"],
         r["call_api_end_time"], r["rule"], r["event_name"])
        for r in rows
    ]  # fmt: skip
    assert sorted(map(repr, found)) == sorted(repr(expected(o)) for o in range(len(answers.trace.ops)))


def _check_unattributed(answers: Answers, rows: list[dict[str, object]]) -> None:
    without = [answers.trace.ops[o] for o, found in answers.found.items() if not found]
    assert sum(int(str(r["gpu_op_cnt"])) for r in rows) == len(without)
    assert sum(int(str(r["gpu_op_ns"])) for r in rows) == sum(o.end - o.start for o in without)
    lost = [o for o, call in answers.launch.items() if call is None]
    assert sum(int(str(r["gpu_op_cnt"])) for r in rows if r["cause"] != "no range open") == len(lost)


def _check_kernels(answers: Answers, rows: list[dict[str, object]]) -> None:
    expected: dict[tuple[str, str], list[int]] = {}
    for (path, o), rule in answers.rules_by_path().items():
        op = answers.trace.ops[o]
        if op.kind == "kernel":
            expected.setdefault(("/".join(path), rule), []).append(op.end - op.start)
    found = {(r["path"], r["rule"]): (r["kernel_cnt"], r["kernel_ns"], r["min_ns"], r["max_ns"]) for r in rows}
    assert found == {key: (len(d), sum(d), min(d), max(d)) for key, d in expected.items()}
