"""A comparison for people: the verdict, what A and B are, and a table in units; for a terminal or as Markdown."""

import re
import textwrap
from collections.abc import Callable
from typing import Any

from ...console import put, visible
from ..tables import units
from ..tables.units import Column
from ..terminal import table
from .compared import RENAMED_TO, Compared, Row, letter
from .narrowed import titles

_NOT_PLAIN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$@:-])")


def show(compared: Compared, limit: int | None) -> None:
    """Print the verdict, the legend and the table on stdout."""
    for line in compared.verdict:
        _wrapped(line)
    put(f"{compared.measure}{_unit_said(compared)}")
    for number, found in enumerate(compared.inputs):
        _wrapped(f"  {letter(number)}  {found.name}{f'  ({found.about})' if found.about else ''}", indent="     ")
    for note in compared.notes:
        _wrapped(note)
    rows = compared.rows if limit is None else compared.rows[:limit]
    others = [str(row.get(RENAMED_TO) or "") for row in rows]
    renamed = [[_cut(f"-> {visible(compared.labels.get(name, name))}")] if name else [] for name in others]
    made = columns(compared, rows)
    if (hidden := table.print_columns(made, renamed)) > 0:
        named = [column.title for column in made[-hidden:] if column.title]
        if named:
            put(f"no room for {', '.join(named)}: --csv, or a page (-o FILE.html)")
    if left := len(compared.rows) - len(rows):
        put(f"{left} more row{'s' * (left > 1)}: --limit {len(compared.rows)}, or --csv")


def markdown(compared: Compared, limit: int | None) -> str:
    """The same as Markdown, in which nothing of a name is markup."""
    lines = [f"**{_escaped(line)}**" for line in compared.verdict]
    lines += ["", f"{_escaped(compared.measure)}{_unit_said(compared)}", ""]
    lines += [
        f"- {letter(number)}: {_escaped(found.name)} ({_escaped(found.about)})"
        for number, found in enumerate(compared.inputs)
    ]
    lines += [f"- {_escaped(note)}" for note in compared.notes]
    rows = compared.rows if limit is None else compared.rows[:limit]
    made = columns(compared, rows)
    if any(row.get(RENAMED_TO) for row in rows):
        made.append(Column("name in B", [row[RENAMED_TO] or "" for row in rows]))
    lines += ["", "| " + " | ".join(_escaped(column.title) for column in made) + " |"]
    lines += ["|" + "|".join("---:" if column.is_number else "---" for column in made) + "|"]
    cells = [column.cells if column.is_number else list(map(_escaped, column.cells)) for column in made]
    lines += ["| " + " | ".join(row) + " |" for row in zip(*cells, strict=True)]
    if left := len(compared.rows) - len(rows):
        lines += ["", f"{left} more row{'s' * (left > 1)}."]
    return "\n".join(lines)


def as_rows(compared: Compared) -> list[dict[str, str]]:
    """The table as a row of texts for each row, for a page."""
    made = columns(compared, compared.rows)
    return [{column.title or "what": column.cells[n] for column in made} for n in range(len(compared.rows))]


def columns(compared: Compared, rows: list[Row]) -> list[Column]:
    """The table: what a row is, each input's value, changes in units and per cent, shares, what is new, spreads; or
    those of them that were asked for.
    """
    names = compared.names
    others = names[1:]
    formats = _formats(compared, rows)
    title = titles(compared)
    made = {
        key: Column(
            key, [compared.labels.get(row[key], units.text(row[key])) for row in rows], False, units.is_path(key)
        )
        for key in compared.keys
        if key != "unit"
    }
    if compared.ending is None:
        made["unit"] = Column("unit", [unit for unit, _ in formats])
    for name in [*names, *(f"{name} Δ" for name in others)]:
        made[name] = Column(title[name], _cells(rows, formats, name, name not in names), True)
    for name in (f"{name} Δ frac" for name in others):
        made[name] = Column(title[name], [_per_cent(row[name]) for row in rows], True)
    is_pair = len(names) == 2
    for name in (f"{name} Δ share" for name in others):
        if (is_pair and any(row.get(name) is not None for row in rows)) or name in (compared.columns or ()):
            made[name] = Column(title[name], [_per_cent(row.get(name), False) for row in rows], True)
    kinds = [_kinds(row, others, is_pair) for row in rows]
    if any(kinds):  # before the spreads: they go first where there is no room
        made[f"{others[0]} is"] = Column("", kinds)
    for name in (f"{name} spread" for name in names):
        cells = [_spread(row, name.removesuffix(" spread")) for row in rows]
        if any(cells):
            made[name] = Column(title[name], cells, True)
    if compared.columns is None:
        return list(made.values())
    return [
        made.get(name, Column(title.get(name, name), [units.text(row[name]) for row in rows]))
        for name in compared.columns
    ]


_MANY_TIMES = 9  # a growth that per cent do not say any more
Format = tuple[str, Callable[[float | None, bool], str]]


def _formats(compared: Compared, rows: list[Row]) -> list[Format]:
    """The unit of each row, and what prints a number of it: the same for all where all have one unit."""

    def of(ending: str, found: list[Row]) -> Format:
        values = [row[name] for row in found for name in compared.names]
        largest = max((abs(value) for value in values if value is not None), default=0.0)
        factor, unit = units.unit_of(ending, largest)
        if not unit:  # counts and rates are as they are
            decimals = 0 if largest >= 1000 or all(value is None or value == int(value) for value in values) else 1
            return (
                "" if ending == "cnt" else ending,
                lambda n, signed: "" if n is None else (f"{n:{'+' if signed else ''},.{decimals}f}"),
            )
        return unit, lambda n, signed: units.format_number(n, factor, largest, signed)

    if compared.ending is None:
        return [of(row["unit"], [row]) for row in rows]
    return [of(compared.ending, rows)] * len(rows)


def _cells(rows: list[Row], formats: list[Format], column: str, signed: bool) -> list[str]:
    return [put_number(row[column], signed) for row, (_, put_number) in zip(rows, formats, strict=True)]


def _unit_said(compared: Compared) -> str:
    if compared.ending is None:
        return ""
    ((unit, _),) = _formats(compared, compared.rows)[:1]
    return f", {unit}" if unit else ""


def _spread(row: Row, name: str) -> str:
    width, value = row.get(f"{name} spread"), row[name]
    return "" if width is None or not value else f"{width / value * 100:.1f} %"


def _kinds(row: Row, others: list[str], is_pair: bool) -> str:
    said = [(letter(number), row[f"{name} is"]) for number, name in enumerate(others, 1) if row[f"{name} is"]]
    kinds = [kind if is_pair else f"{one} {kind}" for one, kind in said]
    return ", ".join([*(["renamed"] if row.get(RENAMED_TO) else []), *kinds])


def _per_cent(fraction: float | None, signed: bool = True) -> str:
    if not fraction:
        return "" if fraction is None else "0"
    if fraction >= _MANY_TIMES:
        return f"x {fraction + 1:,.0f}"
    return f"{fraction * 100:{'+' if signed else ''},.1f}"


def _cut(line: str) -> str:
    most = table.width() - 4
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _wrapped(line: str, indent: str = "") -> None:
    for piece in textwrap.wrap(
        line, table.width(), subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    ):
        put(piece)


def _escaped(text: Any) -> str:
    """A text of which Markdown takes nothing for markup, a mention or a link."""
    return _NOT_PLAIN.sub(r"\\\1", visible(str(text)))
