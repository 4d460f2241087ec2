"""Writes views as CSV, Parquet or JSON files.

Invariant: a file is complete or absent. It is written under a temporary name and renamed.
"""

import csv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ... import sql, unfinished
from ...analyze.store.database import Database
from ...errors import InputError, OutputError, UsageError
from ...sql import literal, quoted
from .narrowing import Narrowing

# What COPY is told for each format, by file suffix.
FORMATS = {
    "csv": "format csv, header true",
    "parquet": "format parquet, compression zstd",
    "json": "format json, array true",
    "mlora": "format csv, header false",
}
_FORMULA = "^[=+\\-@\\t\\r]"
# Views with about as many rows as a table; of more than so many rows CSV takes longer to write than all else together.
_GROWS_WITH = {
    "idle_gap": "gpu_op", "launch_outlier": "gpu_op", "launch_trace": "gpu_op", "memory_copy": "memory_operation",
    "memory_timeline": "memory_event", "nvtx_projection": "range", "range_instance": "range",
}  # fmt: skip
MOST_CSV_ROWS = 100_000


def write(
    database: Database,
    view: str,
    path: Path,
    format: str,
    escape_formulas: bool = False,
    narrowing: Narrowing | None = None,
) -> None:
    """Write the rows of a public view, all or those that are wanted, to a file in one of FORMATS.

    `escape_formulas` puts a `'` before texts that a spreadsheet would evaluate as a formula. Raises OutputError
    when the file cannot be written, UsageError when there is no such view or no such form of it.
    """
    database.public_view(view)
    database.copy(_statement(view, format, escape_formulas, narrowing or Narrowing()), path, _options(view, format))


def write_frame(frame: Any, path: Path) -> None:
    """Write a polars DataFrame as .csv, .json or .parquet. Raises OutputError when it cannot be written."""
    write = {".csv": frame.write_csv, ".json": frame.write_json, ".parquet": frame.write_parquet}[path.suffix]
    with replacing(path) as partial:
        write(partial)


def write_rows(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows that all have the same keys as CSV. Raises OutputError when it cannot be written."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_all(database: Database, folder: Path, format: str | None, escape_formulas: bool = False) -> list[Path]:
    """Write every public view to a file of its name in a folder; returns the paths.

    Without a format they are CSV, but for those with a row for each event of a large trace, which are Parquet.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from error
    written: list[Path] = []
    failed: dict[str, str] = {}
    views = [view.name for view in sql.public() if database.has(view.name)]
    large = [] if format else [view for view in views if _is_large(database, view)]
    with database.computing_once(views):
        for view in views:
            suffix = format or ("parquet" if view in large else "csv")
            path = folder / f"{view}.{suffix}"
            try:
                write(database, view, path, suffix, escape_formulas)
                written.append(path)
            except InputError as error:  # of one view: the others are written all the same
                failed[view] = str(error)
    if failed:
        first, said = next(iter(failed.items()))
        raise InputError(
            f"{len(failed)} of {len(views)} views cannot be computed ({', '.join(failed)}); {first}: {said}"
        )
    return written


def _is_large(database: Database, view: str) -> bool:
    table = _GROWS_WITH.get(view)
    return table is not None and database.rows(f"select count(*) > {MOST_CSV_ROWS} from {table}") == [(True,)]


def _options(view: str, format: str) -> str:
    if format == "mlora" and view == "launch_trace":
        return FORMATS["csv"]
    return FORMATS[format]


def _statement(view: str, format: str, escape_formulas: bool, narrowing: Narrowing) -> str:
    """The select that a file is written from."""
    if format == "mlora":
        return _mlora_statement(view)
    header = sql.public_view(view)
    if not escape_formulas:
        return narrowing.statement(header) if narrowing else f"select * from {quoted(view)}"
    types = {column.name: column.type for column in header.columns}
    columns = narrowing.chosen(list(types), view)
    return "select {} from ({})".format(
        ", ".join(_escaped(name) if types[name] == "varchar" else quoted(name) for name in columns),
        narrowing.statement(header),
    )


def _escaped(column: str) -> str:
    name = quoted(column)
    return f"if(regexp_matches({name}, {literal(_FORMULA)}), '''' || {name}, {name}) as {name}"


def _mlora_statement(view: str) -> str:
    """The two forms of mLoRA: its report script's six columns, and the per-launch table of its manual."""
    if view == "range_summary":
        return "select name, total_range_ns, api_ns, queue_ns, kernel_ns, range_cnt from _mlora_range_summary"
    if view == "launch_trace":
        columns = sql.public_view(view).columns[:5]
        return f"select {', '.join(c.name for c in columns)} from launch_trace where kind = 'kernel'"
    raise UsageError(f"--format mlora knows the reports range_summary and launch_trace, not {view}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` that replaces it when the block ends well."""
    place = unfinished.end_of_links(path)
    partial = unfinished.beside(place)
    try:
        yield partial
        partial.replace(place)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # it was not made
            partial.unlink()
