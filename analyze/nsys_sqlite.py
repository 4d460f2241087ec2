"""Reads an `nsys export --type sqlite` file into the staged tables.

Invariant: the file is opened read-only and immutable, so neither it nor its folder changes. Columns are selected by
name and missing ones become NULL, because tables and columns differ between all versions of nsys.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite
import numpy as np
import pyarrow as pa

from ..errors import CorruptInputError, UnknownFormatError
from .staging import Staging

READER_VERSION = 3
BATCH_ROWS = 65_536
BATCHES_AT_ONCE = 4
_WHAT_TO_DO = "export it again with `nsys export --type sqlite`"

_INT, _TEXT = pa.int64(), pa.string()


@dataclass(frozen=True)
class Table:
    """A table of the export: its staging file, the staged table that it fills, and what it must and may have."""

    name: str
    staging: str
    into: str
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    missing_means: str | None = None
    texts: tuple[str, ...] = ()
    where: str = "true"


@dataclass
class Tally:
    """What passed through while a table was read."""

    rows: int = 0
    not_utf8: int = 0


_WORK = ("start", "end", "deviceId", "streamId", "correlationId")
_SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
TABLES = (
    Table(
        "CUPTI_ACTIVITY_KIND_RUNTIME", "nsys_runtime", "staged_api_call",
        ("start", "end", "globalTid", "correlationId", "nameId"), ("eventClass",),
        "no CUDA API calls: launch and queue times are unknown and no GPU work can be attributed to ranges",
    ),
    Table(
        "CUPTI_ACTIVITY_KIND_KERNEL", "nsys_kernel", "staged_gpu_op",
        (*_WORK, "demangledName"), ("contextId", "globalPid", "graphNodeId", *_SHAPE),
        "no kernels: nothing ran on a GPU, or CUDA tracing was off (nsys profile --trace=cuda,nvtx)",
    ),
    Table(
        "CUPTI_ACTIVITY_KIND_MEMCPY", "nsys_memcpy", "staged_gpu_op",
        (*_WORK, "bytes", "copyKind"), ("contextId", "globalPid", "graphNodeId", "srcKind", "dstKind"),
    ),
    Table(
        "CUPTI_ACTIVITY_KIND_MEMSET", "nsys_memset", "staged_gpu_op",
        (*_WORK, "bytes"), ("contextId", "globalPid", "graphNodeId", "memKind"),
    ),
    Table(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "nsys_graph", "staged_gpu_op",
        (*_WORK, "graphId"), ("contextId", "globalPid"),
    ),
    Table(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "nsys_synchronization", "sync",
        (*_WORK, "syncType"), ("globalPid",),
    ),
    Table(
        "NVTX_EVENTS", "nsys_nvtx_text", "nvtx",
        ("start", "eventType", "globalTid"), ("end", "endGlobalTid", "textId", "domainId"),
        "no ranges: all GPU work is unattributed (open NVTX ranges in the program, trace with --trace=cuda,nvtx)",
        texts=("text",), where="eventType in (59, 60, 70, 71)",
    ),
    Table(
        "CUDA_GPU_MEMORY_USAGE_EVENTS", "nsys_memory_usage", "staged_memory_event",
        ("start", "globalPid", "bytes"), ("deviceId", "address", "memoryOperationType"),
    ),
    Table("PROFILER_OVERHEAD", "nsys_overhead", "overhead", ("start", "end", "nameId"), ("globalTid",)),
)  # fmt: skip
_STRINGS = Table("StringIds", "nsys_string", "string", ("id",), (), texts=("value",))
_NVTX = next(t for t in TABLES if t.name == "NVTX_EVENTS")
_MARKERS = {"StringIds", "ANALYSIS_DETAILS", "TARGET_INFO_SESSION_START_TIME"} | {t.name for t in TABLES}


def read(path: Path, staging: Staging) -> None:
    """Load one export into the staged tables.

    Raises UnknownFormatError for a SQLite database that nsys did not write, CorruptInputError for a file that is cut
    off, damaged or has values of the wrong type.
    """
    _refuse_cut_off(path)
    export = Export(path)
    export.check_is_nsys()
    _read_strings(export, staging)
    _read_metadata(export, staging)
    with staging.in_order():
        for table in TABLES:
            _read_table(export, table, staging)
    staging.columns("staged_range")
    staging.columns("staged_api_call")
    staging.load("nsys_thread", "thread")


def _refuse_cut_off(path: Path) -> None:
    """Compare the size that the header promises with the file's; a sqlite3 query may not notice what is missing."""
    with path.open("rb") as file:
        head = file.read(100)
    size = path.stat().st_size
    page = int.from_bytes(head[16:18], "big") or 0
    page = 65536 if page == 1 else page
    promised = page * int.from_bytes(head[28:32], "big")
    counters_agree = head[24:28] == head[92:96]
    if size < 512 or page < 512 or (counters_agree and size < promised):
        raise CorruptInputError(f"{path} is cut off: it has {size} of {promised} bytes; copy or {_WHAT_TO_DO}")
    for suffix in ("-journal", "-wal"):
        left = path.with_name(path.name + suffix)
        if left.exists() and left.stat().st_size:
            raise CorruptInputError(
                f"{path} was not finished: {left.name} lies beside it, so a program still writes it or died; "
                f"wait, or {_WHAT_TO_DO}"
            )


