"""What a finished run measured, as far as runs are judged by it, and whether two runs did the same work."""

import csv
import io
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import InputError
from ...small_files import read_text
from ..settings import dtypes

# How far losses of the same work may be apart, as a part of the loss: sums in another order, carried on by the steps.
TOLERANCES = {"float32": 1e-3, "bfloat16": 2e-2, "float16": 2e-2}
_PEAKS = ("peak_allocated_bytes", "peak_resident_bytes")  # by torch's allocator on a GPU, else of the process


@dataclass(frozen=True)
class Failure:
    """A run that did not end well."""

    status: str
    message: str


@dataclass(frozen=True)
class Measured:
    """Quartiles of the steps without a profiler, the peak of memory, tokens and losses.

    Behind several workers the quartiles are those of means of `mean_of` steps in a row (see means()).
    """

    low_ns: float
    median_ns: float
    high_ns: float
    step_cnt: int
    peak_bytes: float | None = None
    token_per_s: float | None = None
    dtype: str = "float32"
    tokens: dict[str, int] = field(default_factory=dict)  # of each adapter in all measured steps
    losses: dict[str, tuple[float, ...]] = field(default_factory=dict)  # of each adapter by step
    wall_s: float = 0.0  # of the whole pass, with what comes before the first step
    mean_of: int = 1

    @property
    def width_ns(self) -> float:
        """The distance between the quartiles of single steps: that of means of n is smaller by the root of n."""
        return (self.high_ns - self.low_ns) * math.sqrt(self.mean_of)


def of_run(run: Path) -> Measured | Failure:
    """What a run directory measured in its timing pass. Raises InputError where it is no run of collect."""
    manifest, summary = rundir.read_manifest(run), rundir.read_summary(run)
    if manifest["status"] != rundir.OK:
        return Failure(manifest["status"], str(manifest["message"]))
    rows = timing(run)
    steps = _walls(rows, summary.get("peft_mode") == "process")
    mean_of = max(1, min(int(manifest["spec"].get("loader_workers", 0)), len(steps) // 2))
    walls = means(steps, mean_of)
    if len(walls) < 2:
        raise InputError(f"{run} has no steps of a timing pass that can be compared")
    low, median, high = statistics.quantiles(walls, n=4, method="inclusive")
    memory = (summary.get("memory") or {}).get("steps") or {}
    tokens = _sums(rows, "token_cnt")
    rate = sum(tokens.values()) / len(steps) / median * 1e9  # at the median step, as the time beside it
    wall_s = (summary.get("pass_wall_s") or {}).get("timing") or 0.0
    return Measured(
        low, median, high, len(steps), next((memory[name] for name in _PEAKS if memory.get(name)), None),
        rate or None, dtype_of(manifest["spec"], summary), tokens, _losses(rows), wall_s, mean_of,
    )  # fmt: skip


def fastest_task(run: Path) -> float:
    """The fastest task of a run's timing pass: a step of all adapters, or of one where they take turns."""
    return min((float(row["wall_ns"]) for row in timing(run)), default=0.0)


def dtype_of(spec: dict[str, Any], summary: dict[str, Any]) -> str:
    """The type that products with the base are computed in, of a run as its directory has it."""
    device_type = (summary.get("device") or {}).get("type", "cpu")
    return dtypes.of_products(str(spec["dtype"]), str(spec.get("autocast", "none")), str(device_type))


def difference(before: Measured, after: Measured) -> str:
    """What of the work of two runs differs; empty if nothing does."""
    if before.tokens != after.tokens or before.step_cnt != after.step_cnt:
        return "other tokens or updates were computed"
    noted = [{adapter: len(losses) for adapter, losses in run.losses.items()} for run in (before, after)]
    if noted[0] != noted[1]:
        return "losses of other adapters or steps were noted"
    tolerance = max(TOLERANCES[run.dtype] for run in (before, after))
    adapter, step, apart = furthest(before, after)
    if apart > tolerance:
        return f"another loss: {adapter} is {apart:.1e} off in step {step}, {tolerance:.0e} is allowed"
    return ""


def furthest(before: Measured, after: Measured) -> tuple[str, int, float]:
    """The adapter and the step whose losses are furthest apart, and how far as a part of the loss; both have those."""
    worst = ("", 0, 0.0)
    for adapter, losses in before.losses.items():
        for step, (one, other) in enumerate(zip(losses, after.losses[adapter], strict=True)):
            apart = abs(one - other) / max(abs(one), abs(other), 1e-12)
            apart = math.inf if math.isnan(apart) else apart
            if apart > worst[2]:
                worst = (adapter, step, apart)
    return worst


def timing(run: Path) -> list[dict[str, str]]:
    """The rows of steps.csv without a profiler. Raises InputError where it cannot be read."""
    try:
        rows = list(csv.DictReader(io.StringIO(read_text(run / rundir.STEPS))))
        return [row for row in rows if row["pass"] == "timing" and not row.get("rank")]
    except (OSError, KeyError, csv.Error) as error:
        raise InputError(f"cannot read {run / rundir.STEPS}: {error}") from error


def _walls(rows: list[dict[str, str]], side_by_side: bool) -> list[float]:
    """How long each step of all adapters took: the sum of its tasks, or of processes side by side the longest."""
    tasks: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for row in rows:  # a task of several adapters has a row for each
        tasks[row["step"]][row["start_ns"], row["adapter"] if side_by_side else ""] = int(row["wall_ns"])
    return [max(walls.values()) if side_by_side else sum(walls.values()) for walls in tasks.values()]


def means(walls: list[float], workers: int) -> list[float]:
    """Steps as means of so many in a row: behind slow workers one of them waits for all, and the others for none."""
    if workers < 2:
        return walls
    return [statistics.fmean(walls[first : first + workers]) for first in range(len(walls) - workers + 1)]


def _sums(rows: list[dict[str, str]], column: str) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for row in rows:
        found[row["adapter"]] += int(row[column] or 0)
    return dict(found)


def _losses(rows: list[dict[str, str]]) -> dict[str, tuple[float, ...]]:
    found: dict[str, list[float]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row["step"])):
        if row["loss"]:
            found[row["adapter"]].append(float(row["loss"]))
    return {adapter: tuple(losses) for adapter, losses in found.items()}
