"""What a run directory measured without a profiler, which its page quotes before what the profiled pass shows."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ... import rundir
from ...errors import InputError


@dataclass(frozen=True)
class Run:
    """The timing pass of a run: its steps, tokens and memory, None where not measured."""

    name: str
    step_ns: float  # the median
    mean_ns: float
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
    number = partial(rundir.number_at, summary)
    step = number(*rundir.STEP_MEDIAN)
    if step is None:
        return None
    return Run(
        inputs[0].resolve().name, step, number(*rundir.STEP_MEAN) or step, number("step_wall_ns", "p95"),
        _count(number("step_cnt")), number("tokens_per_s", "computed"),
        number("memory", "steps", "peak_allocated_bytes"),
    )  # fmt: skip


def _count(value: float | None) -> int | None:
    return None if value is None else int(value)
