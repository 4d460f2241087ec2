"""Traces side by side: a view of each, joined on what its rows are about, and how the others differ from the first."""

import re
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ... import sql
from ...analyze.pipeline import analyze
from ...analyze.store.database import Database
from ...errors import RegressionError, UsageError
from ...progress import Progress
from ...sql import quoted
from ..sources import counting
from . import runs

Values = dict[tuple[Any, ...], float]
TOTAL, MEDIAN = "(total)", "(median)"


@dataclass(frozen=True)
class Comparison:
    """One view, the columns that name a row in every trace, and the measure unless the user names another."""

    view: str
    keys: tuple[str, ...]
    measure: str
    where: str = "true"
    is_per_step: bool = True
    table: str = "source"  # inputs without rows in it do not count
    on_cpu: str | None = None  # the measure where no input has GPU work


COMPARISONS = {
    "range": Comparison("range_summary", ("path",), "kernel_ns", "kind = 'annotation'", on_cpu="wall_ns"),
    "operator": Comparison("operator_summary", ("operator",), "self_gpu_ns", on_cpu="self_cpu_ns"),
    "kernel": Comparison("kernel_summary", ("kernel_name",), "kernel_ns"),
    "class": Comparison("kernel_class", ("class",), "gpu_op_ns"),
    "lora": Comparison("lora_summary", ("module", "part", "direction"), "gpu_op_ns"),
    "adapter": Comparison("adapter_summary", ("adapter", "direction"), "gpu_op_ns"),
    "api": Comparison("api_summary", ("api_name",), "call_ns"),
    "idle": Comparison("idle_summary", ("cause",), "idle_ns"),
    "device": Comparison("gpu_timeline_summary", ("device_id",), "busy_ns"),
    "step": Comparison("step_summary", ("step",), "wall_ns", is_per_step=False),
    "finding": Comparison("finding", ("rule", "place"), "saving_ns"),
    "memory": Comparison("memory_peak", ("device", "category"), "live_bytes", is_per_step=False, table="memory_event"),
}


def choose(by: str, measure: str | None) -> Comparison:
    """A comparison by its name, perhaps with another measure. Raises UsageError with the names that exist."""
    if by not in COMPARISONS:
        raise UsageError(f"--by {by}: choose one of {', '.join(COMPARISONS)}")
    chosen = COMPARISONS[by]
    (view,) = (v for v in sql.load() if v.name == chosen.view)
    columns = [c.name for c in view.columns if re.search("_(ns|cnt|bytes)$", c.name)]
    if measure is not None and measure not in columns:
        raise UsageError(f"--measure {measure}: choose one of {', '.join(columns)}")
    return chosen if measure is None else replace(chosen, measure=measure, on_cpu=None)


def fitting(how: Comparison, databases: dict[str, Database]) -> Comparison:
    """The comparison with a measure that the inputs have: of recordings without GPU work the CPU's time."""
    if how.on_cpu is None or any(db.rows("select 1 from gpu_op limit 1") for db in databases.values()):
        return how
    return replace(how, measure=how.on_cpu)


def compare(
    databases: dict[str, Database], how: Comparison, only: str | None = None, totals: bool = False
) -> list[dict[str, Any]]:
    """Rows of a table: first the total (of steps the median), then what changed most.

    databases: by the name of their column. only: a regular expression that a key must match. Values are for each step
    where every trace has steps, unless `totals`. Behind each trace but the first stand its change against the first,
    absolute and as a fraction (NULL where the first has nothing), and whether the row appeared or vanished.
    Raises UsageError for an expression that is none.
    """
    try:
        wanted = re.compile(only or "")
    except re.error as error:
        raise UsageError(f"--only {only} is not a regular expression: {error}") from error
    divisors = _divisors(list(databases.values()), how, totals)
    found, summed = [], []
    for database, divisor in zip(databases.values(), divisors, strict=True):
        whole = {k: v for k, v in _values(database, how).items() if wanted.search("/".join(map(str, k)))}
        found.append({key: value / divisor for key, value in whole.items()})
        summed.append(_headline(database, how, whole, only is None) / divisor)
    keys = sorted({key for values in found for key in values}, key=lambda key: (-_largest_change(found, key), str(key)))
    names, head = list(databases), MEDIAN if how.view == "step_summary" else TOTAL
    rows = [_row(how, (head, *[None] * (len(how.keys) - 1)), names, summed)]  # type: ignore[arg-type]
    return rows + [_row(how, key, names, [values.get(key) for values in found]) for key in keys]