class Export:
    """Read-only access to one exported file: its schema through sqlite3, its rows through ADBC."""

    def __init__(self, path: Path):
        self.path = path
        self._uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        self.columns = self._read_schema()

    def _read_schema(self) -> dict[str, dict[str, str]]:
        """Column names of every table, by lower-case name, with the spelling that the file uses."""
        names = [str(row[0]) for row in self.select("select name from sqlite_master where type = 'table'")]
        return {n: {str(r[1]).lower(): str(r[1]) for r in self.select(f'pragma table_info("{n}")')} for n in names}

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a small query; text that is not UTF-8 is decoded with replacement."""
        try:
            with closing(sqlite3.connect(self._uri, uri=True)) as connection:
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
                return connection.execute(statement).fetchall()
        except sqlite3.Error as error:
            raise CorruptInputError(f"{self.path} is damaged: {error}; {_WHAT_TO_DO}") from error

    def check_is_nsys(self) -> None:
        """Raise UnknownFormatError unless some table is one that nsys writes."""
        if not self.columns:
            raise CorruptInputError(f"{self.path} is an SQLite database without tables; {_WHAT_TO_DO}")
        if not _MARKERS & self.columns.keys():
            raise UnknownFormatError(f"{self.path} is an SQLite database, but not one that `nsys export` writes")

    def size(self, table: str) -> int:
        """Number of rows as an upper bound that costs nothing (largest rowid)."""
        return int(self.select(f'select coalesce(max(rowid), 0) from "{table}"')[0][0])

    def batches(self, table: Table, tally: Tally) -> Iterator[pa.RecordBatch]:
        """The table's columns as Arrow batches: integers and texts, NULL for columns that the file lacks.

        The column `position` numbers the rows. Raises CorruptInputError for a needed column that is missing or a
        value that is no integer.
        """
        has = self.columns[table.name]
        for column in table.needed:
            if column.lower() not in has:
                raise CorruptInputError(f"{self.path}: table {table.name} has no column {column}; {_WHAT_TO_DO}")
        integers = (*table.needed, *table.optional)
        chosen = [_chosen(has, c, '"{}"') for c in integers]
        chosen += [_chosen(has, c, 'cast("{}" as blob)') for c in table.texts]
        types = [*((c, _INT) for c in integers), *((c, _TEXT) for c in table.texts)]
        try:
            for batch in self._arrow(f'select {", ".join(chosen)} from "{table.name}" where {table.where}'):
                columns = [_typed(array, type_, tally) for array, (_, type_) in zip(batch, types, strict=True)]
                position = pa.array(np.arange(tally.rows, tally.rows + len(batch)))
                tally.rows += len(batch)
                yield pa.record_batch([*columns, position], [*(name for name, _ in types), "position"])
        except (adbc_driver_manager.Error, pa.ArrowException, ValueError) as error:
            raise CorruptInputError(self._explain(table, str(error))) from error

    def _arrow(self, statement: str) -> Iterator[pa.RecordBatch]:
        with (
            adbc_driver_manager.AdbcDatabase(driver=adbc_driver_sqlite._driver_path(), uri=self._uri) as database,
            adbc_driver_manager.AdbcConnection(database) as connection,
            adbc_driver_manager.AdbcStatement(connection) as query,
        ):
            query.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
            query.set_sql_query(statement)
            stream, _ = query.execute_query()
            yield from pa.RecordBatchReader._import_from_c(stream.address)

    def _explain(self, table: Table, error: str) -> str:
        """Which cell broke the read: the first column that holds something other than integers and NULL."""
        has = self.columns[table.name]
        for column in (c for c in (*table.needed, *table.optional) if c.lower() in has):
            found = self.select(
                f'select typeof("{column}"), count(*) from "{table.name}" '
                f"where typeof(\"{column}\") not in ('integer', 'null') group by 1"
            )
            for kind, count in found:
                return (
                    f"{self.path}: column {column} of table {table.name} holds {kind} instead of integers in "
                    f"{count} rows; the file was edited or damaged, {_WHAT_TO_DO}"
                )
        return f"{self.path}: table {table.name} cannot be read: {error.splitlines()[0]}; {_WHAT_TO_DO}"


def _chosen(has: dict[str, str], column: str, expression: str) -> str:
    """A select item: the column in the file's own spelling, or NULL where the file has no such column."""
    spelled = has.get(column.lower())
    return f'{expression.format(spelled) if spelled else "null"} as "{column}"'


