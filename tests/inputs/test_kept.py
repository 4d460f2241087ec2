"""A database that people keep, as other programs see it: with all that lorabench says, and in seconds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import ROOT, opened, quick
from lorabench import sql
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.store.database import Database
from simulated_ranks import Job, simulate

PUBLIC = [view for view in sql.load() if view.is_public]
_MOST_OPERATORS = 2_000  # in a plan, which DuckDB makes in less than a second


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, synthetic_trace: Callable[..., Path]) -> Callable[[str], Path]:
    """The database of a trace of that kind, made once."""
    folder = tmp_path_factory.mktemp("kept")

    def get(what: str) -> Path:
        path = folder / f"{what}.duckdb"
        if not path.exists():
            if what == "capture":
                traces = [ROOT / "fixtures" / "h200-batch" / "trace.json.gz"]
            elif what == "snapshot":
                traces = [ROOT / "fixtures" / "h200-batch" / "snapshot.pickle.gz"]
            elif what == "ranks":
                traces = simulate(Job(ranks=2, steps=4, idle={(1, 2): 5_000_000})).write(folder / "traces")
            else:
                traces = [synthetic_trace(what)]
            analyze(traces, path, is_kept=True).close()
        return path

    return get


def plain(path: Path) -> duckdb.DuckDBPyConnection:
    """As another program opens it."""
    return duckdb.connect(str(path), read_only=True, config={"threads": 1})


def alike(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """In an order of their own, and without the last digits of sums of doubles."""
    return sorted((tuple(float(f"{v:.9g}") if isinstance(v, float) else v for v in row) for row in rows), key=repr)


@pytest.mark.parametrize("what", quick(3, ["capture", "ranks", "snapshot", "nsys", "kineto"]))
@pytest.mark.first(1)
@pytest.mark.slow
def test_other_programs_read_what_lorabench_reads(what: str, kept: Callable[[str], Path]) -> None:
    with opened(kept(what)) as database, plain(kept(what)) as connection:
        for view in PUBLIC:
            rows = alike(database.rows(f"from {view.name}"))
            assert alike(connection.execute(f"from {view.name}").fetchall()) == rows, view.name
            if view.name in ("finding", "what_if", "replay") and what != "snapshot":
                assert rows


@pytest.mark.slow
def test_what_was_just_made_says_the_same_as_when_it_is_opened_again(
    synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    def said(database: Database) -> list[list[tuple[Any, ...]]]:
        return [alike(database.rows(f"from {view.name}")) for view in PUBLIC]

    with analyze([synthetic_trace("nsys")], tmp_path / "x.duckdb", is_kept=True) as made, opened(made.path) as again:
        assert said(made) == said(again)


@pytest.mark.parametrize("view", PUBLIC, ids=lambda view: view.name)
@pytest.mark.first(7)
def test_other_programs_plan_a_view_in_no_time(view: sql.SqlFile, kept: Callable[[str], Path]) -> None:
    """Without tables in the place of views that many others read, the plan of `finding` was never finished."""
    with plain(kept("nsys")) as connection:
        ((_, plan),) = connection.execute(f"explain (format json) from {view.name}").fetchall()
    assert plan.count('"name"') < _MOST_OPERATORS


@pytest.mark.parametrize("view", PUBLIC, ids=lambda view: view.name)
@pytest.mark.first(5)
def test_it_says_what_each_view_and_column_is(view: sql.SqlFile, kept: Callable[[str], Path]) -> None:
    relations = "(from duckdb_views() union all by name from duckdb_tables())"
    with plain(kept("nsys")) as connection:
        said = connection.execute(
            f"select comment from {relations} where coalesce(view_name, table_name) = ?", [view.name]
        ).fetchall()
        columns = connection.execute(
            "select column_name, comment from duckdb_columns() where table_name = ?", [view.name]
        ).fetchall()
    assert said == [(view.row,)]
    assert dict(columns) == {column.name: column.doc for column in view.columns}
