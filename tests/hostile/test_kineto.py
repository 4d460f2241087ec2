"""Kineto traces with anything anywhere, against Python's json: what is wrong costs itself and nothing beside it."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import dear, opened, quick
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from lorabench.analyze.read import kineto_parse
from lorabench.errors import UnknownFormatError
from oracles import number

CALL = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": 5, "dur": 3}
KERNEL = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 9, "dur": 4}
# What has no business in an argument, or is a number in other clothes.
VALUES = st.one_of(
    st.sampled_from(
        [None, "", "0/0", "grid(100,)", {}, [], [[]], {"x": [1]}, "5", "5.0", "1e3", "nan", "-", 1.6, 2.0, -1.5]
    ),
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**53 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40]),
    st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["x", 1.5, 2**40, None])), max_size=4),
)
ARGUMENTS = ("correlation", "device", "context", "stream", "bytes", "grid", "block", "graph node id", "Group size")
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([CALL, KERNEL]),
        st.dictionaries(st.sampled_from(ARGUMENTS), VALUES, max_size=5),
        st.dictionaries(st.sampled_from(["ts", "dur", "pid", "tid", "name"]), VALUES, max_size=1),
    ),
    min_size=1,
    max_size=6,
)


def whole(value: Any, bits: int = 63) -> int | None:
    found = number(value)
    return int(found) if found is not None and found == int(found) and -(2**bits) <= found < 2**bits else None


def side(value: Any, at: int) -> int | None:
    return whole(value[at], 31) if isinstance(value, list) and at < len(value) else None


def expected(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """(name, start, end, correlation, stream, grid x, block y) of all usable kernels."""
    rows = []
    for event in events:
        args = event["args"]
        ts, dur = number(event["ts"]), number(event["dur"])
        if (
            event["cat"] != "kernel"
            or ts is None
            or dur is None
            or abs(ts) * 1000 > 2**61
            or not 0 <= dur * 1000 <= 2**53
        ):
            continue
        stream = whole(args.get("stream"))
        name = event["name"]
        text = name if isinstance(name, str) else None if name is None else json.dumps(name, separators=(",", ":"))
        start = int((ts * 1000).to_integral_value())
        rows.append(
            (text or "[unnamed]", start, start + int((dur * 1000).to_integral_value()), whole(args.get("correlation")),
             whole(event["tid"]) if stream is None else stream, side(args.get("grid"), 0), side(args.get("block"), 1))
        )  # fmt: skip
    return sorted(rows, key=repr)


def kernels(path: Path, db: Path) -> list[tuple[Any, ...]]:
    with opened(path, db=db, force=True) as database:
        rows = database.rows(
            """select coalesce(nullif(text, ''), '[unnamed]'), start_ns, end_ns, correlation_id, stream_id, grid_x,
            block_y
            from gpu_op join name using (name_id)"""
        )
    return sorted(rows, key=repr)


@dear(4, long=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=EVENTS)
@example(drawn=[(KERNEL, {"context": "0/0", "grid": "grid(100,)"}, {})])  # torch.compile
@example(drawn=[(CALL, {"correlation": 2}, {}), (KERNEL, {"correlation": 1.6}, {})])
@example(drawn=[(KERNEL, {}, {"ts": 10**18}), (KERNEL, {}, {})])
@example(drawn=[(KERNEL, {}, {"tid": "0/0"})])
@pytest.mark.slow
def test_a_value_of_another_type_costs_no_more_than_itself(drawn: list[tuple[Any, ...]], tmp_path: Path) -> None:
    events = [event | other | {"args": args} for event, args, other in drawn]
    path = tmp_path / "run.json"
    # an event that is always whole, so that the trace is never empty
    path.write_text(json.dumps({"traceEvents": [KERNEL | {"args": {"correlation": 77}}, *events]}), "utf-8")
    assert kernels(path, tmp_path / "x.duckdb") == expected([KERNEL | {"args": {"correlation": 77}}, *events])


def facts(path: Path, tmp_path: Path) -> dict[str, str]:
    with opened(path, db=tmp_path / "x.duckdb", force=True) as database:
        return dict(database.rows("select item, value from trace_info where section = 'lost'"))


def test_arguments_that_are_left_out_are_counted(tmp_path: Path) -> None:
    args = {"context": "0/0", "grid": "grid(100,)", "block": [1.5, 1, 1], "correlation": 7, "device": 2**40}
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"traceEvents": [KERNEL | {"args": args}, KERNEL | {"args": 7}]}), "utf-8")
    assert facts(path, tmp_path) == {"arguments": "5"}


TIMES = ("1.712195495505543123e15", "1712195495505543.123", '"1712195495505543.123"', "1.712195495505543E+15", "5e3")
DAMAGES = ("", ', {"name": "a" "}')


@pytest.mark.parametrize(
    ("time", "damage"), quick(5, [(time, DAMAGES[(n + turn) % 2]) for turn in (0, 1) for n, time in enumerate(TIMES)])
)
@pytest.mark.first(2)
def test_times_are_exact_however_they_are_written(time: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    event = json.dumps(KERNEL | {"ts": "TIME"}).replace('"TIME"', time)
    path.write_text(f'{{"traceEvents": [{event}{damage}]}}', "utf-8")
    ((_, start, end, *_),) = kernels(path, tmp_path / "x.duckdb")
    exact = int(Decimal(time.strip('"')) * 1000)
    assert (start, end) == (exact, exact + 4000)


WHOLE = json.dumps({"traceEvents": [KERNEL]})


@pytest.mark.parametrize(
    ("behind", "said"),
    quick(
        4,
        [
            ('], "traceEvents": [{}, {}]}', "a second member traceEvents with 2 entries"),
            (f"]}}{WHOLE}", f"{len(WHOLE) + 1:,} bytes that are not the end of one JSON document"),
            (f"]}}\n{WHOLE}\n{WHOLE}", f"{2 * len(WHOLE) + 3:,} bytes that are not the end of one JSON document"),
            ('], "a": {"b', "10 bytes that are not the end of one JSON document"),
            ("]}", None),
            ("]", None),
            ("]}\n\n", None),
            ("]}\0\0", None),
            ('], "a": {"b": 1}}', None),
        ],
    ),
)
@pytest.mark.first(1)
def test_what_stands_behind_the_events_is_read_or_reported(
    behind: str, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _check_end('{"traceEvents": [', behind, said, tmp_path, monkeypatch)


@pytest.mark.parametrize("behind", quick(2, ["", f"{WHOLE}", "]", "\n", "[{}]", " x"]))
@pytest.mark.first(1)
@pytest.mark.slow
def test_what_stands_behind_a_list_is_reported(behind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"{len(behind):,} bytes that are not the end of one JSON document" if behind.strip(" \n]") else None
    _check_end("[", "]" + behind, said, tmp_path, monkeypatch)


def _check_end(begin: str, behind: str, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    path.write_text(begin + ",".join([json.dumps(KERNEL)] * 3) + behind, "utf-8")
    for size in (1 << 20, 200):  # the end in the last piece, and in one in the middle
        monkeypatch.setattr("lorabench.analyze.read.json_pieces.PIECE_BYTES", size)
        monkeypatch.setattr("lorabench.analyze.read.json_pieces.BLOCK_BYTES", size // 2)
        lost = facts(path, tmp_path)
        assert lost.pop("text behind the events", None) == said
        assert len(kernels(path, tmp_path / "x.duckdb")) == 3
        assert not lost


def test_events_that_only_duckdb_refuses_are_given_up_after_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_parse, "_MOST_REFUSED", 4)
    # nothing is known that DuckDB refuses and Python reads
    monkeypatch.setattr(kineto_parse.Parser, "_parse", _refusing(kineto_parse.Parser._parse, b"cursed"))
    events = [KERNEL | {"name": "cursed" if number % 2 else "fine"} for number in range(40)]
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    with opened(path, db=tmp_path / "x.duckdb") as database:
        ((lost, note),) = database.rows("select value, note from source_fact where section = 'lost'")
        ((read,),) = database.rows("select count(*) from gpu_op")
    assert read + int(lost) == 40 and 4 <= read <= 20
    assert "bytes" in note


def _refusing(parse: Any, word: bytes) -> Any:
    def refuse(self: Any, events: bytes) -> None:
        if word in events:
            raise kineto_parse._Refused
        parse(self, events)

    return refuse


@pytest.mark.parametrize(
    ("changed", "count", "why"),
    [
        ({"cat": "cpu_op"}, 300, "nothing ran on a GPU"),
        ({"cat": "cuda_runtime"}, 300, "300 calls that give the GPU work are there, but not what they launched: "),
        ({"cat": "mtia_ccp_events"}, 300, "300 events of the category mtia_ccp_events are not read"),
        ({"cat": "cuda_profiler_range"}, 7, "7 kernels were recorded with hardware counters alone"),
        ({"cat": "Trace"}, 1, "nothing ran on a GPU"),
        ({"cat": ""}, 300, "300 timed events without a category not read"),
        ({"cat": None}, 300, "300 timed events without a category not read"),
        ({"cat": "dynamo_timed", "ph": "B"}, 300, "300 events with separate begin and end (B, E) not read"),
    ],
)
@pytest.mark.first(5)
@pytest.mark.slow
def test_why_a_trace_has_no_gpu_work_is_said(changed: dict[str, object], count: int, why: str, tmp_path: Path) -> None:
    events = [CALL | changed | {"ts": 10 * number} for number in range(count)]
    (tmp_path / "run.json").write_text(json.dumps({"traceEvents": [CALL | {"cat": "cpu_op"}, *events]}), "utf-8")
    with opened(tmp_path / "run.json") as database:
        ((note,),) = database.rows("select note from trace_info where section = 'missing' and item = 'GPU work'")
    assert note.startswith(why)


@pytest.mark.parametrize("phase", ["B", "X"])
def test_a_file_of_nothing_else_is_refused_and_says_what_it_does_not_read(phase: str, tmp_path: Path) -> None:
    event = {"ph": phase, "name": "a", "ts": 1, "dur": 5, "pid": 1, "tid": 1}
    (tmp_path / "run.json").write_text(json.dumps({"traceEvents": [event]}), "utf-8")
    with pytest.raises(UnknownFormatError, match=r"holds no event of torch\.profiler.* not read"):
        opened(tmp_path / "run.json")


def test_a_recording_of_torch_in_which_nothing_ran_is_one(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": 1, "dur": 5, "pid": "Spans", "tid": 1}
    (tmp_path / "run.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}), "utf-8")
    with opened(tmp_path / "run.json") as database:
        assert database.rows("select count(*) from range") == [(0,)]
