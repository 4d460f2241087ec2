"""Streams the tables of an export into the staged tables."""

from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from ..store import arrow_functions as arrow
from .nsys_tables import Export, Table, Tally
from .staging import Staging

BATCHES_AT_ONCE = 6


@dataclass(frozen=True)
class Load:
    """A table of the export, the staging file that casts its rows, and the staged table where they wait."""

    table: Table
    staging: str
    into: str
    missing_means: str | None = None
    of_host: tuple[str, tuple[int, ...]] | None = None  # a column, and what it has in rows that are of no device
    is_chosen: bool = False  # whether the staging file leaves out rows that are no loss
    is_noted: bool = True  # whether how many rows it holds is a fact of the input


def load_table(export: Export, load: Load, staging: Staging) -> int:
    """Stream a table through its staging file and note what did not survive; returns how many rows were kept."""
    name = load.table.name
    staging.progress.step(name, export.size(name))
    tally = Tally()
    kept = host_cnt = 0
    batches = export.batches(load.table, tally)
    # a statement for a few batches: what one statement inserts cannot leave DuckDB's memory before it ends
    with staging.ahead(iter(lambda: list(islice(batches, BATCHES_AT_ONCE)), [])) as coming:
        for some in coming:
            rows = pa.Table.from_batches(some)
            if load.of_host is not None:
                column, kinds = load.of_host
                rows = arrow.without(rows, arrow.is_in(rows[column], kinds, pa.int64()))
                host_cnt += sum(map(len, some)) - len(rows)
            kept += staging.load(load.staging, load.into, rows)
            staging.progress.advance(sum(map(len, some)))
    if load.is_noted:
        staging.fact("holds", name, kept)
    if host_cnt:
        staging.fact("holds", f"{name} of the host", host_cnt, "not read: pinned memory is not on a device")
    if kept + host_cnt < tally.rows and not load.is_chosen:
        staging.fact(
            "lost",
            name,
            tally.rows - kept - host_cnt,
            "rows without a start, an end or a thread, or that end before they start",
        )
    if tally.missing:
        staging.fact(
            "lost", f"{name} rows", tally.missing, "on damaged pages: SQLite counts them but does not find them"
        )
    if tally.not_utf8:
        staging.fact("lost", f"{name} text", tally.not_utf8, "texts that are not UTF-8, decoded with U+FFFD")
    return kept
