"""The blank database: made once, and no reason to fail."""

from pathlib import Path

import duckdb
import pytest
from lorabench.analyze.store import blank


def view_cnt(path: Path, cache: Path) -> int:
    with blank.create(path, cache, {}) as connection:
        return int(connection.execute("select count(*) from duckdb_views() where not internal").fetchall()[0][0])


@pytest.mark.slow
def test_it_is_made_once_and_those_of_other_versions_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "blank-of-another-version.duckdb").write_bytes(b"")
    (cache / "somebody-elses.duckdb").write_bytes(b"")
    first = view_cnt(tmp_path / "first.duckdb", cache)
    (kept,) = cache.glob("blank-*")
    monkeypatch.setattr(blank, "_make", None)
    assert view_cnt(tmp_path / "second.duckdb", cache) == first > 50
    assert sorted(cache.iterdir()) == sorted([kept, cache / "somebody-elses.duckdb"])


@pytest.mark.slow
def test_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    whole = view_cnt(tmp_path / "first.duckdb", cache)
    (kept,) = cache.iterdir()
    kept.write_bytes(kept.read_bytes()[:5000])
    assert view_cnt(tmp_path / "second.duckdb", cache) == whole
    assert view_cnt(tmp_path / "third.duckdb", cache) == whole
    assert kept.stat().st_size > 5000


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("a file")
    assert view_cnt(tmp_path / "first.duckdb", in_the_way) > 50
    assert in_the_way.read_text() == "a file"


def in_memory(cache: Path | None) -> list[tuple[str, str]]:
    with duckdb.connect(":memory:") as connection:
        blank.fill(connection, cache)
        return connection.execute(
            "select table_name, 'table' from duckdb_tables() union all "
            "select view_name, 'view' from duckdb_views() where not internal union all "
            "select function_name, 'macro' from duckdb_functions() where not internal order by all"
        ).fetchall()


@pytest.mark.long
def test_a_database_in_memory_is_filled_whatever_the_cache_is_like(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    copied = in_memory(cache)
    assert {kind for _, kind in copied} == {"table", "view", "macro"}
    (kept,) = cache.iterdir()
    kept.write_bytes(kept.read_bytes()[:50_000])
    in_the_way = tmp_path / "file"
    in_the_way.write_text("a file")
    assert in_memory(cache) == in_memory(in_the_way) == in_memory(None) == copied


@pytest.mark.slow
def test_what_people_keep_is_described_and_what_the_cache_keeps_is_not(tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    def comments(name: str, shape: blank.Shape) -> tuple[int, int]:
        with blank.create(tmp_path / name, cache, {}, shape) as connection:
            ((columns, described),) = connection.execute(
                "select count(*), count(comment) from duckdb_columns() where table_name = 'range_summary'"
            ).fetchall()
        return columns, described

    columns, described = comments("kept.duckdb", blank.Shape.DESCRIBED)
    assert columns == described > 10
    assert comments("own.duckdb", blank.Shape.WHOLE) == (columns, 0)
    assert comments("again.duckdb", blank.Shape.DESCRIBED) == (columns, columns)
    assert len(list(cache.iterdir())) == 2
