"""The page about one recording: where its time and memory go, and what to do first."""

from pathlib import Path

from ... import sql
from ...analyze.store.database import Database
from ...errors import InputError
from .. import answer
from ..sources import shown
from . import html
from .first import first
from .section import Section, Source
from .sections import sections


def write(database: Database, path: Path) -> list[Section]:
    """Write the page of a database to a file. Of several inputs one is shown, and the others beside it by rank.

    Returns the sections that it has. Raises InputError for a database without inputs that could be read, OutputError
    when the file cannot be written.
    """
    source = Source(database, shown(database))
    with database.computing_once([view.name for view in sql.public()]):
        made = sections(source)
        found = list(answer.lines(answer.answer(database)))
        html.write(path, str(source.name), source.subtitle(), made, _cards(source), first(source), found[1:2])
    if source.problems:
        raise InputError(f"{path} lacks {len(source.problems)} sections: {source.problems[0]}")
    return made


def _cards(source: Source) -> list[dict[str, str]]:
    cards: list[dict[str, str]] = []

    def add(what: str, value: str, note: str = "") -> None:
        cards.append({"what": what, "value": value, "note": note})

    for row in source.rows("from step_statistics where source_id = {id}"):
        add(
            "step, median", f"{row['p50_ns'] / 1e6:,.2f} ms", f"{row['step_cnt']} steps, p95 {row['p95_ns'] / 1e6:,.2f}"
        )
        if row["token_per_s"]:
            add("tokens", f"{row['token_per_s']:,.0f} /s", "with the profiler's cost")
    for row in source.rows("from gpu_timeline_summary where source_id = {id} limit 2"):
        add(f"device {row['device_id']} busy", f"{row['busy_frac']:.1%}", f"of {row['window_ns'] / 1e6:,.1f} ms")
    ((kernels, time),) = source.database.rows(
        f"select coalesce(sum(kernel_cnt), 0), coalesce(sum(kernel_ns), 0) from kernel_summary "
        f"where source_id = {source.source_id}"
    )
    if kernels:
        add("kernels", f"{kernels:,}", f"{time / 1e6:,.1f} ms")
    ((calls, api),) = source.database.rows(
        f"select count(*), coalesce(sum(launch_end_ns - launch_start_ns), 0) from gpu_op "
        f"where source_id = {source.source_id} and is_first_op"
    )
    if calls:
        add("launches", f"{calls:,}", f"{api / 1e6:,.1f} ms of CPU")
    for device, peak in source.database.rows(
        "select device, max(peak_bytes) from memory_peak group by device order by device = 'cpu', device limit 2"
    ):
        add(f"peak memory of {device}", f"{peak / 2**20:,.1f} MiB", "allocated by torch")
    return cards
