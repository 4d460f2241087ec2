"""Cutting a trace into pieces loses nothing, wherever the cuts fall."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import dear
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from lorabench.analyze.read import json_pieces, kineto_json
from lorabench.analyze.read.json_salvage import Salvaged, salvage
from lorabench.analyze.read.staging import Staging
from lorabench.analyze.store.building import building
from lorabench.progress import Silent

NAMES = st.sampled_from(["a", "}, {", '"}, {"ph": "X"', "],", "é\u2028", "\\", "\n", '{"traceEvents": [', ""])
EVENTS = st.lists(
    st.builds(
        lambda name, ts, dur, extra: {
            "ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 2, "ts": ts / 1000, "dur": dur / 1000,
            "args": {"nested": [{"a": 1}, {"b": extra}]},
        },
        NAMES, st.integers(0, 10**9), st.integers(0, 10**6), NAMES,
    ),
    min_size=1, max_size=15,
)  # fmt: skip


def read(path: Path, folder: Path) -> list[tuple[Any, ...]]:
    with building(folder / "x.duckdb") as database:
        database.connection.execute("insert into source (source_id, kind) values (1, 'kineto')")
        staging = Staging(database, 1, Silent())
        staging.create()
        kineto_json.read(path, staging)
        lost = database.rows("select * from source_fact where section = 'lost'")
        assert lost == []
        return database.rows(
            "select text, start_ns, end_ns from staged_range join staged_name on name_id = text_id order by position"
        )


@dear(1, long=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, size=st.integers(1, 600), indent=st.sampled_from([None, 1]), listed=st.booleans())
def test_every_event_survives_every_cut(
    events: list[dict[str, Any]], size: int, indent: int | None, listed: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(json_pieces, "PIECE_BYTES", size)
        patch.setattr(json_pieces, "BLOCK_BYTES", max(1, size // 2))
        content: Any = events if listed else {"x": "y", "traceEvents": events, "deviceProperties": [{"id": 0}]}
        path = tmp_path / "run.json"
        path.write_text(json.dumps(content, indent=indent), "utf-8")
        expected = [(e["name"], round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000)) for e in events]
        assert read(path, tmp_path) == expected


@pytest.mark.parametrize("time", ["1712195495505543.123", "1712195495505543.001", "8796093022207.999", "-5.5", "1e3"])
def test_times_are_exact_to_the_nanosecond(time: str, tmp_path: Path) -> None:
    """Microseconds since 1970 with a fraction have more digits than a double."""
    path = tmp_path / "run.json"
    event = f'{{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": {time}, "dur": 0.001}}'
    path.write_text(f'{{"traceEvents": [{event}]}}', "utf-8")
    from decimal import Decimal

    start = int(Decimal(time) * 1000)
    assert read(path, tmp_path) == [("a", start, start + 1)]


def test_a_cut_off_event_goes_to_the_next_piece() -> None:
    found = Salvaged()
    (events,) = salvage(b'{"a": 1}, {"b": "x}, {"', False, found)
    assert (events, found.lost_cnt, found.rest) == (['{"a": 1}'], 0, '{"b": "x}, {"')


def test_the_length_of_an_event_in_which_the_file_ends_is_told() -> None:
    found = Salvaged()
    (events,) = salvage(b'{"a": 1}, {"b": "x', True, found)
    assert (events, found.lost_cnt, found.cut_bytes) == (['{"a": 1}'], 0, 8)


def test_deep_nesting_is_lost_not_fatal() -> None:
    (events,) = salvage(b'{"a": ' + b"[" * 100_000 + b'}, {"b": 1}', True, Salvaged())
    assert events == ['{"b": 1}']
