"""The steps of a run directory's timing pass, in which no profiler is attached."""

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import InputError
from ...small_files import read_text
from .noise import LEAST_STEPS, Sample
from .spread import FEW_STEPS, Spread

TIMING = "timing"
# Padding is no work: the same sequences are as many tokens however they are put together.
_RATES = (("tokens_per_s", "non_padding"), ("tokens_per_s", "computed"))
_SAME_WORK = 0.01  # steps of so nearly as many tokens are set side by side


@dataclass(frozen=True)
class Work:
    """What a run's steps train: tokens of a step in the mean, None where not known, and tokens/s, without padding where
    all that are compared say how much there is.
    """

    tokens: float | None
    rate: float

    @classmethod
    def of_all(cls, summaries: Sequence[dict[str, Any]]) -> "list[Work]":
        """What the timing passes of runs measured."""
        is_known = [all(rundir.number_at(summary, *path) for summary in summaries) for path in _RATES]
        path = next((path for path, known in zip(_RATES, is_known, strict=True) if known), _RATES[-1])
        found = []
        for summary in summaries:
            rate, mean_ns = rundir.number_at(summary, *path), rundir.number_at(summary, "step_wall_ns", "mean")
            found.append(cls(None if rate is None or mean_ns is None else rate * mean_ns / 1e9, rate or 0.0))
        return found

    def is_unlike(self, other: "Work") -> bool:
        """Whether a step of the other one trains more or fewer tokens."""
        return bool(self.tokens and other.tokens and abs(other.tokens / self.tokens - 1) > _SAME_WORK)


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
    steps = _steps(path, summary.get("peft_mode") == "process")
    walls = [wall for _, wall in steps]
    if median is None and len(steps) >= LEAST_STEPS and _ended_early(path):
        median = statistics.median(walls)
    if median is None:
        return None
    if len(steps) < 2:
        return Spread(median, median, median, len(steps) or 1)
    low, _, high = statistics.quantiles(walls, n=4, method="inclusive")
    if len(walls) < FEW_STEPS:
        low, high = min(walls), max(walls)
    return Spread(low, median, high, len(walls), samples=tuple(steps)).with_mean()


def _ended_early(path: Path) -> bool:
    """Whether a run was interrupted or failed, and so has steps of which nobody made a summary."""
    return str(rundir.read_manifest(path).get("status", rundir.OK)) != rundir.OK


def by_tokens(path: Path) -> dict[int, list[int]]:
    """How long steps of the timing pass took by how many tokens they had; empty where steps.csv does not say."""
    found: dict[int, list[int]] = defaultdict(list)
    try:
        for row in csv.DictReader(io.StringIO(read_text(path / rundir.STEPS))):
            if row.get("pass") == TIMING and not row.get("rank") and row.get("computed_token_cnt"):
                found[int(row["computed_token_cnt"])].append(int(row["wall_ns"]))
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return {}
    return dict(sorted(found.items()))


def _steps(path: Path, side_by_side: bool) -> list[Sample]:
    """How many tokens each step of the timing pass trained, and how long it took; empty where nothing says.

    Without padding, where that is known: steps of several runs are set side by side by it. A task of several adapters
    has a row for each, which begin at once and last as long.
    """
    tasks: dict[str, dict[tuple[str, str], tuple[int, int]]] = defaultdict(dict)
    try:
        for row in csv.DictReader(io.StringIO(read_text(path / rundir.STEPS))):
            if row.get("pass") == TIMING and not row.get("rank"):
                tokens = int(row.get("token_cnt") or row.get("computed_token_cnt") or 0)
                tasks[row["step"]][row["start_ns"], row["adapter"]] = tokens, int(row["wall_ns"])
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return []
    found: list[Sample] = []
    for rows in tasks.values():
        walls = {begin: wall for (begin, _), (_, wall) in rows.items()}
        wall = max(wall for _, wall in rows.values()) if side_by_side else sum(walls.values())
        found.append((sum(tokens for tokens, _ in rows.values()), float(wall)))
    return found
