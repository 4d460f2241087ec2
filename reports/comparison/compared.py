"""What a comparison finds: a verdict, rows of raw numbers, and what is needed to print them for people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import spread

RENAMED_TO = "renamed_to"  # the column with a kernel's name in the second trace
# What columns are called that are no input's, whatever is compared.
TAKEN = frozenset(
    {"path", "operator", "kernel_name", "class", "module", "part", "direction", "adapter", "api_name", "cause",
     "device_id", "step", "rule", "place", "device", "category", "measure", "unit", "renamed_to"}
)  # fmt: skip
NEW, GONE, SAME, OTHER_WORK, NOT_MEASURED = "new", "gone", "no difference", "other work", "not measured"
FEW = "in few steps"  # the mean alone changed, by more than steps vary (spread.is_of_few_steps)
MIX = "other steps"  # there are more or fewer steps that only evaluate (spread.is_of_other_steps)
ALIKE = (SAME, FEW, MIX)  # what steps that do the same have of it is the same
_NEAR_ZERO = 1e-3  # of the column's total: what grew tenfold from less has a difference and no fraction

Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What is compared: the word of --by, the view, its column, and whether values are for each step."""

    by: str
    view: str
    measure: str
    is_per_step: bool


@dataclass(frozen=True)
class Input:
    """One of the inputs: the name of its columns, and what is said of it below the verdict."""

    name: str
    about: str = ""


@dataclass(frozen=True)
class Compared:
    """The rows, the first of them the total where the rows are of a view."""

    inputs: list[Input]
    keys: list[str]
    rows: list[Row]
    verdict: list[str]
    measure: str  # in words, with the column and the view
    ending: str | None  # the unit of all rows as names of columns have it; None where each row has its own
    notes: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)  # what people are shown in the place of a key
    steps: Sequence[spread.Spread | None] = ()  # of each input, where they are known
    has_cold: bool = False  # whether cold steps count in the values
    columns: Sequence[str] | None = None  # those that were asked for, None for all

    @property
    def names(self) -> list[str]:
        """The columns of values."""
        return [found.name for found in self.inputs]


def outermost(paths: Iterable[str]) -> set[str]:
    """Of name paths those that are in no other of them."""
    known = set(paths)

    def is_inner(path: str) -> bool:
        parts = path.split("/")
        return any("/".join(parts[:count]) in known for count in range(1, len(parts)))

    return {path for path in known if not is_inner(path)}


def letter(number: int) -> str:
    """What an input is called for short: A, B, C."""
    return chr(ord("A") + number) if number < 26 else f"N{number + 1}"


def changes_of(
    names: Sequence[str],
    values: Sequence[float | None],
    widths: Sequence[float | None],
    base: float = 0.0,
    changed: Sequence[float] = (),
    alike: Sequence[str] = (),
    is_measure: bool = False,
) -> Row:
    """The columns of values of a row, each behind the first with its change.

    base: the total of the first, against which a value is near zero. changed: how much changed in all, of which the
    row is a share. alike: of each but the first, if its change is noise, which of ALIKE is said, else "". is_measure:
    None is what was not measured, instead of what is not there.
    """
    first = values[0]
    row: Row = {names[0]: _rounded(first), f"{names[0]} spread": _rounded(widths[0])}
    for number, (name, value, width) in enumerate(zip(names[1:], values[1:], widths[1:], strict=True)):
        change = (value or 0.0) - (first or 0.0)
        is_near_zero = abs(first or 0.0) < _NEAR_ZERO * abs(base) and abs(value or 0.0) > 10 * abs(first or 0.0)
        whole = changed[number] if changed else 0.0
        is_unknown = is_measure and (first is None) != (value is None)
        row[name] = _rounded(value)
        row[f"{name} spread"] = _rounded(width)
        row[f"{name} Δ"] = None if is_unknown else _rounded(change)
        row[f"{name} Δ frac"] = None if not first or value is None or is_near_zero else round(value / first - 1, 6)
        row[f"{name} Δ share"] = round(abs(change) / whole, 6) if whole else None
        kind = _kind(first, value, alike[number] if change and alike else "")
        row[f"{name} is"] = NOT_MEASURED if is_unknown else kind
    return row


def _kind(first: float | None, value: float | None, likeness: str) -> str:
    if not first and not value:
        return ""
    if not first:
        return NEW
    if not value:
        return GONE
    return likeness


def _rounded(value: float | None) -> float | None:
    """To a tenth of a nanosecond or a byte; fractions, and what else is small, to a millionth."""
    return None if value is None else round(value, 1 if abs(value) >= 10 else 6)
