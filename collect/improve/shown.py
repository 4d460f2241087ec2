"""What a lower peak is good for, shown by a run: more adapters in the same memory, or sequences twice as long."""

import dataclasses
from dataclasses import dataclass

from ...errors import UsageError
from ..settings.spec import RunSpec
from .candidates import ADAPTERS, MEMORY
from .measured import Failure, Measured
from .memory_model import Peak, with_adapters, with_longer
from .rounds import Course, Laboratory

_LONGER = 2
_MOST = 4  # times as many adapters are run: what fits may be thousands


@dataclass(frozen=True)
class Shown:
    """A run of the winning settings with more in it: predicted and measured peak."""

    what: str
    spec: RunSpec | None = None
    predicted_bytes: float | None = None
    measured: Measured | None = None
    why: str = ""  # it was not measured
    fit_cnt: int | None = None  # adapters that fit into the peak of the start, by prediction

    @property
    def error_frac(self) -> float | None:
        """How far the prediction was off, as a part of what was measured."""
        if self.measured is None or not self.measured.peak_bytes or self.predicted_bytes is None:
            return None
        return self.predicted_bytes / self.measured.peak_bytes - 1


def show(course: Course, goal: str, peak: Peak | None, lab: Laboratory, limit_bytes: float | None) -> Shown | None:
    """The run that shows what the memory is good for; None where time is the goal.

    `limit_bytes` is what there is of memory, by default as much as the start took.
    """
    if goal not in (MEMORY, ADAPTERS):
        return None
    if peak is None:
        return Shown("more in the same memory", why="no memory was recorded")
    try:
        planned = _longer(course, peak) if goal == MEMORY else _more_adapters(course, peak, limit_bytes)
    except UsageError as error:
        return Shown("more in the same memory", why=str(error))
    if planned.spec is None or lab.is_spent():
        return planned if planned.spec is None else dataclasses.replace(planned, why="--budget is spent")
    found = lab.measure(planned.spec, "99-shown")
    if isinstance(found, Failure):
        return dataclasses.replace(planned, why=found.message)
    return dataclasses.replace(planned, measured=found)


def _longer(course: Course, peak: Peak) -> Shown:
    spec = dataclasses.replace(course.spec, seq_len=_LONGER * course.spec.seq_len)
    return Shown(f"sequences of {spec.seq_len} tokens", spec, with_longer(peak, _LONGER))


def _more_adapters(course: Course, peak: Peak, limit_bytes: float | None) -> Shown:
    limit, count = limit_bytes or course.start.peak_bytes or 0, course.spec.lora_cnt
    if not course.spec.has_adapters:
        return Shown("more adapters", why="full fine-tuning has none")
    each = with_adapters(peak, course.spec, count + 1) - peak.total
    fit = count + int((limit - peak.total) // each) if each > 0 and limit > peak.total else count
    if fit <= count:
        return Shown("more adapters", why="the peak is not below that of the start", fit_cnt=fit)
    tried = min(fit, _MOST * count)
    spec = dataclasses.replace(course.spec, lora_cnt=tried)
    return Shown(f"{tried} adapters", spec, with_adapters(peak, course.spec, tried), fit_cnt=fit)
