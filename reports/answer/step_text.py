"""How many steps there are, what one takes and how far they are apart, in words; `steps` are rows of _answer_step."""

from typing import Any

from ..tables.units import said_ns

_MANY = 20  # from which on the 95th percentile is not just the longest
_UNEVEN = 1.25  # a mean that is so many times the median, or the median so many times the mean, is what counts

Row = dict[str, Any]


def number_of(steps: Row) -> str:
    """How many, and what they are: what nobody named may be layers, too; warm ones where cold ones are left out."""
    count, named = steps["step_cnt"], "step" if steps["is_named"] else "repetition"
    return f"{count} {'warm ' if steps['cold_cnt'] else ''}{named}{'s' if count > 1 else ''}"


def is_uneven(mean: float, median: float) -> bool:
    """Whether the median says little of what steps take: as of a loop that waits in every other one."""
    return mean > _UNEVEN * median or median > _UNEVEN * mean


def says_mean(steps: Row) -> bool:
    """Whether centre_ns() is the mean."""
    return is_uneven(steps["mean_ns"], steps["p50_ns"])


def centre_ns(steps: Row) -> float:
    """What a step takes: the median, of very uneven ones the mean."""
    return float(steps["mean_ns" if says_mean(steps) else "p50_ns"])


def spread(steps: Row) -> str:
    """How far steps are apart: of few, or where the median alone would say that all take as long, the extremes."""
    if steps["step_cnt"] == 1:
        return ""
    if steps["step_cnt"] < _MANY or 2 * steps["min_ns"] < steps["p50_ns"] or says_mean(steps):
        return f"{said_ns(steps['min_ns'])} to {said_ns(steps['max_ns'])}"
    return f"p95 {said_ns(steps['p95_ns'])}"


def late_in(late_cnt: int, step_cnt: int) -> str:
    """In how many of the steps a rank is late."""
    if max(late_cnt, step_cnt) == 1:
        return "1 step"
    return f"{late_cnt} of {step_cnt} steps" if step_cnt > late_cnt else f"all {late_cnt} steps"