def compare_inputs(
    inputs: list[Path], how: Comparison, only: str | None, totals: bool, progress: Progress
) -> tuple[list[dict[str, Any]], Callable[[float], None]]:
    """The same for files and folders, each read into a database of its own; and the gate that looks at the rows."""
    names = runs.names(inputs)
    with ExitStack() as stack:
        opened = [stack.enter_context(analyze([path], progress=progress)) for path in inputs]
        databases = dict(zip(names, opened, strict=True))
        rows = compare(databases, fitting(how, databases), only, totals)
    return rows, partial(check, rows, names)


def check(rows: list[dict[str, Any]], names: list[str], limit: float) -> None:
    """Raise RegressionError when the first row of a table grew by more than the limit, a fraction."""
    for name in names[1:]:
        change = rows[0][f"{name} Δ frac"]
        if change is None and (rows[0][name] or 0) > 0 and not rows[0][names[0]]:
            raise RegressionError(f"{name} has {rows[0][name]:,.0f} where {names[0]} has nothing")
        if change is not None and change > limit:
            raise RegressionError(f"{name} is {change:.1%} above {names[0]}; {limit:.1%} is allowed")


def _divisors(databases: list[Database], how: Comparison, totals: bool) -> list[int]:
    """How many steps each trace has, 1 for all where one has none."""
    count = "select count(distinct (source_id, step)) from step_summary join source using (source_id) where "
    steps = [int(database.rows(count + counting(database))[0][0]) for database in databases]
    return steps if how.is_per_step and not totals and all(steps) else [1] * len(steps)


def _values(database: Database, how: Comparison) -> Values:
    keys = ", ".join(map(quoted, how.keys))
    rows = database.rows(
        f"select {keys}, sum({quoted(how.measure)})::double from (select * from {quoted(how.view)} where {how.where}) "
        f"where source_id in (select source_id from source where {counting(database, how.table)}) group by all"
    )
    return {row[:-1]: row[-1] for row in rows if row[-1] is not None}


def _headline(database: Database, how: Comparison, values: Values, is_whole: bool) -> float:
    """What the rows add up to. Ranges nest, so their total is what each owns by itself, with what no range owns."""
    if how.view == "step_summary":
        return statistics.median(values.values()) if values else 0.0
    if how.view != "range_summary" or not is_whole or how.measure.startswith("self_"):
        return sum(values.values())
    if how.measure in ("kernel_ns", "kernel_cnt"):
        return sum(_values(database, replace(COMPARISONS["kernel"], measure=how.measure)).values())
    return sum(_values(database, replace(how, where=f"depth = 0 and {how.where}")).values())


def _largest_change(found: list[Values], key: tuple[Any, ...]) -> float:
    first = found[0].get(key, 0.0)
    return max((abs(values.get(key, 0.0) - first) for values in found[1:]), default=first)


def _row(how: Comparison, key: tuple[Any, ...], names: list[str], values: list[float | None]) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(how.keys, map(_text, key), strict=True))
    first = values[0]
    row[names[0]] = _rounded(first)
    for name, value in zip(names[1:], values[1:], strict=True):
        row[name] = _rounded(value)
        row[f"{name} Δ"] = _rounded((value or 0.0) - (first or 0.0))
        row[f"{name} Δ frac"] = round(value / first - 1, 6) if first and value is not None else None
        row[f"{name} is"] = "new" if first is None else "gone" if value is None else ""
    return row


def _text(part: Any) -> str | None:
    return None if part is None else str(part)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
