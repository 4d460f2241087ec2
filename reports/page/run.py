"""What a run directory measured without a profiler, which its page quotes before what the profiled pass shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import InputError


@dataclass(frozen=True)
class Run:
    """The timing pass of a run: its steps, tokens and memory, None where not measured."""

    name: str
    step_ns: float
    p95_ns: float | None
    step_cnt: int | None
    token_per_s: float | None
    peak_bytes: float | None


def of(inputs: list[Path]) -> Run | None:
    """The run that the one input is; None for anything else, and for a run without a timing pass."""
    if len(inputs) != 1 or not (inputs[0] / rundir.SUMMARY).is_file():
        return None
    try:
        summary = rundir.read_summary(inputs[0])
    except InputError:
        return None
    step = _number(summary, "step_wall_ns", "p50")
    if step is None:
        return None
    return Run(
        inputs[0].resolve().name, step, _number(summary, "step_wall_ns", "p95"), _count(_number(summary, "step_cnt")),
        _number(summary, "tokens_per_s", "computed"), _number(summary, "memory", "steps", "peak_allocated_bytes"),
    )  # fmt: skip


def _number(summary: Any, *path: str) -> float | None:
    for key in path:
        summary = summary.get(key) if isinstance(summary, dict) else None
    return summary if isinstance(summary, int | float) and not isinstance(summary, bool) else None


def _count(value: float | None) -> int | None:
    return None if value is None else int(value)
