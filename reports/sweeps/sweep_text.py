"""A sweep for a person in a terminal: a row for each run, and which is fastest, or needs least memory."""

from collections.abc import Iterator
from typing import Any

from ... import rundir
from ...console import put_lines
from ..tables import units
from ..terminal import table
from ..terminal.screen import wrapped
from . import results as sweeps

Row = dict[str, Any]
_SHOWN = ("step_ns", "step_spread_frac", "token_per_s", "mfu_frac", "validation_accuracy_frac")
# Of the peaks the first that is known: what torch holds on a GPU, what the process does without one.
_PEAKS = ("peak_allocated_bytes", "peak_resident_bytes")
_AS_LOW = 1.01
_NAMED = 4  # runs that are as fast as the fastest: more are counted


def show(rows: list[Row], is_of_memory: bool = False, searched: str | None = None) -> None:
    """Print what was measured of each run, and the fastest; of a sweep of memory the one with the lowest peak.

    searched: the axis along which the largest value that fits was looked for (--until-oom), which is said first.
    """
    axes = sweeps.axes_of(rows[0])
    peak = next((name for name in _PEAKS if any(row[name] for row in rows)), None)
    status = ["status"] if any(row["status"] != "ok" for row in rows) or not axes else []
    measured = [name for name in (*_SHOWN, *([peak] if peak else [])) if any(row[name] is not None for row in rows)]
    # a thousandth of a token is nothing that was measured
    whole = [row | {"token_per_s": row["token_per_s"] and round(row["token_per_s"])} for row in rows]
    table.show(whole, [*axes, *status, *measured], sweeps.RESULTS)
    found = [*_fitting(rows, searched), *(_lowest(rows, peak) if is_of_memory else _fastest(rows))]
    if said := "\n".join(wrapped(found)):
        put_lines(said)


def _fitting(rows: list[Row], searched: str | None) -> Iterator[str]:
    """The largest value that fits, of each combination of the other axes."""
    if searched is None:
        return
    others = [axis for axis in sweeps.axes_of(rows[0]) if axis != searched]
    of_each: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        of_each.setdefault(tuple(row[axis] for axis in others), []).append(row)
    for values, own in of_each.items():
        of = "".join(f", {axis} {value}" for axis, value in zip(others, values, strict=True))
        fits = [int(row[searched]) for row in own if row["status"] == rundir.OK]
        too_large = [int(row[searched]) for row in own if row["status"] == rundir.OOM]
        until = f"memory ran out at {min(too_large):,}" if too_large else "memory did not run out, so more may fit"
        yield f"most that fits: {searched} {max(fits):,}{of}; {until}" if fits else f"nothing fits{of}; {until}"


def _lowest(rows: list[Row], peak: str | None) -> Iterator[str]:
    """The run with the lowest peak, and those within a hundredth of it."""
    measured = sorted(
        (row for row in sweeps.ended_well(rows) if peak and row[peak]), key=lambda row: float(row[str(peak)])
    )
    if len(measured) < 2:
        return
    first, *others = measured
    least = float(first[str(peak)])
    unit, (value, largest) = units.scaled("bytes", [least, others[-1][str(peak)]])
    highest = f"the highest: {sweeps.words(others[-1])}, {largest} {unit}"
    yield f"lowest peak: {sweeps.words(first)}, {value} {unit}; {highest}"
    if alike := [row for row in others if float(row[str(peak)]) <= least * _AS_LOW]:
        yield f"as low, within a hundredth: {_named(alike)}"


def _named(rows: list[Row]) -> str:
    more = f"; {len(rows) - _NAMED} more" if rows[_NAMED:] else ""
    return "; ".join(map(sweeps.words, rows[:_NAMED])) + more


def _fastest(rows: list[Row]) -> Iterator[str]:
    if len(rows) < 2 or (found := sweeps.fastest(rows)) is None:
        return
    first, alike = found
    line = f"most tokens: {sweeps.words(first)}, {first['token_per_s']:,.0f} /s"
    if first["step_error_frac"] is None:
        line += "; too few steps to say by how much they differ among themselves (--steps 20)"
    yield line
    if alike:
        yield f"as fast, as far as the steps tell: {_named(alike)} (longer runs tell more: --steps)"
