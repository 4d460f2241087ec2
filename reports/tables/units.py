"""Values as people read them: columns of numbers with a unit in their title, times in a sentence, texts that fit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from rich.cells import cell_len, set_cell_size

from ...console import visible

# From so much on the largest number of a column has the unit.
_UNITS = {
    "ns": ((1e11, 1e9, "s"), (1e6, 1e6, "ms"), (1.0, 1e3, "us"), (0.0, 1e6, "ms")),
    "bytes": ((2.0**40, 2.0**30, "GiB"), (2.0**20, 2.0**20, "MiB"), (2.0**10, 2.0**10, "KiB"), (0.0, 1.0, "B")),
    "bytes_s": ((0.0, 1e9, "GB/s"),),
    "frac": ((0.0, 0.01, "%"),),
    "hz": ((0.0, 1e6, "MHz"),),
    "flop/s": ((1e12, 1e12, "Tflop/s"), (0.0, 1e9, "Gflop/s")),
}
# Endings of columns that are so much a second, what is left of them in the title, and the unit.
_RATES = {"bandwidth_bytes": ("bandwidth", "bytes_s"), "bytes_s": ("", "bytes_s"), "flop_s": ("", "flop/s")}
_LEAST_EPOCH = 10**18  # nanoseconds: more than 31 years is no length, but a moment since 1970
_LEAST_WRITTEN_OUT, _MOST_WRITTEN_OUT = 1e-3, 1e15  # smaller and larger numbers have an exponent
_PATHS = ("path", "place", "inputs", "database", "file")  # of these the end tells more than the start


@dataclass(frozen=True)
class Column:
    """A column of a table for people: its title, and its cells as texts."""

    title: str
    cells: list[str] = field(default_factory=list)
    is_number: bool = False
    is_path: bool = False


def of_values(name: str, values: Sequence[Any]) -> Column:
    """A column of a view by its name: `kernel_ns` is `kernel ms`, `size_bytes` `size MiB`, `idle_frac` `idle %`."""
    if not all(value is None or is_number(value) for value in values):
        return Column(name, [text(value) for value in values], False, is_path(name))
    what, _, ending = name.rpartition("_")
    for rate, (left, of_rate) in _RATES.items():
        if f"_{name}".endswith(f"_{rate}"):
            what, ending = f"{name.removesuffix(rate)}{left}".rstrip("_"), of_rate
    if ending not in _UNITS:
        return Column(name, [text(value) for value in values], True)
    known = [value for value in values if value is not None]
    if ending == "ns" and known and min(known) >= _LEAST_EPOCH and all(map(isfinite, known)):
        is_fine = len({value // 10**9 for value in known}) < len(set(known))  # several within a second
        return Column(f"{what} UTC", ["" if value is None else _moment(value, is_fine) for value in values], True)
    unit, cells = scaled(ending, values)
    return Column(f"{what} {unit}".lstrip(), cells, True)


def _moment(ns: float, is_fine: bool) -> str:
    """Nanoseconds since 1970 as a date and a time, to the second or microsecond; as they are behind the year 9999."""
    try:
        second = f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d %H:%M:%S}"
        return f"{second}.{int(ns % 10**9) // 1000:06}" if is_fine else second
    except (OverflowError, OSError, ValueError):
        return text(ns)


def scaled(ending: str, values: Sequence[Any], signed: bool = False) -> tuple[str, list[str]]:
    """The unit that fits the largest of the numbers, and all of them in it with the same decimals."""
    numbers = [None if value is None else float(value) for value in values]
    largest = max((abs(n) for n in numbers if n is not None and isfinite(n)), default=0.0)
    factor, unit = unit_of(ending, largest)
    return unit, [format_number(n, factor, largest, signed) for n in numbers]


def unit_of(ending: str, largest: float) -> tuple[float, str]:
    """The factor and the name of the unit for a column whose largest number is given."""
    for least, factor, unit in _UNITS.get(ending, ()):
        if largest >= least:
            return factor, unit
    return 1.0, ""


def format_number(number: float | None, factor: float, largest: float, signed: bool = False) -> str:
    """A number in a unit; the largest of its column says how many decimals it has."""
    if not number:
        return "" if number is None else "0"
    decimals = 0 if factor == 1 else 3 if largest / factor < 10 else 2 if largest / factor < 100 else 1
    decimals = min(decimals, 1) if factor == 0.01 else decimals
    return f"{number / factor:{'+' if signed else ''},.{decimals}f}"


def text(value: Any) -> str:
    """A value as it is, with thousands apart."""
    if value is None:
        return ""
    if isinstance(value, float | Decimal):
        if value and not _LEAST_WRITTEN_OUT <= abs(float(value)) < _MOST_WRITTEN_OUT:
            return f"{value:g}"
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return visible(str(value))


def is_number(value: Any) -> bool:
    """Whether a value belongs to the right."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def is_path(name: str) -> bool:
    """Whether a column of this name has paths."""
    return name.endswith(_PATHS)


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, or all before its point, and no exponent where it is large."""
    return f"{value:,.0f}" if abs(value) >= 10**digits - 0.5 else f"{value:.{digits}g}"


def said_bytes(count: float) -> str:
    """A number of bytes in a sentence, in the largest unit of which it has one."""
    size, unit = next((size, unit) for _, size, unit in _UNITS["bytes"] if count >= size or unit == "B")
    return f"{significant(count / size)} {unit}"


def said_ns(ns: float) -> str:
    """A time in a sentence, in the unit in which it has one to three digits before the point."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:,.1f} {unit}"
    return f"{ns:,.0f} ns"


def keep_begin(line: str, places: int) -> str:
    """A text in at most so many places of a terminal; what does not fit is lost on the right."""
    if cell_len(line) <= places:
        return line
    return set_cell_size(line, places - 1).rstrip() + "…" if places > 0 else ""


def keep_end(line: str, places: int) -> str:
    """A text in at most so many places of a terminal; what does not fit is lost on the left, as of a path."""
    if cell_len(line) <= places:
        return line
    if places < 1:
        return ""
    while cell_len(line) > places - 1:
        line = line[max(1, (cell_len(line) - places + 1) // 2) :]
    return f"…{line}"
