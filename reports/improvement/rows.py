"""An improvement as rows of raw numbers: the start, then each change."""

from typing import Any

from ...collect.improve.measured import Measured, furthest
from ...collect.improve.rounds import Course, Row
from ...collect.settings import written

START = "(start)"
COLUMNS = (
    "round", "change", "options", "alters", "predicted_step_ns", "least_step_ns", "step_ns", "step_low_ns",
    "step_high_ns", "error_frac", "predicted_peak_bytes", "peak_bytes", "peak_error_frac", "token_per_s",
    "loss_apart_frac", "verdict", "why", "folder",
)  # fmt: skip


def of_course(course: Course) -> list[dict[str, Any]]:
    """A row for the start and for each change that was measured, refused or left."""
    return [of_start(course.start), *(of_row(row, course.start) for row in course.rows)]


def of_start(start: Measured) -> dict[str, Any]:
    """What changes are measured against."""
    return dict.fromkeys(COLUMNS) | {"round": 0, "change": START} | _measured(start)


def of_row(row: Row, start: Measured) -> dict[str, Any]:
    """One change."""
    made = dict.fromkeys(COLUMNS) | {
        "round": row.round, "change": row.change, "options": written.options(row.settings), "alters": row.alters,
        "predicted_step_ns": row.predicted_step_ns,
        "least_step_ns": row.bound_step_ns,
        "error_frac": row.error_frac,
        "predicted_peak_bytes": row.predicted_peak_bytes, "peak_error_frac": row.peak_error_frac,
        "verdict": row.verdict, "why": row.why, "folder": row.folder,
    }  # fmt: skip
    if row.measured is not None:
        made |= _measured(row.measured) | {"loss_apart_frac": furthest(start, row.measured)[2]}
    return made


def _measured(measured: Measured) -> dict[str, Any]:
    return {
        "step_ns": measured.median_ns, "step_low_ns": measured.low_ns, "step_high_ns": measured.high_ns,
        "peak_bytes": measured.peak_bytes, "token_per_s": measured.token_per_s,
    }  # fmt: skip
