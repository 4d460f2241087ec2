"""Seeded mutations: bytes of any file, values of JSON and of pickles, cells of SQLite. The same seed, the same file."""

import copy
import json
import random
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

# What has no business where a number or a text is expected, or is one at an edge.
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 1.5, -0.0, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**40, 1e308,
    5e-324, "", " ", "x", "0", "-1", "1.5", "1e9", "nan", "inf", "0x10", "é", "\x00", "\x1b[31m", "\u202e", "a/b", "%s",
    "'", '"', "},{", "]", "ProfilerStep#1", "x" * 5000, [], {}, [[]], [None], {"a": 1}, [1, "x"], [[1] * 50] * 3,
]  # fmt: skip
_PIECES = [
    b"",
    b"\x00",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\xff",
    b"},{",
    b"]}",
    b"0",
    b"-",
    b"e9",
    b"\n",
]


def of_bytes(draw: random.Random, content: bytes, begin: int = 0) -> bytes:
    """Some places from `begin` on changed, removed, doubled, moved or cut off."""
    data = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 5, 20])):
        if len(data) <= begin:
            break
        at = draw.randrange(begin, len(data))
        size = draw.choice([1, 1, 2, 8, 64, 512])
        how = draw.randrange(6)
        if how == 0:
            data[at] = draw.randrange(256)
        elif how == 1:
            data[at : at + size] = draw.choice(_PIECES)
        elif how == 2:
            data[at:at] = data[at : at + size]
        elif how == 3:
            other = draw.randrange(begin, len(data))
            data[at : at + size] = data[other : other + size]
        elif how == 4:
            data[at : at + size] = bytes(min(size, len(data) - at))
        elif draw.random() < 0.3:
            del data[at:]
    return bytes(data)


def of_value(draw: random.Random, value: Any) -> Any:
    """A value near the given one, or a quite different one."""
    if isinstance(value, int | float) and not isinstance(value, bool) and draw.random() < 0.4:
        return draw.choice([-value, value + 1, value * 10, round(value / 3, 3), str(value), value * 2**40])
    if isinstance(value, str) and draw.random() < 0.4:
        return draw.choice([value + value, value[::-1], value[:-1], value + "\x00", value.upper()])
    return copy.deepcopy(draw.choice(ODD))


def of_tree(draw: random.Random, tree: Any) -> Any:
    """Lists and dicts with some places changed; the tree itself is left as it is."""
    tree = copy.deepcopy(tree)
    for _ in range(draw.choice([1, 1, 2, 5, 30])):
        place, key = _place(draw, tree)
        if place is None:
            return tree
        how = draw.randrange(5)
        if how < 3:
            place[key] = of_value(draw, place[key])
        elif how == 3:
            del place[key]
        elif isinstance(place, list):
            place.insert(key, copy.deepcopy(draw.choice(place)))
        else:
            place[draw.choice(["ts", "dur", "pid", "args", "device", "size", "x"])] = of_value(draw, place[key])
    return tree


def _place(draw: random.Random, tree: Any) -> tuple[Any, Any]:
    """A container somewhere in the tree and one of its keys."""
    here = tree
    while isinstance(here, list | dict) and here:
        key = draw.choice(range(len(here)) if isinstance(here, list) else sorted(here, key=str))
        below = here[key]
        if not isinstance(below, list | dict) or not below or draw.random() < 0.25:
            return here, key
        here = below
    return None, None


def as_json(draw: random.Random, value: Any) -> bytes:
    """JSON in one of the ways that programs write it."""
    text = json.dumps(
        value,
        ensure_ascii=draw.random() < 0.5,
        indent=draw.choice([None, None, 1, 2]),
        separators=draw.choice([None, (",", ":")]),
    )
    start = draw.choice([b"", b"", b"", b"\xef\xbb\xbf", b"\n  "])
    return start + text.encode("utf-8", "surrogatepass")


_CELLS = [
    "null", "-1", "0", "1", "1.5", "'x'", "''", "x'00ff'", "9223372036854775807", "-9223372036854775808", "2147483648",
    "4611686018427387904", "1e300", "'1'", "zeroblob(100)", "rowid", "{c} + 1", "-{c}", "{c} * 2", "'é'", "char(0, 27)",
]  # fmt: skip
_EDITS: list[Callable[[random.Random, str, str], str]] = [
    lambda draw, table, column: f"update {table} set {column} = {draw.choice(_CELLS).format(c=column)} "
    f"where rowid % {draw.choice([1, 2, 7])} = 0",
    lambda draw, table, column: f"update {table} set {column} = {draw.choice(_CELLS).format(c=column)} "
    f"where rowid = (select rowid from {table} limit 1 offset {draw.randrange(50)})",
    lambda draw, table, column: f"delete from {table} where rowid % {draw.choice([1, 2, 3])} = 0",
    lambda draw, table, column: f"insert into {table} select * from {table} limit {draw.choice([1, 5, 100])}",
    lambda draw, table, column: f"alter table {table} drop column {column}",
    lambda draw, table, column: f"alter table {table} rename column {column} to {draw.choice(['x', 'rowid', 'start'])}",
    lambda draw, table, column: f"alter table {table} add column {draw.choice(['x', 'rowid', 'oid'])} text default 'y'",
    lambda draw, table, column: f"drop table {table}",
    lambda draw, table, column: f"create index odd on {table} ({column})",
    lambda draw, table, column: f"create table copied as select * from {table} order by random()",
]  # fmt: skip


def of_sqlite(draw: random.Random, path: Path) -> None:
    """Change rows, columns and tables of a database in place; what SQLite refuses is left out."""
    with closing(sqlite3.connect(path)) as file:
        for _ in range(draw.choice([1, 1, 2, 4])):
            tables = [str(n) for (n,) in file.execute("select name from sqlite_master where type = 'table'")]
            if not tables:
                return
            table = draw.choice(tables)
            columns = [str(row[1]) for row in file.execute(f'pragma table_info("{table}")')]
            edit = draw.choices(_EDITS, [6, 6, 1, 1, 1, 1, 1, 1, 1, 1])[0]
            with suppress(sqlite3.Error):
                file.execute(edit(draw, f'"{table}"', f'"{draw.choice(columns)}"'))
        file.commit()
        if draw.random() < 0.3:
            with suppress(sqlite3.Error):
                file.execute("vacuum")


def of_pages(draw: random.Random, content: bytes) -> bytes:
    """A SQLite file with bytes changed where its pages say what they hold."""
    data = bytearray(content)
    (size,) = struct.unpack(">H", data[16:18])
    size = 65536 if size == 1 else size
    for _ in range(draw.choice([1, 1, 2, 5])):
        page = draw.randrange(len(data) // size)
        at = page * size + draw.choice([draw.randrange(size), draw.randrange(40), 100 + draw.randrange(40)])
        if at >= 16:  # else it is no SQLite file
            data[min(at, len(data) - 1)] = draw.randrange(256)
    return bytes(data)
