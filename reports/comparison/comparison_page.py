"""The page that sets runs or traces side by side: what each measured, and what changed most, by every kind of row.

Runs are compared by their timing passes. Their profiled passes say what the time went into: the CPU's times of these
are shown on the clock of the timing pass, so that no picture contradicts the verdict.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ... import rundir
from ...analyze.pipeline import analyze
from ...analyze.store.database import Database
from ...progress import Progress
from ..page import figures, html
from ..page.section import Section, section
from . import (
    baselines,
    by_step,
    changes,
    comparisons,
    difference,
    late_ranks,
    one_job,
    recordings,
    runs,
    shown,
    strangers,
    verdict,
    waterfall,
)  # fmt: skip
from .compared import letter
from .comparisons import Comparison
from .run_steps import of_run
from .spread import Spread

_SHOWN = 15
_LEAST_NS = 1  # of a difference: less is that of sums of fractions
# Measures that a profiler slows: those of the GPU's own clock it leaves as they are.
_OF_CPU = ("wall_ns", "self_cpu_ns", "call_ns", "idle_ns")
_TITLES = {
    "range": "Ranges", "operator": "Operators", "kernel": "Kernels", "class": "Kinds of work", "lora": "LoRA",
    "adapter": "Adapters", "api": "API calls", "idle": "Why the GPU was idle", "device": "Devices", "step": "Steps",
    "finding": "Findings", "memory": "Memory at the peak",
}  # fmt: skip


def write(inputs: list[Path], path: Path, progress: Progress) -> None:
    """Write the page for two inputs or more. Raises what analyze() and compare raise."""
    names = runs.names(inputs)
    made, said, cautions = [], [], list[str]()
    if all((folder / rundir.SUMMARY).is_file() for folder in inputs):
        compared = runs.compare(inputs)
        said = compared.verdict
        rows = shown.as_rows(compared)
        text = "Without a profiler, but for the cost of ranges."
        made.append(section("measured", "What the runs measured", text, "summary.json", rows, is_open=True))
    if not all(baselines.is_without_traces(path) for path in inputs):
        sections, told, most, cautions = _of_traces(dict(zip(names, inputs, strict=True)), progress)
        made += sections
        said = (said or told) + most
    if not said:  # neither steps nor timing passes: the sentence of the terminal
        said = changes.compare_inputs(inputs, None, None, None, False, progress).verdict[:1]
    html.write(path, " against ".join([", ".join(names[1:]), names[0]]), f"{_legend(names)} Times and counts are for "
               "each step where every input has steps.", made, verdict=[_sentence(line) for line in said],
               cautions=cautions)  # fmt: skip


def _sentence(line: str) -> str:
    return f"{line[:1].upper()}{line[1:]}."


def _of_traces(inputs: dict[str, Path], progress: Progress) -> tuple[list[Section], list[str], list[str], list[str]]:
    """The sections about the traces, what their steps say where no timing pass does, what most of it comes from, and
    what makes the recordings other than alike.
    """
    with ExitStack() as stack:
        databases = {
            name: stack.enter_context(analyze([baselines.readable(path)], progress=progress))
            for name, path in inputs.items()
        }
        opened = [*databases.values()]
        strange = strangers.of(opened)
        steps = [by_step.of_steps(database) for database in opened]
        clocks = _clocks(list(inputs.values()), opened)
        timed = [of_run(path) for path in inputs.values()]
        is_timed = all(timed)
        alike = [
            number not in strange and verdict.are_comparable((opened[0], database), is_timed)
            for number, database in enumerate(opened)
        ]
        found, most = _differences(opened, timed if is_timed else steps, is_timed, clocks, alike)
        natural = comparisons.natural(opened)
        for by, comparison in sorted(comparisons.COMPARISONS.items(), key=lambda item: item[0] != natural):
            how = comparisons.fitting(comparison, databases)
            if how.view == "step_summary" and clocks:  # of the profiled pass: the timing pass has said it
                continue
            scales = clocks if how.measure in _OF_CPU else []
            rows, left_out = changes.compare(databases, how, scales)
            about = "".join([_clock(how, clocks), *(f" {line}." for line in left_out)])
            found.append(_section(by, how, list(databases), rows, about, _short(by, databases)))
        told = []
        for number in range(1, len(opened)):
            pair = opened[0], opened[number]
            told += verdict.of_recordings(pair, (steps[0], steps[number]), number, (), number in strange)
        told = [*map(strangers.question, strange), *told] if any(steps) else []
        if not one_job.are_ranks(opened):
            most += [line for line in [late_ranks.said(opened)] if line]
        return [made for made in found if made is not None], told, most, recordings.cautions(opened)


def _differences(
    databases: Sequence[Database], steps: Sequence[Spread | None], is_timed: bool, clocks: list[float],
    alike: Sequence[bool],
) -> tuple[list[Section | None], list[str]]:  # fmt: skip
    """From the first input to each other one, and where: pictures of the difference, and what most of it is.

    alike: of each input whether its steps may be set beside those of the first.
    """
    made: list[Section | None] = []
    said = []
    for number in range(1, len(databases)):
        pair = [databases[0], databases[number]]
        one, two = steps[0], steps[number]
        fell = waterfall.of(pair, waterfall.lengths(one, two) if one and two else None, is_timed)
        letters = letter(0), letter(number)
        if fell is not None and fell.parts:
            made.append(_waterfall(fell, letters, bool(one and two), is_timed))
            if one and two and alike[number] and (line := waterfall.said(fell, (one, two), letters, is_timed)):
                said.append(line)
        factors = [clocks[0], clocks[number]] if clocks else [1.0, 1.0]
        made.append(difference.section_of(pair, letters, factors))
    return made, said


def _waterfall(fell: waterfall.Waterfall, letters: tuple[str, str], has_steps: bool, is_timed: bool) -> Section:
    first, second = letters
    rows: list[dict[str, Any]] = [
        {"part": name, f"{first}_ns": a, f"{second}_ns": b, "difference_ns": b - a if abs(b - a) >= _LEAST_NS else 0}
        for name, a, b in fell.parts
    ]
    whole = {
        "part": "all",
        f"{first}_ns": fell.first,
        f"{second}_ns": fell.second,
        "difference_ns": fell.second - fell.first,
    }
    parts = [{"name": row["part"], "ns": row["difference_ns"]} for row in rows if row["difference_ns"]]
    drawn = figures.waterfall({"name": first, "ns": fell.first}, parts, {"name": second, "ns": fell.second})
    what = waterfall.of_what(fell, is_timed).partition(" ")[2] if has_steps else "the recording"
    text = f"The parts of {what} in {first} and {second}; their differences add up to the whole one."
    if has_steps and not fell.is_of_step:
        text += " In one of them at least it is longer than the steps are: what lies between or outside of them counts."
    if fell.is_of_gpu:
        text += " What the GPU does, each moment once, and what it waits for."
        text += " Work as profiled; all else of the step of the timing pass is waiting." if is_timed else ""
    else:
        text += " The phases of the mean step, on the clock of the verdict."
    view = "step_summary"
    if fell.is_of_gpu:
        view = "steady_state" if has_steps else "gpu_timeline_summary, idle_summary"
    return section(f"from-{first}-to-{second}".lower(), f"From {first} to {second}", text, view, [whole, *rows], drawn)


def _clocks(inputs: list[Path], databases: list[Database]) -> list[float]:
    """What makes the mean profiled step of each run its step without a profiler; empty where one has no timing pass."""
    found = []
    for path, database in zip(inputs, databases, strict=True):
        timed, profiled = of_run(path), by_step.of_steps(database)
        if timed is None or profiled is None or not profiled.mean:
            return []
        found.append(timed.median / profiled.mean)
    return found


def _clock(how: Comparison, clocks: list[float]) -> str:
    """On which clock the times are."""
    if not how.measure.endswith("_ns"):
        return ""
    if how.measure in _OF_CPU and clocks:
        factors = ", ".join(f"{letter(number)} x {clock:.2f}" for number, clock in enumerate(clocks))
        return f" Profiled, on the clock of the timing pass ({factors})."
    return " Profiled."


def _short(by: str, databases: dict[str, Database]) -> dict[str, str]:
    """Names that a person can say of kernels."""
    if by != "kernel":
        return {}
    statement = "select kernel_name, short_name from kernel_summary"
    return {long: short for database in databases.values() for long, short in database.rows(statement)}


def _section(
    by: str, how: Comparison, names: list[str], rows: list[dict[str, Any]], about: str, short: dict[str, str]
) -> Section | None:
    """What changed most, first; None where there is nothing in any."""
    _, *rest = rows
    if not any(row[name] for row in rows for name in names):
        return None
    unit, scale = ("MiB", 2**-20) if how.measure.endswith("_bytes") else ("ms", 1e-6)
    kind = f"{by} " if by in ("device", "step") else ""  # which are told by numbers
    bars = [
        {"what": kind + " ".join(short.get(str(row[k]), str(row[k])) for k in how.keys if row[k] is not None), **row}
        for row in rest[:_SHOWN]
    ]
    figure = figures.side_by_side(bars, "what", names, unit, scale) if bars else None
    apart = f" {changes.BACKWARD_IS_APART}" if how.found_in else ""
    text = f"{how.measure} of {how.view}, what changed most first.{apart}{about}"
    scaled = [{_with_unit(k, how, names): v for k, v in row.items()} for row in rows]
    return section(by, _TITLES[by], text, how.view, scaled, figure)


def _with_unit(column: str, how: Comparison, names: list[str]) -> str:
    """Columns of values end in the measure's unit, by which they are shown."""
    end = how.measure.rpartition("_")[2]
    is_value = any(column in (name, f"{name} Δ", f"{name} spread") for name in names)
    return f"{column}_{end}" if is_value else column.replace(" frac", "_frac").replace(" share", " share_frac")


def _legend(names: list[str]) -> str:
    return "; ".join(f"{letter(number)} is {name}" for number, name in enumerate(names)) + "."
