"""Run directories side by side: what each measured, and how the others differ from the first."""

from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import InputError, RegressionError

# What people compare, in the order in which they ask: name, path into summary.json, factor, unit.
_MEASURES = (
    ("step, median", ("step_wall_ns", "p50"), 1e-6, "ms"),
    ("step, p95", ("step_wall_ns", "p95"), 1e-6, "ms"),
    ("step of one adapter, median", ("task_step_wall_ns", "p50"), 1e-6, "ms"),
    ("tokens computed", ("tokens_per_s", "computed"), 1, "1/s"),
    ("tokens without padding", ("tokens_per_s", "non_padding"), 1, "1/s"),
    ("arithmetic", ("flop_per_s",), 1e-9, "GFLOP/s"),
    ("MFU", ("mfu_frac",), 100, "%"),
    ("matrix products a step", ("matrix_products_per_step",), 1, ""),
    ("kernel launches a step", ("kernel_launches_per_step",), 1, ""),
    ("peak allocated", ("memory", "steps", "peak_allocated_bytes"), 2**-20, "MiB"),
    ("peak reserved", ("memory", "steps", "peak_reserved_bytes"), 2**-20, "MiB"),
    ("peak resident", ("memory", "steps", "peak_resident_bytes"), 2**-20, "MiB"),
    ("cost of ranges", ("overhead_frac", "ranges"), 100, "%"),
)


def compare(directories: list[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows and columns of a table: a row for each measure that any run has, a column for each run.

    Behind each run but the first stands its change against the first, as a text. Raises InputError for a folder that
    is not a run directory, and when there is nothing to compare.
    """
    summaries = [rundir.read_summary(d) for d in directories]
    columns = names(directories)
    rows = []
    for title, path, factor, unit in _MEASURES:
        values = [value_at(s, path) for s in summaries]
        if all(v is None for v in values):
            continue
        row: dict[str, Any] = {"measure": title, "unit": unit}
        for number, (name, value) in enumerate(zip(columns, values, strict=True)):
            row[name] = None if value is None else round(value * factor, 3)
            if number:
                row[f"{name} Δ"] = _change(values[0], value) if unit != "%" else None
        rows.append(row)
    if not rows:
        raise InputError(
            "the runs measured nothing that can be compared; name what to compare of their traces with --by"
        )
    return rows, list(rows[0])


# What --fail-above looks at: of these more is worse, of the others less.
_WORSE_WHEN_MORE = ("step, median", "kernel launches a step", "peak allocated", "peak resident")
_WORSE_WHEN_LESS = ("tokens computed",)


def check(directories: list[Path], limit: float) -> None:
    """Raise RegressionError when a run is slower, launches more or needs more memory than the first by the limit."""
    summaries = [rundir.read_summary(d) for d in directories]
    for title, path, _, _ in _MEASURES:
        first, *others = (value_at(s, path) for s in summaries)
        for name, value in zip(names(directories)[1:], others, strict=True):
            if not first or not value or title not in _WORSE_WHEN_MORE + _WORSE_WHEN_LESS:
                continue
            worse = value / first - 1 if title in _WORSE_WHEN_MORE else first / value - 1
            if worse > limit:
                raise RegressionError(f"{title} of {name} is {worse:.1%} worse; {limit:.1%} is allowed")


def names(directories: list[Path]) -> list[str]:
    """The inputs' names, or their paths where two have the same."""
    short = [d.resolve().name for d in directories]
    return short if len(set(short)) == len(short) else [str(d) for d in directories]


def value_at(summary: dict[str, Any], path: tuple[str, ...]) -> float | None:
    """The number at a path into summary.json, None where there is none."""
    value: Any = summary
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int | float) else None


def _change(first: float | None, other: float | None) -> str | None:
    return f"{(other / first - 1) * 100:+.1f} %" if first and other is not None else None
