"""Rows decoded from pages are the rows that SQLite gives, and what cannot be decoded is handed to SQLite."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import corpus_params
from hypothesis import given, settings
from hypothesis import strategies as st
from lorabench.analyze.read.nsys_tables import Export, Table, Tally
from lorabench.analyze.read.sqlite_pages import Column, Pages, UnusualError

EDGES = [sign * (1 << bits) - below for bits in (0, 7, 15, 23, 31, 47) for sign in (1, -1) for below in (0, 1)]
INTEGERS = st.one_of(st.none(), st.sampled_from(EDGES), st.integers(-(1 << 63), (1 << 63) - 1))
TEXTS = st.one_of(st.none(), st.text(max_size=80))
ROWS = st.lists(st.tuples(INTEGERS, INTEGERS, TEXTS, INTEGERS), max_size=60)
TABLE = Table("t", ("a", "b"), ("d", "nothing"), texts=("c",))


def made(path: Path, *statements: tuple[str, list[Any]] | str, page_size: int = 4096) -> Path:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma page_size = {page_size}")
        for statement in statements:
            if isinstance(statement, str):
                connection.execute(statement)
            else:
                connection.executemany(*statement)
        connection.commit()
    return path


def said_by_sqlite(path: Path, columns: str = "a, b, d, c", where: str = "true") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"select {columns} from t where {where} order by _rowid_").fetchall()


def read(path: Path, table: Table = TABLE) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for batch in Export(path).batches(table, Tally()):
        assert batch["position"].to_pylist() == list(range(len(rows), len(rows) + len(batch)))
        rows += zip(*(batch[c].to_pylist() for c in table.columns if c != "nothing"), strict=True)
    return rows


def decoded(path: Path, columns: list[Column]) -> tuple[list[tuple[Any, ...]], int]:
    """Rows decoded from the pages, and how many pieces were left to SQLite."""
    with closing(sqlite3.connect(path)) as connection:
        ((root,),) = connection.execute("select rootpage from sqlite_master where name = 't'").fetchall()
    rows: list[tuple[Any, ...]] = []
    unusual = 0
    with Pages(path) as pages:
        for piece in pages.read(root, columns):
            if piece.columns is None:
                unusual += 1
            else:
                rows += zip(*(c.to_pylist() for c in piece.columns), strict=True)
    return rows, unusual


KINDS = [0, 1, 100, 30_000, 8_000_000, 2_000_000_000, 1 << 46, 1 << 62]  # a number of each length


@settings(max_examples=60)
@given(
    first_id=st.sampled_from([1, 100, 16_300, 2_097_000, 1 << 40]),
    kinds=st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True), min_size=5, max_size=5),
    picks=st.lists(st.integers(0, 31), min_size=1, max_size=200),
    text=st.sampled_from([None, "x", "x" * 57, "x" * 58]),
)
def test_columns_of_one_kind_and_of_several_are_read_as_sqlite_reads_them(
    tmp_path_factory: pytest.TempPathFactory, first_id: int, kinds: list[list[int]], picks: list[int], text: str | None
) -> None:
    """As events are: up to some column all rows have values of one length, and rowids pass a power of 128."""
    rows = [
        (first_id + number, *(kind[(pick >> place) % len(kind)] for place, kind in enumerate(kinds)), text)
        for number, pick in enumerate(picks)
    ]
    path = made(
        tmp_path_factory.getbasetemp() / "kinds.sqlite",
        "create table t (a integer, b int, x integer, y integer, d bigint, c text)",
        ("insert into t (rowid, a, b, x, y, d, c) values (?, ?, ?, ?, ?, ?, ?)", rows),
    )
    assert read(path) == said_by_sqlite(path)


@settings(max_examples=60)
@given(
    rows=ROWS,
    ids=st.lists(st.integers(-(1 << 62), 1 << 62), unique=True, max_size=60),
    page_size=st.sampled_from([512, 4096, 65536]),
)
def test_any_integers_and_texts_are_read_as_sqlite_reads_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], ids: list[int], page_size: int
) -> None:
    path = made(
        tmp_path_factory.getbasetemp() / "any.sqlite",
        "create table t (a integer, b int, c text, d bigint, e integer)",
        (
            "insert into t (rowid, a, b, c, d) values (?, ?, ?, ?, ?)",
            [(i, *row) for i, row in zip(ids, rows, strict=False)],
        ),
        page_size=page_size,
    )
    assert read(path) == said_by_sqlite(path)


@pytest.mark.parametrize("page_size", [512, 1024, 4096, 32768, 65536])
def test_many_rows_of_all_widths_need_no_sqlite(
    tmp_path: Path, page_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorabench.analyze.read.sqlite_pages._PIECE_BYTES", 3 * 65536)
    chance = random.Random(page_size)
    widths = [None, *range(1, 64)]
    rows = [
        (bits and chance.getrandbits(bits), -chance.getrandbits(31), "é" * (n % 40), n % 2)
        for n, bits in enumerate(chance.choices(widths, k=20_000))
    ]
    path = made(
        tmp_path / "many.sqlite",
        "create table t (a integer, b integer, c text, d integer)",
        ("insert into t values (?, ?, ?, ?)", rows),
        "delete from t where rowid % 7 = 3 or rowid between 5000 and 9000",
        "update t set a = 1 where rowid % 5 = 0",
        page_size=page_size,
    )
    columns = [Column(0), Column(1), Column(2, is_text=True), Column(3)]
    expected = [(a, b, c.encode(), d) for a, b, d, c in said_by_sqlite(path)]
    assert decoded(path, columns) == (expected, 0)


def test_a_key_that_stands_for_the_rowid_is_the_rowid(tmp_path: Path) -> None:
    path = made(
        tmp_path / "key.sqlite",
        "create table t (c text, a integer primary key, b integer)",
        ("insert into t values (?, ?, ?)", [("x", 3, 1), ("y", -9, 2), (None, 1 << 40, 3)]),
    )
    assert decoded(path, [Column(1, is_rowid=True), Column(2)]) == ([(-9, 2), (3, 1), (1 << 40, 3)], 0)
    assert read(path, Table("t", ("a", "b"), texts=("c",))) == [(-9, 2, "y"), (3, 1, "x"), (1 << 40, 3, None)]


UNPLAIN: dict[str, tuple[str, ...]] = {
    "a key that only looks like the rowid": (
        "create table t (a integer primary key desc, b integer, c text, d integer)",
        "insert into t values (5, 1, 'x', 2), (4, 3, 'y', 4)",
    ),
    "a column added later": (
        "create table t (a integer, b integer, c text)",
        "insert into t values (1, 2, 'x')",
        "alter table t add column d integer",
        "insert into t values (1, 2, 'x', 3)",
    ),
    "many columns added later": (
        "create table t (a integer, b integer, c text)",
        "insert into t values (1, 2, 'x')",
        *(f"alter table t add column z{number} integer" for number in range(90)),
        "alter table t add column d integer",
    ),
    "a column of the rowid's name": (
        "create table t (a integer, rowid real, b integer, c text, d integer)",
        "insert into t values (1, 9.5, 2, 'x', 3), (4, 0.5, 5, 'y', 6)",
    ),
    "a column added later with a default": (
        "create table t (a integer, b integer, c text)",
        "insert into t values (1, 2, 'x')",
        "alter table t add column d integer default 7",
        "insert into t values (1, 2, 'x', null)",
    ),
    "computed columns before the others": (
        "create table t (z integer as (a + 1), a integer, y integer as (a + 2) stored, b integer, c text, d integer)",
        "insert into t values (1, 2, 'x', 3)",
    ),
    "a type that makes integers floats, in a column that is not read": (
        "create table t (z real, a integer, b integer, c text, d integer)",
        "insert into t values (1.0, 1, 2, 'x', 3), (0.5, 1, 2, 'x', 3), (null, 1, 2, 'x', 3)",
    ),
    "texts longer than a page": (
        "create table t (a integer, b integer, c text, d integer)",
        "insert into t values (1, 2, 'x', 3), (1, 2, printf('%.9000c', 'x'), 3), (4, 5, 'y', 6)",
    ),
    "UTF-16": (
        "pragma encoding = 'UTF-16'",
        "create table t (a integer, b integer, c text, d integer)",
        "insert into t values (1, 2, null, 3)",
    ),
    "no rows": ("create table t (a integer, b integer, c text, d integer)",),
    "columns in capitals": (
        "create table t (A integer, B integer, C text, D integer)",
        "insert into t values (1, 2, 'x', 3)",
    ),
}


@pytest.mark.parametrize("statements", UNPLAIN.values(), ids=UNPLAIN)
def test_what_is_not_plain_is_read_as_sqlite_reads_it(tmp_path: Path, statements: tuple[str, ...]) -> None:
    path = made(tmp_path / "unplain.sqlite", *statements)
    assert read(path) == said_by_sqlite(path)


def test_only_the_piece_that_holds_something_unusual_is_left_to_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorabench.analyze.read.sqlite_pages._PIECE_BYTES", 4096)
    rows: list[tuple[Any, ...]] = [(n, n, "x", n) for n in range(3000)]
    rows[1500] = (1500, 1, "long" * 3000, 1)
    path = made(
        tmp_path / "mixed.sqlite",
        "create table t (a integer, b integer, c text, d integer)",
        ("insert into t values (?, ?, ?, ?)", rows),
    )
    found, unusual = decoded(path, [Column(0), Column(2, is_text=True)])
    assert unusual == 1
    assert len(found) > 2500
    assert read(path) == said_by_sqlite(path)


def test_rows_of_other_kinds_are_left_out(tmp_path: Path) -> None:
    path = made(
        tmp_path / "kinds.sqlite",
        "create table t (a integer, b integer, c text, d integer)",
        "insert into t values (59, 1, 'x', 1), (75, 2, 'y', 2), (null, 3, 'z', 3), (60, 4, printf('%.9000c', 'x'), 4)",
        "insert into t values (59, 5, 'v', 5)",
    )
    table = Table("t", ("a", "b"), texts=("c",), only=("a", (59, 60)))
    assert read(path, table) == said_by_sqlite(path, "a, b, c", "a in (59, 60)")


def _flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 20)):
        data[chance.randrange(100, len(data))] = chance.choice([0, 1, 5, 13, 127, 128, 255, chance.randrange(256)])


def _shuffle(data: bytearray, chance: random.Random) -> None:
    size, count = 512, len(data) // 512
    for _ in range(3):
        to, of = chance.randrange(1, count), chance.randrange(1, count)
        data[to * size : (to + 1) * size] = data[of * size : (of + 1) * size]


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(600, len(data)) :]


@pytest.mark.parametrize("damage", [_flip, _shuffle, _cut])
def test_damaged_pages_are_refused_or_give_values_and_never_fail_otherwise(
    tmp_path: Path, damage: Callable[[bytearray, random.Random], None]
) -> None:
    rows = [(n << (n % 50), n, "text" * (n % 30), n % 3) for n in range(600)]
    path = made(
        tmp_path / "whole.sqlite",
        "create table t (a integer, b integer, c text, d integer)",
        ("insert into t values (?, ?, ?, ?)", rows),
        page_size=512,
    )
    whole = path.read_bytes()
    broken = tmp_path / "broken.sqlite"
    refused = 0
    columns = [Column(0), Column(1), Column(2, is_text=True), Column(3)]
    for seed in range(150):
        data = bytearray(whole)
        damage(data, random.Random(seed))
        broken.write_bytes(data)
        try:
            with Pages(broken) as pages:
                for piece in pages.read(2, columns):
                    assert piece.columns is None or len({len(c) for c in piece.columns}) == 1
        except UnusualError:
            refused += 1
    assert refused


@pytest.mark.parametrize("path", corpus_params("nsys/*.sqlite"))
@pytest.mark.first(1)
def test_every_plain_table_of_a_real_export_is_read_as_sqlite_reads_it(path: Path) -> None:
    export = Export(path)
    tables = 0
    for name in export.columns:
        info = export.select(f'pragma table_xinfo("{name}")')
        integers = tuple(c[1] for c in info if c[2] == "INTEGER")
        texts = tuple(c[1] for c in info if c[2] == "TEXT")
        if integers:
            table = Table(name, integers, texts=texts)
            chosen = ", ".join(f'"{c}"' for c in table.columns)
            expected = export.select(f'select {chosen} from "{name}" order by rowid')
            assert read(path, table) == expected, name
            tables += 1
    assert tables
