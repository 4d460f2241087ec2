"""Which rows and columns of a comparison are printed: --columns, --sort, --step and --device."""

import re
from dataclasses import replace
from typing import Any

from ...errors import UsageError
from .compared import Compared, Row, letter

# What rows are about, of which one can be asked for, the option, and the words of --by whose rows are.
_ONE_OF = {"step": ("--step", ("step",)), "device": ("--device", ("device", "memory"))}


def kind_of(by: str | None, step: int | None, device: int | None) -> str | None:
    """What is compared where one step or device is asked for. Raises UsageError for rows that are of neither."""
    for name, value in (("step", step), ("device", device)):
        if value is None:
            continue
        option, kinds = _ONE_OF[name]
        by = by or kinds[0]
        if by not in kinds:
            raise UsageError(
                f"{option}: rows by {by} are of all {name}s; --by {' or '.join(kinds)} has them one by one"
            )
    return by


def narrowed(
    compared: Compared, columns: str | None, sort: str | None, step: int | None = None, device: int | None = None
) -> Compared:
    """The comparison with these rows and columns of it; the first row, which all rows are part of, stays the first.

    Columns are named as the table has them (A, B, Δ or delta, Δ % or delta %), or as CSV does. Raises UsageError for
    what is not there.
    """
    known, said = _names(compared), [title for title in titles(compared).values() if title]
    first, *rows = compared.rows
    if step is not None:
        rows = _only(rows, "step", step)
    if device is not None:
        rows = _only(rows, "device_id" if "device_id" in compared.keys else "device", device)
    if sort is not None:
        rows = _sorted(rows, _found(sort.lstrip("+-"), known, "--sort", said), sort[:1])
    shown = None if columns is None else [_found(name.strip(), known, "--columns", said) for name in columns.split(",")]
    if shown is not None and (twice := sorted({name for name in shown if shown.count(name) > 1})):
        raise UsageError(f"--columns names {', '.join(twice)} twice")
    return replace(compared, rows=[first, *rows], columns=shown)


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
    """The column that each name means, also those that a keyboard has."""
    called = {title: name for name, title in titles(compared).items()}
    called |= {title.replace("Δ", "delta"): name for title, name in called.items()}
    return called | {name: name for name in compared.rows[0]}


def _found(name: str, known: dict[str, str], option: str, said: list[str]) -> str:
    if name not in known:
        raise UsageError(f"{option} {name}: the columns are {', '.join(said)} (Δ is also delta), or as --csv has them")
    return known[name]


def _only(rows: list[Row], column: str, number: int) -> list[Row]:
    """The rows of one step or device: 0 is 0, and cuda:0. Raises UsageError where there are none."""
    wanted = re.compile(rf"(^|\D){number}$")
    found = [row for row in rows if wanted.search(str(row[column]))]
    if not found:
        option = f"--{column.removesuffix('_id')}"
        there = sorted({str(row[column]) for row in rows}, key=lambda text: (len(text), text))
        named = ", ".join(there[:10]) + (f", … ({len(there)})" if len(there) > 10 else "")
        raise UsageError(f"{option} {number}: there are {named or 'none'}")
    return found


def _sorted(rows: list[Row], name: str, sign: str) -> list[Row]:
    """By a column: numbers from the largest, with + before its name the smallest; texts the other way round."""
    known = [row for row in rows if row.get(name) is not None]
    is_number = all(isinstance(row[name], int | float) for row in known)
    falls = sign == "-" or (sign != "+" and is_number)

    def value(row: Row) -> Any:
        return row[name] if is_number else str(row[name])

    return sorted(known, key=value, reverse=falls) + [row for row in rows if row.get(name) is None]
