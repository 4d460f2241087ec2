"""How much memory a database takes from its machine."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store import opening
from lorabench.errors import OutputError, UsageError

WANTS_MEMORY = "select median(n) as middle from range(3_000_000) as numbers(n)"  # a median does not spill


def test_a_statement_that_needs_more_memory_than_usual_gets_it(
    synthetic_trace: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "QUERY_MEMORY", "16MB")
    with analyze([synthetic_trace("nsys")], tmp_path / "x.duckdb", writes_into=tmp_path) as database:
        database.copy(WANTS_MEMORY, tmp_path / "x.csv", "format csv")
        assert database.query(WANTS_MEMORY)["middle"].item() == 1_499_999.5
    assert "1499999.5" in (tmp_path / "x.csv").read_text()


def test_a_limit_that_somebody_asked_for_holds(
    synthetic_trace: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "QUERY_MEMORY", "16MB")
    monkeypatch.setattr(opening, "QUERY_MEMORY_ASKED", "16MB")
    with analyze([synthetic_trace("nsys")], tmp_path / "x.duckdb", writes_into=tmp_path) as database:
        with pytest.raises(UsageError, match="Out of Memory"):
            database.query(WANTS_MEMORY)
        with pytest.raises(OutputError, match="LORABENCH_QUERY_MEMORY"):
            database.copy(WANTS_MEMORY, tmp_path / "x.csv", "format csv")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "x.duckdb"]
