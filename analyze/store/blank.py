"""The blank database: all tables and views, no rows. DuckDB takes more than a second to make it, so it is made once.

It lies in the user's cache folder under a name that changes with all that it is made of and with DuckDB. There are
three (Shape): to open and write down all views takes a tenth of a second, which parts of several inputs are spared.
"""

import hashlib
import shutil
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import duckdb

from ... import sql, unfinished
from ...sql import literal, quoted
from ...vocabulary import MEMORY_CATEGORIES
from . import views

PREFIX = "blank-"


class Shape(StrEnum):
    """What is in a blank database beside the tables; the value is the end of its name."""

    WHOLE = ""
    DESCRIBED = "-described"  # comments say what each table, view and column is, for whoever opens it elsewhere
    PART = "-part"  # the views that reading needs, and no others


def create(
    path: Path, cache_folder: Path | None, config: dict[str, Any], shape: Shape = Shape.WHOLE
) -> duckdb.DuckDBPyConnection:
    """Open a blank database at a path where nothing is: a copy of the one in the cache, or else made here.

    Raises duckdb.Error or OSError when the path cannot be written.
    """
    if cache_folder is None:
        return _make_here(path, config, shape)
    try:
        kept = cached(cache_folder, shape)
        shutil.copyfile(kept, path)
    except (OSError, duckdb.IOException):  # a cache that is full or that nobody may write is no reason to fail
        return _make_here(path, config, shape)
    try:
        return duckdb.connect(str(path.absolute()), config=config)
    except duckdb.Error:  # the copy in the cache is damaged
        kept.unlink(missing_ok=True)
        return _make_here(path, config, shape)


def fill(connection: duckdb.DuckDBPyConnection, cache_folder: Path | None) -> None:
    """Put the tables and views of a blank database into one in memory: a copy of the one in the cache, if it can be."""
    if cache_folder is None or not _copied(connection, cache_folder):
        for statement in _statements(Shape.WHOLE):
            connection.execute(statement)


def _copied(connection: duckdb.DuckDBPyConnection, cache_folder: Path) -> bool:
    """Whether the blank database in the cache could be copied; a damaged one goes."""
    try:
        kept = cached(cache_folder)
    except (OSError, duckdb.IOException):  # nobody may write there
        return False
    try:
        connection.execute(f"attach {literal(str(kept.absolute()))} as blank (read_only)")
        connection.execute("copy from database blank to memory")
    except duckdb.Error:
        kept.unlink(missing_ok=True)
        return False
    finally:
        connection.execute("detach database if exists blank")
    return True


def _make_here(path: Path, config: dict[str, Any], shape: Shape) -> duckdb.DuckDBPyConnection:
    path.unlink(missing_ok=True)
    _make(path, shape)
    return duckdb.connect(str(path.absolute()), config=config)


def cached(folder: Path, shape: Shape = Shape.WHOLE) -> Path:
    """The blank database in the cache, made if it is not there yet; those of other versions go."""
    made_of = repr(
        (duckdb.__version__, sql.fingerprint(), MEMORY_CATEGORIES, *map(_text_of, (__file__, views.__file__)))
    )
    version = f"{PREFIX}{hashlib.sha256(made_of.encode()).hexdigest()[:24]}"
    kept = folder / f"{version}{shape}.duckdb"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        new = unfinished.beside(kept)
        try:
            _make(new, shape)
            new.replace(kept)
        finally:
            new.unlink(missing_ok=True)
        for other in folder.glob(f"{PREFIX}*.duckdb"):
            if not other.name.startswith(version):
                other.unlink(missing_ok=True)
    return kept


def _text_of(module: str) -> bytes:
    return Path(module).read_bytes()


def _make(path: Path, shape: Shape) -> None:
    connection = duckdb.connect(str(path.absolute()))
    try:
        connection.execute("begin")
        for statement in _statements(shape):
            connection.execute(statement)
        connection.execute("commit")
        connection.execute("checkpoint")  # closing would only try, and hide a full disk
    finally:
        connection.close()


def _statements(shape: Shape) -> Iterator[str]:
    """Tables with the rows that they always have, then all views and functions, each after those that it needs."""
    for table in sql.in_folder(sql.TABLES):
        yield table.statement
        if shape is Shape.DESCRIBED:
            yield from comments("table", table)
    for rows in sql.in_folder(sql.ROWS):
        yield f"insert into {quoted(rows.name)} {rows.statement}"
    for name in sql.csv_names():
        values = [", ".join(map(literal, row.values())) for row in sql.csv_rows(name)]
        yield f"insert into {quoted(name)} values {', '.join(f'({row})' for row in values)}"
    for number, category in enumerate(MEMORY_CATEGORIES):
        yield f"insert into memory_category values ({number}, {literal(category)})"
    yield from _views_and_functions(shape)


def _views_and_functions(shape: Shape) -> Iterator[str]:
    """Statements that create the views and the functions that they share, each after those that it needs.

    A view is bound with all that it reads, and that with all that it reads: five times as much work as to bind each
    over empty tables in the place of the views before it, which go in the end.
    """
    made = []
    for file in views.in_order(views.read_while_filled() if shape is Shape.PART else views.known()):
        if file.folder == sql.MACROS:
            yield file.statement
        else:
            yield f"create view {quoted(file.name)} as {file.statement}"
            if shape is Shape.DESCRIBED:
                yield from comments("view", file)
            yield f"create temp table {quoted(file.name)} as from {quoted(file.name)} limit 0"
            made.append(file.name)
    for name in made:
        yield f"drop table temp.{quoted(name)}"


def comments(kind: str, file: sql.SqlFile, place: str | None = None) -> Iterator[str]:
    """What the header says of a table or view and of its columns, for whoever opens the database elsewhere; it lies at
    this place, or where its name is looked up.
    """
    place = place or quoted(file.name)
    yield f"comment on {kind} {place} is {literal(file.row)}"
    for column in file.columns:
        yield f"comment on column {place}.{quoted(column.name)} is {literal(column.doc)}"
