"""The steps of a run directory's timing pass, in which no profiler is attached."""

import csv
import io
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import InputError
from ...small_files import read_text
from .spread import FEW_STEPS, Spread

TIMING = "timing"


def of_run(path: Path) -> Spread | None:
    """The quartiles of the steps of a run directory's timing pass; None for anything else and where it has none."""
    if not (path / rundir.SUMMARY).is_file():
        return None
    try:
        return of_summary(path, rundir.read_summary(path))
    except InputError:
        return None


def of_summary(path: Path, summary: dict[str, Any]) -> Spread | None:
    """The same for a summary that was read. Its own median counts; steps.csv says how they spread."""
    median = rundir.number_at(summary, *rundir.STEP_MEDIAN)
    if median is None:
        return None
    walls = _walls(path, summary.get("peft_mode") == "process")
    if len(walls) < 2:
        return Spread(median, median, median, len(walls) or 1)
    low, _, high = statistics.quantiles(walls, n=4, method="inclusive")
    if len(walls) < FEW_STEPS:
        low, high = min(walls), max(walls)
    return Spread(low, median, high, len(walls))


def _walls(path: Path, side_by_side: bool) -> list[int]:
    """How long each step of the timing pass took; empty where steps.csv does not say."""
    tasks: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    try:
        for row in csv.DictReader(io.StringIO(read_text(path / rundir.STEPS))):
            if row.get("pass") == TIMING and not row.get("rank"):  # a task of several adapters has a row for each
                adapter = row["adapter"] if side_by_side else ""
                tasks[row["step"]][row["start_ns"], adapter] = int(row["wall_ns"])
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return []
    return [max(walls.values()) if side_by_side else sum(walls.values()) for walls in tasks.values()]