def _typed(array: pa.Array, to: pa.DataType, tally: Tally) -> pa.Array:
    """An Arrow column as integers or as text; ADBC takes the type from the first batch's values."""
    if array.type == to:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), to)
    if pa.types.is_binary(array.type) and to == _TEXT:
        try:
            return array.cast(_TEXT)
        except pa.ArrowInvalid:
            texts = [None if v is None else v.decode("utf-8", "replace") for v in array.to_pylist()]
            tally.not_utf8 += sum(t is not None and "\ufffd" in t for t in texts)
            return pa.array(texts, _TEXT)
    raise ValueError(f"{array.type} instead of {to}")


def _read_strings(export: Export, staging: Staging) -> None:
    """StringIds become names; `string_ref` maps an id to its name, with and without an API version suffix."""
    staging.create_from("memcpy_kind", "nsys_memcpy_kind")
    staging.create_from("memory_kind", "nsys_memory_kind")
    staging.create_table("string", "id bigint, value varchar")
    if "StringIds" in export.columns:
        _load(export, _STRINGS, staging)
    staging.intern(
        "select value from string union all select regexp_replace(value, '_v[0-9]{4}$', '') from string "
        "union all select name from memcpy_kind union all values ('[CUDA memset]'), ('[CUDA graph]')"
    )
    staging.create_from("string_ref", "nsys_string_ref")


def _read_table(export: Export, table: Table, staging: Staging) -> None:
    """One table of events, if the file has it; NVTX texts are interned on the way."""
    if table.name not in export.columns:
        if table.missing_means:
            staging.fact("missing", table.name, "no such table", table.missing_means)
        return
    if table is not _NVTX:
        _load(export, table, staging)
        return
    _read_domains(export, staging)
    times = dict.fromkeys(("position", "start_ns", "end_ns", "thread_id", "end_thread_id"), "bigint")
    staging.wait_as_columns("nvtx", times | dict.fromkeys(("style", "kind", "text"), "varchar"))
    _load(export, table, staging)
    staging.columns("nvtx")
    staging.name_ranges("select text from nvtx")
    staging.load("nsys_nvtx", "staged_range")
    staging.drop("nvtx", "string")


