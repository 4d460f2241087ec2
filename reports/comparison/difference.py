"""The flame graph of two recordings: the same ranges, as wide as they are in one, coloured by how they changed."""

from typing import Any

from ...analyze.store.database import Database
from ..page import flame
from ..page.section import Section, section
from ..tables.sources import counting

Row = dict[str, Any]


def section_of(databases: list[Database], letters: tuple[str, str], clocks: list[float]) -> Section | None:
    """What changed where, for each step where both have steps; None where one has no ranges and no work.

    clocks: factors for the CPU's times, which a profiler slows; those of the GPU stay as they are.
    """
    has_gpu = any(database.rows("select 1 from gpu_op limit 1") for database in databases)
    counts = [_step_cnt(database) for database in databases]
    by_step = all(counts)
    inputs = []
    for database, count, clock in zip(databases, counts, clocks, strict=True):
        rows, paths = _rows(database, has_gpu)
        inputs.append((rows, paths, (1.0 if has_gpu else clock) / (count if by_step else 1)))
    if not all(rows for rows, _, _ in inputs):
        return None
    tree = flame.of_change(inputs, "all GPU work" if has_gpu else "all ranges of all threads")
    tree["own"] = [[round(value) for value in own] for own in tree["own"]]
    first, second = letters
    what = "GPU time" if has_gpu else "CPU wall time"
    measures = [
        {"title": f"as wide as in {letters[place]}", "tree": "change", "column": place,
         "whole": f"the {what} of {letters[place]}"}
        for place in (1, 0)
    ]  # fmt: skip
    each = ": all of the recording, divided by its steps" if by_step else ""
    ends = ", kernels at the ends" if has_gpu else ""
    if not has_gpu:
        each += "; what another thread does for a range (autograd's) is a part of it"
        each += ", on the clock of the verdict" if set(clocks) != {1.0} else ""
    text = (
        f"{what} of each range{each}{ends}. Each width is the time in the input chosen above it; the color says how "
        f"{second} differs from {first}, the text by how much. What is gone has no width in {second}: look at {first}."
    )
    data = {"change": tree, "letters": letters, "measures": measures, "colours": {}}
    view = "range_summary, kernel_summary" if has_gpu else "range_summary"
    name = f"where-{first}-to-{second}".lower()
    return section(name, f"Where {second} differs from {first}", text, view, [], data, kind="change",
                   legend=("less", "same", "more"))  # fmt: skip


def _step_cnt(database: Database) -> int:
    return int(database.rows(
        "select count(distinct (source_id, step)) from step_summary join source using (source_id) "
        f"where {counting(database)}"
    )[0][0])  # fmt: skip


def _rows(database: Database, has_gpu: bool) -> tuple[list[Row], dict[int, Row]]:
    is_counted = f"source_id in (select source_id from source where {counting(database)})"
    statement = "select * from _page_flame" if has_gpu else "select path_id, self_wall_ns from range_summary"
    paths = database.dicts(
        "select path_id, parent_path_id, kind, name.text as name, path from range_path join name using (name_id)"
    )
    return database.dicts(f"{statement} where {is_counted}"), {row["path_id"]: row for row in paths}
