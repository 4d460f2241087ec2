"""Values as people read them: with their unit, next to the number behind it."""

import math
from dataclasses import dataclass
from typing import Any

_UNITS = (
    ("_ns", "ms", 1e-6),
    ("_bytes", "MiB", 2**-20),
    ("_frac", "%", 100),
    ("_hz", "MHz", 1e-6),
    ("flop_s", "TFLOP/s", 1e-12),
    ("_per_s", "1/s", 1.0),
    ("_bytes_s", "GB/s", 1e-9),
)
_MOST_DECIMALS = 9
_LONGEST, _WHOLE = 110, 1000  # characters of a text in a table, and of what is shown where the pointer is


@dataclass(frozen=True)
class Cell:
    """What a table shows, the number behind it where there is one, and the whole of a text that was cut.

    name: what the cell chooses, where `whole` is not all of it either.
    """

    text: str
    number: float | None
    whole: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Column:
    """A column's heading, and what its cells choose: a range, kernel, step or rank; or a row's begin and length."""

    title: str
    key: str = ""


def of_rows(rows: list[dict[str, Any]], keys: dict[str, str] | None = None) -> tuple[list[Column], list[list[Cell]]]:
    """Headings with units, and the cells."""
    if not rows:
        return [], []
    return [Column(_title(name), (keys or {}).get(name, "")) for name in rows[0]], [
        [_cell(n, v, n in (keys or {})) for n, v in row.items()] for row in rows
    ]


def shapes(text: str | None) -> str:
    """Shapes of an operator's inputs without those of scalars."""
    return (text or "").replace("[], ", "").replace(", []", "").replace("[],", "").replace(",[]", "").replace(" ", "")


def _unit(name: str) -> tuple[str, str, float] | None:
    return next(((end, unit, factor) for end, unit, factor in _UNITS if name.endswith(end)), None)


def _title(name: str) -> str:
    found = _unit(name)
    if found is None:
        return name.replace("_cnt", "").replace("_", " ") + (" (count)" if name.endswith("_cnt") else "")
    return f"{name.removesuffix(found[0]).replace('_', ' ') or name} ({found[1]})"


def _cell(name: str, value: Any, is_chosen: bool) -> Cell:
    if value is None:
        return Cell("", None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _text(str(value), is_chosen)
    found = _unit(name)
    scaled = value * found[2] if found else value
    is_whole = isinstance(scaled, int) or (scaled == int(scaled) and not found)
    return Cell(f"{scaled:,.0f}" if is_whole else _decimals(scaled), float(scaled))


def _decimals(value: float) -> str:
    """A number with three decimals, a smaller one with as many as it needs for two digits."""
    if not 0 < abs(value) < 0.0995:
        return f"{value:,.3f}"
    return f"{value:.{min(_MOST_DECIMALS, max(3, 1 - math.floor(math.log10(abs(value)))))}f}"


def _text(words: str, is_chosen: bool) -> Cell:
    """A text, of a long one both ends."""
    if len(words) <= _LONGEST:
        return Cell(words, None)
    name = words if is_chosen and len(words) > _WHOLE else None
    return Cell(f"{words[: _LONGEST // 2]}…{words[-_LONGEST // 2 :]}", None, words[:_WHOLE], name)