def _load(export: Export, table: Table, staging: Staging) -> None:
    """Stream a table through its staging file and note what did not survive."""
    staging.progress.step(table.name, export.size(table.name))
    tally = Tally()
    kept = 0
    batches = export.batches(table, tally)
    # a statement for a few batches: what one statement inserts cannot leave DuckDB's memory before it ends
    while some := list(islice(batches, BATCHES_AT_ONCE)):
        kept += staging.load(table.staging, table.into, pa.Table.from_batches(some))
        staging.progress.advance(sum(map(len, some)))
    if table.name != _STRINGS.name:
        staging.fact("holds", table.name, kept)
    if kept < tally.rows:
        staging.fact(
            "lost",
            table.name,
            tally.rows - kept,
            "rows without a start, an end or a thread, or that end before they start",
        )
    if tally.not_utf8:
        staging.fact("lost", f"{table.name} text", tally.not_utf8, "texts that are not UTF-8, decoded with U+FFFD")


def _read_domains(export: Export, staging: Staging) -> None:
    """NVTX domains by process: nsys writes them as rows of the events table."""
    staging.create_table("nvtx_domain", "process_id bigint, domain_id bigint, text varchar")
    has = export.columns["NVTX_EVENTS"]
    if not {"domainid", "text"} <= has.keys():
        return
    text_id = has.get("textid", "null")
    rows = export.select(
        f"select globaltid & ~16777215, domainid, {text_id}, text from NVTX_EVENTS "
        "where eventtype = 75 and typeof(globaltid) = 'integer' and typeof(domainid) = 'integer' order by start"
    )
    values = staging.database.connection
    for process_id, domain_id, string_id, text in rows:
        values.execute(
            "insert into nvtx_domain select ?, ?, coalesce((select value from string where id = ?), ?) "
            "where not exists (from nvtx_domain where process_id = ? and domain_id = ?)",
            [process_id, domain_id, string_id, text, process_id, domain_id],
        )


def _read_metadata(export: Export, staging: Staging) -> None:
    """Schema version, wall-clock origin, device names, thread names."""
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if table in export.columns:
            facts = dict(export.select(f'select name, value from "{table}"'))
            staging.set_source("format_version", facts.get("EXPORT_SCHEMA_VERSION"))
            staging.fact("about", "nsys version", facts.get("EXPORT_PRODUCT_VERSION"))
    start = export.columns.get("TARGET_INFO_SESSION_START_TIME", {})
    if "utcepochns" in start:
        for (origin,) in export.select("select utcEpochNs from TARGET_INFO_SESSION_START_TIME limit 1"):
            staging.set_source("origin_ns", origin)
    for gpu in _devices(export):
        staging.add_device(*gpu)
    staging.create_table("thread_name", "thread_id bigint, name varchar")
    if {"nameid", "globaltid"} <= export.columns.get("ThreadNames", {}).keys():
        names = export.select(
            "select t.globalTid, s.value from ThreadNames t join StringIds s on s.id = t.nameId "
            "where typeof(t.globalTid) = 'integer'"
        )
        threads = dict(names)
        batch = pa.table({"thread_id": pa.array(threads.keys(), _INT), "name": pa.array(threads.values(), _TEXT)})
        staging.load("nsys_thread_name", "thread_name", batch)


def _devices(export: Export) -> list[tuple[object, ...]]:
    """(CUDA ordinal, name, memory, multiprocessors) of each GPU.

    TARGET_INFO_GPU.id is no CUDA ordinal: TARGET_INFO_CUDA_DEVICE (schema 3.17.2 and later) maps it, before that
    cuDevice does where it is filled and distinct.
    """
    has = export.columns.get("TARGET_INFO_GPU", {})
    if not {"id", "name"} <= has.keys():
        return []
    optional = [f'"{has[c]}"' if c in has else "null" for c in ("cudevice", "totalmemory", "smcount")]
    gpus = export.select(f"select id, name, {', '.join(optional)} from TARGET_INFO_GPU order by id")
    if {"gpuid", "cudaid"} <= export.columns.get("TARGET_INFO_CUDA_DEVICE", {}).keys():
        ordinals = dict(export.select("select gpuId, min(cudaId) from TARGET_INFO_CUDA_DEVICE group by gpuId"))
        return [(ordinals[g[0]], g[1], g[3], g[4]) for g in gpus if g[0] in ordinals]
    listed = [g[2] for g in gpus]
    if None in listed or len(set(listed)) < len(listed):
        listed = list(range(len(gpus)))
    return [(ordinal, g[1], g[3], g[4]) for ordinal, g in zip(listed, gpus, strict=True)]
