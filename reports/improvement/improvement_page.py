"""The page of an improvement: what was changed, predicted and measured, losses side by side, start against end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...collect.improve.rounds import KEPT, Course
from ...collect.improve.shown import Shown
from ...collect.settings import written
from ..page import figures, html
from ..page.section import Section, section
from . import text

RESULTS = "improve.csv"
_TABLE = (
    "round", "change", "predicted_step_ns", "least_step_ns", "step_ns", "error_frac", "predicted_peak_bytes",
    "peak_bytes", "peak_error_frac", "token_per_s", "loss_apart_frac", "verdict", "why", "options",
)  # fmt: skip


def write(
    path: Path, title: str, course: Course, rows: Sequence[dict[str, Any]], shown: Shown | None,
    price_per_hour: float | None,
) -> None:  # fmt: skip
    """Write the page. Raises OutputError when it cannot be written."""
    said = [f"{line[:1].upper()}{line[1:]}." for line in text.ending(course, shown, price_per_hour)]
    facts = list(text.facts(course, price_per_hour)) if course.end is not course.start else []
    cards = [
        {"what": fact.what, "value": f"{fact.start} → {fact.end} {fact.unit}", "note": fact.note} for fact in facts
    ]
    verdict = [said[0], *said[1 + len(facts) : -1]]
    sections = [
        section(
            "changes", "Changes", "The median step without a profiler, predicted from that of what it replaces, which "
            "is measured again beside it. A gain within the spread of the steps is dropped.", RESULTS,
            [{name: row[name] for name in _TABLE} for row in rows], _steps(rows), is_open=True,
        ),
        *_losses(course),
        section(
            "settings", "Settings", "Of the start and of the end, where they differ from the defaults.", "run.toml",
            _settings(course),
        ),
    ]  # fmt: skip
    html.write(path, title, "Each change was measured on the same seeded work.", sections, cards, verdict=verdict)


def _steps(rows: Sequence[dict[str, Any]]) -> Any:
    bars = [{"change": row["change"], "predicted": row["predicted_step_ns"], "measured": row["step_ns"]}
            for row in rows if row["step_ns"] is not None]  # fmt: skip
    return figures.side_by_side(bars, "change", ["predicted", "measured"], "ms", 1e-6)


def _losses(course: Course) -> list[Section]:
    """The last loss of each adapter, in the start and behind each change that was measured."""
    measured = [row for row in course.rows if row.measured is not None]
    if not measured or not course.start.losses:
        return []
    rows = []
    for adapter, losses in course.start.losses.items():
        row: dict[str, Any] = {"adapter": adapter, "start": losses[-1]}
        for other in measured:
            assert other.measured is not None
            found = other.measured.losses.get(adapter)
            row[f"{other.round} {other.change}"] = found[-1] if found else None
        rows.append(row)
    note = "The last measured step's. What differs by more than the type's tolerance is another training."
    return [section("losses", "Loss of each adapter", note, "steps.csv", rows)]


def _settings(course: Course) -> list[dict[str, Any]]:
    before, after = written.given(course.start_spec), written.given(course.spec)
    every = course.start_spec.as_dict(), course.spec.as_dict()
    return [
        {"setting": name, "start": _word(every[0][name]), "end": _word(every[1][name]),
         "changed by": next((row.change for row in course.rows if row.verdict == KEPT and name in row.settings), "")}
        for name in every[0] if name in before or name in after
    ]  # fmt: skip


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
