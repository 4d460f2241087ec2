"""Which rows and columns of a comparison are printed: --columns, --sort and --step. (--device is not: see changes.)"""

from dataclasses import replace

from ...errors import UsageError
from ..tables.narrowing import Narrowing, ordered_by, some_of
from .compared import Compared, Row, letter

# What rows are about, of which one can be asked for, and the words of --by whose rows are.
_ONE_OF = {"step": ("step",), "device": ("device", "memory")}


def kind_of(by: str | None, wanted: Narrowing) -> str | None:
    """What is compared where one step or device is asked for. Raises UsageError for rows that are of neither."""
    for name, value in (("step", wanted.step), ("device", wanted.device)):
        if value is None:
            continue
        kinds = _ONE_OF[name]
        by = by or kinds[0]
        if by not in kinds:
            raise UsageError(
                f"--{name}: rows by {by} are of all {name}s; --by {' or '.join(kinds)} has them one by one"
            )
    return by


def narrowed(compared: Compared, wanted: Narrowing) -> Compared:
    """The comparison with these rows and columns of it; the first row, which all rows are part of, stays the first.

    Columns are named as the table has them (A, B, Δ or delta, Δ % or delta %), or as CSV does. Raises UsageError for
    what is not there.
    """
    known = _names(compared)
    what = f"the comparison ({', '.join(titles(compared).values())}; Δ is also delta)"
    first, *rows = compared.rows
    if wanted.step is not None:
        rows = _of_step(rows, wanted.step)
    if wanted.sort is not None:
        rows = _sorted(
            rows, *ordered_by(_raw(wanted.sort, known), list(first), what, lambda name: _is_number(rows, name))
        )
    if wanted.columns is None:
        return replace(compared, rows=[first, *rows])
    asked = replace(wanted, columns=",".join(_raw(name.strip(), known) for name in wanted.columns.split(",")))
    return replace(compared, rows=[first, *rows], columns=asked.chosen(list(first), what))


def titles(compared: Compared) -> dict[str, str]:
    """What a table for people calls the columns that CSV has, in its order."""
    names = compared.names
    is_pair = len(names) == 2

    def of(mark: str, number: int) -> str:
        return mark if is_pair else f"{mark} {letter(number)}"

    found = {key: key for key in compared.keys}
    found |= {name: letter(number) for number, name in enumerate(names)}
    for ending, mark in (("Δ", "Δ"), ("Δ frac", "Δ %"), ("Δ share", "share %"), ("is", "is")):
        found |= {f"{name} {ending}": of(mark, number) for number, name in enumerate(names[1:], 1)}
    return found | {f"{name} spread": f"spread {letter(number)}" for number, name in enumerate(names)}


def _names(compared: Compared) -> dict[str, str]:
    """The column that each title means, also as a keyboard has it."""
    called = {title: name for name, title in titles(compared).items()}
    return called | {title.replace("Δ", "delta"): name for title, name in called.items()}


def _raw(text: str, known: dict[str, str]) -> str:
    """A name of a column, with + or - before it perhaps, as CSV has it."""
    name = text.lstrip("+-")
    return text.removesuffix(name) + known.get(name, name)


def _of_step(rows: list[Row], number: int) -> list[Row]:
    """The rows of one step. Raises UsageError where there are none."""
    found = [row for row in rows if str(row["step"]) == str(number)]
    if not found:
        there = sorted({str(row["step"]) for row in rows}, key=lambda text: (len(text), text))
        raise UsageError(f"--step {number}: there are {some_of(there) or 'none'}")
    return found


def _is_number(rows: list[Row], name: str) -> bool:
    return all(isinstance(row[name], int | float) for row in rows if row[name] is not None)


def _sorted(rows: list[Row], name: str, falls: bool) -> list[Row]:
    """By a column, what has nothing in it last."""
    known = [row for row in rows if row[name] is not None]
    return sorted(known, key=lambda row: row[name], reverse=falls) + [row for row in rows if row[name] is None]
