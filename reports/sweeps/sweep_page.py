"""The page of a sweep: every measure against the axis with the most values, and published numbers beside ours."""

from pathlib import Path
from typing import Any

from ... import rundir
from ..page import figures, html
from ..page.section import Section, section
from . import published
from . import results as sweeps

Row = dict[str, Any]
# Measure, its title, unit and scale.
_FIGURES = (
    ("task_step_ns", "Training time of a step of one adapter", "ms", 1e-6),
    ("launch_ns", "Of it launching: all but the GPU's work", "ms", 1e-6),
    ("execution_ns", "Of it the GPU's work", "ms", 1e-6),
    ("token_per_s", "Tokens", "1/s", 1.0),
    ("peak_allocated_bytes", "Peak memory allocated", "MiB", 2**-20),
    ("peak_reserved_bytes", "Peak memory reserved", "MiB", 2**-20),
    ("nvml_used_bytes", "Memory of the device in use, as nvidia-smi shows it", "MiB", 2**-20),
    ("peak_resident_bytes", "Peak memory of the process", "MiB", 2**-20),
)
_PUBLISHED_AS = {"peak_allocated_bytes": published.PEAK}
_BESIDE = {
    "peaks": "Full fine-tuning and LoRA by rank and checkpointing; oom is out of memory. Which peak the published one "
    "is was not said: ours are torch's allocated and reserved memory and the device's as nvidia-smi shows it. On a CPU "
    "none of them is measured.",
    "times": "A step of one adapter, in the parts that the paper has.",
    "rates": "Tokens of all devices in a second. What was published of no rank in particular is beside ours of each.",
}


def write(folder: Path, rows: list[Row], path: Path) -> None:
    """Write the page of a sweep's rows. Raises OutputError when it cannot be written."""
    sweep = rundir.read_sweep(folder)
    axes = [str(axis) for axis in sweep["axes"]]
    settings = {str(name): str(value) for name, value in sweep["settings"].items()}
    known = published.of(settings, rows, axes)
    shown = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    table = [{name: row[name] for name in shown} for row in rows]
    made = [
        section(
            "results", "Results", "A row for each run. Out of memory is a result; an empty cell was not measured.",
            sweeps.RESULTS, table, is_open=True,
        )
    ]  # fmt: skip
    made += [s for s in (_figure(rows, known, axes, *figure) for figure in _FIGURES) if s is not None]
    made += _along_others(rows, axes)
    for name, table in published.beside(known, rows, axes).items():
        if table:
            made.append(
                section(f"published-{name}", f"Published {name} and ours", _BESIDE[name], sweeps.RESULTS, table)
            )
    if known:
        text = "What others measured, on other machines: compare the shape, not the height."
        made.append(section("published", "Published", text, "published.csv", known))
    told = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in settings.items())
    html.write(path, f"Sweep over {', '.join(axes).replace('_', '-') or 'one run'}", told, made, _cards(rows))


def _cards(rows: list[Row]) -> list[dict[str, str]]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[str(row["status"])] = counts.get(str(row["status"]), 0) + 1
    cards = [{"what": f"runs: {status}", "value": str(count), "note": ""} for status, count in counts.items()]
    if found := sweeps.fastest(rows):
        first, alike = found
        also = f"; as fast, as far as the steps tell: {'; '.join(map(sweeps.words, alike))}" if alike else ""
        value = f"{first['token_per_s']:,.0f} /s"
        cards.append({"what": "most tokens", "value": value, "note": sweeps.words(first) + also})
    return cards


def _figure(
    rows: list[Row], known: list[Row], axes: list[str], measure: str, title: str, unit: str, scale: float
) -> Section | None:
    measured = [row for row in sweeps.ended_well(rows) if row[measure] is not None]
    if not measured or not axes:
        return None
    x = next(iter(_numeric(rows, axes)), None)
    if x is None or len({row[x] for row in measured if row[x] is not None}) < 2:
        bars = [{"run": sweeps.words(row), measure: row[measure]} for row in measured]
        drawn = figures.side_by_side(bars, "run", [measure], unit, scale)
    else:
        points = [row | {"line": _line(row, axes, x)} for row in measured if row[x] is not None]
        ends = {min(row[x] for row in points), max(row[x] for row in points)}
        points += [
            {x: place, measure: row["value"], "line": f"published, {_line(row, axes, x)}"}
            for row in known
            if row["measure"] in (measure, _PUBLISHED_AS.get(measure)) and row["value"] is not None
            # published once for all: a level
            for place in (sorted(ends) if row[x] is None and row["parallel"] else [row[x]])
            if place is not None
        ]
        drawn = figures.curves(points, x, measure, "line", (x.replace("_", "-"), unit), scale)
    table = [{axis: row[axis] for axis in axes} | {measure: row[measure]} for row in measured]
    return section(
        measure.replace("_", "-"),
        title,
        f"Against {x.replace('_', '-') if x else 'the runs'}.",
        sweeps.RESULTS,
        table,
        drawn,
    )


def _numeric(rows: list[Row], axes: list[str]) -> list[str]:
    """The axes of numbers, that with the most values first."""
    found = [
        axis for axis in axes
        if all(isinstance(row[axis], int | float | None) and not isinstance(row[axis], bool) for row in rows)
    ]  # fmt: skip
    return sorted(found, key=lambda axis: -len({row[axis] for row in rows}))


def _along_others(rows: list[Row], axes: list[str]) -> list[Section]:
    """Tokens along the other axes of numbers, where several runs differ in that one alone."""
    made = []
    for x in _numeric(rows, axes)[1:]:
        lines: dict[str, list[Row]] = {}
        for row in rows:
            if row[published.RATE] is not None and row[x] is not None:
                lines.setdefault(_line(row, axes, x), []).append(row)
        points = [row | {"line": line} for line, mine in lines.items() if len(mine) > 1 for row in mine]
        if points:
            name = x.replace("_", "-")
            drawn = figures.curves(points, x, published.RATE, "line", (name, "1/s"))
            table = [{axis: row[axis] for axis in axes} | {published.RATE: row[published.RATE]} for row in points]
            made.append(
                section(f"tokens-{name}", f"Tokens by {name}", "All else is the same.", sweeps.RESULTS, table, drawn)
            )
    return made


def _line(row: Row, axes: list[str], x: str) -> str:
    """The values of the other axes, those that are no words named."""
    told = [(axis, row.get(axis)) for axis in axes if axis != x]
    return (
        ", ".join(
            f"{value}" if isinstance(value, str) and axis != "overlap" else f"{axis.replace('_', '-')} {value}".lower()
            for axis, value in told
            if value not in (None, "")
        )
        or "all"
    )
