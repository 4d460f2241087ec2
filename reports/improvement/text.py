"""An improvement for a person: a line for each change in 80 columns, then what came of it."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...collect.improve.candidates import TIME
from ...collect.improve.measured import furthest
from ...collect.improve.rounds import KEPT, Course
from ...collect.improve.shown import Shown
from ...collect.settings import written
from ..tables import units
from ..terminal.screen import WIDTH


@dataclass(frozen=True)
class Fact:
    """Something of the run at the start and at the end."""

    what: str
    start: str
    end: str
    unit: str = ""
    note: str = ""


_CHANGE = 27
_WHY = "      "


def table(rows: Sequence[dict[str, Any]], of_memory: bool = False) -> Iterator[str]:
    """A line for each change: predicted and measured step, error, peak, verdict; below it why.

    of_memory: the peak is what was predicted.
    """
    unit, step = _scaled("ns", rows, "predicted_step_ns", "least_step_ns", "step_ns")
    memory, peak = _scaled("bytes", rows, "predicted_peak_bytes", "peak_bytes")
    heads = [f"step {unit}", f"peak {memory}"]
    first, second = reversed(heads) if of_memory else heads
    yield _line("", "change", f"predicted {first.split()[1]}", first, "error", second, "")
    for row in rows:
        number = "" if row["round"] in (None, 0) else str(row["round"])
        predicted = peak(row["predicted_peak_bytes"]) if of_memory else step(row["predicted_step_ns"])
        if not predicted and not of_memory and row["least_step_ns"] is not None:
            predicted = f">= {step(row['least_step_ns'])}"
        off = row["peak_error_frac" if of_memory else "error_frac"]
        both = [step(row["step_ns"]), peak(row["peak_bytes"])]
        measured, other = reversed(both) if of_memory else both
        yield _line(number, row["change"], predicted, measured, "" if off is None else f"{off:+.1%}", other,
                    row["verdict"] or "")  # fmt: skip
        yield from textwrap.wrap(
            row["why"] or "", WIDTH, initial_indent=_WHY, subsequent_indent=_WHY, break_on_hyphens=False
        )


def _line(number: str, change: str, predicted: str, step: str, error: str, peak: str, verdict: str) -> str:
    what = units.keep_begin(change, _CHANGE)
    return f"{number:>2}  {what:<{_CHANGE}}{predicted:>12}{step:>9}{error:>8}{peak:>9}  {verdict}".rstrip()


def _scaled(ending: str, rows: Sequence[dict[str, Any]], *columns: str) -> Any:
    values = [row[name] for row in rows for name in columns if row[name] is not None]
    largest = max(map(abs, values), default=0.0)
    factor, unit = units.unit_of(ending, largest)
    return unit, lambda value: units.format_number(value, factor, largest)


def ending(course: Course, shown: Shown | None, price_per_hour: float | None) -> Iterator[str]:
    """What came of it: time, memory, tokens, cost, losses, and the command line."""
    start, end = course.start, course.end
    kept = [row.change for row in course.rows if row.verdict == KEPT]
    yield f"{len(kept)} of {course.measured_cnt} changes kept{': ' if kept else ''}{', '.join(kept)}; {course.stopped}"
    if kept:
        for fact in facts(course, price_per_hour):
            unit = f" {fact.unit}" if fact.unit else ""
            yield f"{fact.what} {fact.start} -> {fact.end}{unit}" + (f"; {fact.note}" if fact.note else "")
        adapter, step, apart = furthest(start, end)
        if apart:
            yield f"losses: {adapter} differs most, by {apart:.0e} of its loss in step {step}"
        else:
            yield "losses: the same in every step"
    if shown is not None:
        yield from _shown(shown)
    yield written.command(course.spec)


def facts(course: Course, price_per_hour: float | None) -> Iterator[Fact]:
    """Step, peak, tokens and cost of the start and of the end, which were not measured at the same time."""
    start, end = course.start, course.end
    unit, cells = units.scaled("ns", [start.median_ns, end.median_ns])
    left = course.step_frac
    beside = f"measured side by side {abs(1 - left):.1%} {'shorter' if left < 1 else 'longer'}"
    yield Fact("step", cells[0], cells[1], unit, beside if course.goal == TIME else "")
    if start.peak_bytes and end.peak_bytes:
        unit, cells = units.scaled("bytes", [start.peak_bytes, end.peak_bytes])
        yield Fact("peak memory", cells[0], cells[1], unit)
    if start.token_per_s and end.token_per_s:
        yield Fact("tokens", f"{start.token_per_s:,.0f}", f"{end.token_per_s:,.0f}", "/s", "at the median step")
        if price_per_hour is not None:
            before, after = (cost(price_per_hour, rate) for rate in (start.token_per_s, end.token_per_s))
            yield Fact("cost of a million tokens", units.significant(before, 4), units.significant(after, 4))


def cost(price_per_hour: float, token_per_s: float) -> float:
    """What a million tokens cost."""
    return price_per_hour / 3600 / token_per_s * 1e6


def _shown(shown: Shown) -> Iterator[str]:
    if shown.fit_cnt is not None:
        yield f"{shown.fit_cnt:,} adapters fit, by prediction"
    if shown.measured is None or shown.measured.peak_bytes is None:
        yield f"{shown.what}: {shown.why}"
        return
    unit, cells = units.scaled("bytes", [shown.predicted_bytes, shown.measured.peak_bytes])
    yield f"{shown.what}: peak predicted {cells[0]}, measured {cells[1]} {unit} ({shown.error_frac:+.1%})"
