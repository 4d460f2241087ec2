"""What a file holds, read with Python's json, sqlite3 and loops alone: lorabench says as much, or what it lost."""

import gzip
import json
import re
import sqlite3
import zlib
from collections import Counter
from contextlib import closing, suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from lorabench.analyze.store.database import Database

_GPU_WORK = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
_RANGES = ("cpu_op", "Operator", "user_annotation", "python_function")
_ZERO_TO_END = 2**61  # ns; as sql/1_staging/is_measured.sql says
_LONGEST = 2**53


def number(value: Any) -> Decimal | None:
    """The number that a JSON value is or spells, None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        found = Decimal(value)
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def text_of(value: Any) -> str:
    """A name as it is shown."""
    if isinstance(value, str):
        return value or "[unnamed]"
    return "[unnamed]" if value is None else json.dumps(value, separators=(",", ":"))


def interval(event: dict[str, Any]) -> tuple[int, int] | None:
    """Start and end of an event in nanoseconds, None unless a profiler can have measured them."""
    ts, dur = number(event.get("ts")), number(event.get("dur"))
    if ts is None or dur is None or abs(ts) * 1000 > _ZERO_TO_END or not 0 <= dur * 1000 <= _LONGEST:
        return None
    start, length = (int((value * 1000).to_integral_value()) for value in (ts, dur))
    return start, start + length


Work = Counter[tuple[bool, tuple[int, int]]]  # (whether it is a range, its interval): how often


def work_of(events: list[Any]) -> Work:
    """GPU work and ranges among the entries of a trace."""
    found: Work = Counter()
    for event in events:
        if isinstance(event, dict) and event.get("ph") == "X" and event.get("name") != "[memory]":
            times = interval(event)
            if times is not None and event.get("cat") in (*_GPU_WORK, *_RANGES):
                found[event["cat"] in _RANGES, times] += 1
    return found


def work_read(database: Database) -> Work:
    """The same of what lorabench read."""
    rows = database.rows(
        "select true, start_ns, end_ns from range union all select false, start_ns, end_ns from gpu_op"
    )
    return Counter((is_range, (start, end)) for is_range, start, end in rows)


def kineto(path: Path) -> tuple[list[Any], bool]:
    """The entries of a trace, and whether these are all: else those before the first damage."""
    content = _unpacked(path)
    try:
        trace = json.loads(content.decode("utf-8"), parse_float=Decimal, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return _before_damage(content.decode("utf-8", "replace")), False
    events = trace.get("traceEvents") if isinstance(trace, dict) else trace
    return (events, True) if isinstance(events, list) else ([], False)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict; where a key stands twice it is not clear what a reader should make of it."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(strict=False, parse_float=Decimal, object_pairs_hook=_once)


def _unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    with suppress(OSError, EOFError, zlib.error):
        return gzip.decompress(content)
    unpack, text = zlib.decompressobj(wbits=31), b""
    for place in range(0, len(content), 256):
        try:
            text += unpack.decompress(content[place : place + 256])
        except zlib.error:
            break
    return text


def _before_damage(text: str) -> list[Any]:
    start = (
        re.search(r'"traceEvents"\s*:\s*\[', text)
        if text.lstrip("\ufeff \n").startswith("{")
        else re.search(r"\[", text)
    )
    if start is None:
        return []
    with suppress(ValueError, RecursionError):  # a header that is damaged itself hides all behind it
        json.loads(text[: start.start()].lstrip("\ufeff") + ('"x":0}' if text[start.start()] == '"' else "0"))
        return _decoded(text, start.end())
    return []


def _decoded(text: str, place: int) -> list[Any]:
    events: list[Any] = []
    while True:
        gap = re.compile(r"[\s,]*").match(text, place)
        place = gap.end() if gap else place
        if text[place : place + 1] != "{":
            return events
        try:
            event, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return events
        events.append(event)


def sqlite_rows(path: Path, table: str) -> list[tuple[Any, Any]] | None:
    """start and end of all rows of a table, None where SQLite cannot read them."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
        return list(file.execute(f'select start, "end" from "{table}" not indexed'))
    return None


def measured(rows: list[tuple[Any, Any]]) -> Counter[tuple[int, int]]:
    """The rows that a profiler can have measured."""
    return Counter(
        (start, end)
        for start, end in rows
        if type(start) is int and type(end) is int and abs(start) <= _ZERO_TO_END and 0 <= end - start <= _LONGEST
    )
