"""The page that sets runs or traces side by side: what each measured, and what changed most, by every kind of row."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ... import rundir
from ...analyze.pipeline import analyze
from ...progress import Progress
from ..page import figures, html
from ..page.section import Section, section
from . import baselines, changes, runs, shown
from .compared import letter

_SHOWN = 15
_TITLES = {
    "range": "Ranges", "operator": "Operators", "kernel": "Kernels", "class": "Kinds of work", "lora": "LoRA",
    "adapter": "Adapters", "api": "CUDA calls", "idle": "Why the GPU was idle", "device": "Devices", "step": "Steps",
    "finding": "Findings", "memory": "Memory at the peak",
}  # fmt: skip


def write(inputs: list[Path], path: Path, progress: Progress) -> None:
    """Write the page for two inputs or more. Raises what analyze() and compare raise."""
    names = runs.names(inputs)
    made = []
    if all((folder / rundir.SUMMARY).is_file() for folder in inputs):
        compared = runs.compare(inputs)
        text = " ".join([*(f"{line}." for line in compared.verdict), _legend(names)])
        rows = shown.as_rows(compared)
        made.append(section("measured", "What the runs measured", text, "summary.json", rows, is_open=True))
    if not all(baselines.is_without_traces(path) for path in inputs):
        made += _of_traces(dict(zip(names, inputs, strict=True)), progress)
    html.write(path, " against ".join([", ".join(names[1:]), names[0]]), "Times and counts are for each step where "
               "every input has steps.", made)  # fmt: skip


def _of_traces(inputs: dict[str, Path], progress: Progress) -> list[Section]:
    with ExitStack() as stack:
        databases = {
            name: stack.enter_context(analyze([baselines.readable(path)], progress=progress))
            for name, path in inputs.items()
        }
        found = []
        for by, comparison in changes.COMPARISONS.items():
            how = changes.fitting(comparison, databases)
            found.append(_section(by, how, list(databases), changes.compare(databases, how)))
    return [made for made in found if made is not None]


def _section(by: str, how: changes.Comparison, names: list[str], rows: list[dict[str, Any]]) -> Section | None:
    """What changed most, first; None where there is nothing in any."""
    _, *rest = rows
    if not any(row[name] for row in rows for name in names):
        return None
    unit, scale = ("MiB", 2**-20) if how.measure.endswith("_bytes") else ("ms", 1e-6)
    bars = [{"what": " ".join(str(row[k]) for k in how.keys if row[k] is not None), **row} for row in rest[:_SHOWN]]
    figure = figures.side_by_side(bars, "what", names, unit, scale) if bars else None
    text = f"{how.measure} of {how.view}, what changed most first."
    scaled = [{_with_unit(k, how, names): v for k, v in row.items()} for row in rows]
    return section(by, _TITLES[by], text, how.view, scaled, figure)


def _with_unit(column: str, how: changes.Comparison, names: list[str]) -> str:
    """Columns of values end in the measure's unit, by which they are shown."""
    end = how.measure.rpartition("_")[2]
    is_value = any(column in (name, f"{name} Δ", f"{name} spread") for name in names)
    return f"{column}_{end}" if is_value else column.replace(" frac", "_frac").replace(" share", " share_frac")


def _legend(names: list[str]) -> str:
    return "; ".join(f"{letter(number)} is {name}" for number, name in enumerate(names)) + "."
