"""A section of a page: a picture, its table and the view behind both; and the input that is asked."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...analyze.store.database import Database
from ...errors import CorruptInputError
from ...sql import quoted
from ..tables import sources
from ..tables.units import said_ns
from .cells import Cell, Column, of_rows
from .window import Window

_ROW_LIMIT = 100


@dataclass(frozen=True)
class Section:
    """A picture with its table and the view behind it."""

    name: str
    title: str
    text: str
    view: str
    figure: Any = None
    columns: list[Column] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    left_out: int = 0
    is_open: bool = False
    kind: str = "chart"  # 'chart', 'flame', 'timeline' or 'blocks': who draws the figure
    told: str = ""  # what the figure shows, for who does not see it
    legend: tuple[str, ...] = ()  # the kinds whose colours it has
    follows: tuple[str, ...] = ()  # what is chosen of time, range, kernel, step and rank and filters the picture
    rows_are: str = ""  # how the table's rows are other than those of the view: which are left out, or added up
    added_up: str = ""  # 'kernel' or 'class': the table of a choice is added up of what the timeline has


class Source:
    """The one input that a page shows."""

    def __init__(self, database: Database, source_id: int, window: Window | None = None):
        self.database, self.source_id = database, source_id
        self.window = window  # of the timeline; None is all
        ((self.name, self.kind, self.rank),) = database.rows(
            f"select name, kind, rank from source where source_id = {source_id}"
        )
        self.problems: list[str] = []  # why queries gave no rows that could be computed
        self.has_timeline = False  # whose axis has its zero at `begin`
        ((self.begin,),) = database.rows(
            f"select coalesce((select min(start_ns) from gpu_op where source_id = {source_id}), "
            f"(select min(start_ns) from range where source_id = {source_id}), 0)"
        )

    @cached_property
    def memory(self) -> tuple[int, str] | None:
        """The input that knows most of what the shown one's memory is for, and the device; see sources.of_memory."""
        return sources.of_memory(self.database, self.source_id)

    @property
    def of_rank(self) -> str:
        """The inputs of the rank that is shown and those without one, as a list in SQL."""
        return sources.of_rank(self.source_id)

    def memory_in(self) -> str:
        """Which other input the memory was recorded in; nothing where it is the shown one's own."""
        if self.memory is None or self.memory[0] == self.source_id:
            return ""
        ((name,),) = self.database.rows(f"select name from source where source_id = {self.memory[0]}")
        return f", recorded in {name}"

    def apart(self) -> str:
        """What to add to the text about all that was recorded, where the verdict is about less; else nothing."""
        return " Of all that was recorded; the verdict is of the warm steps alone." if self.is_of_warm_steps else ""

    @cached_property
    def is_of_warm_steps(self) -> bool:
        """Whether the verdict is about warm steps, and not about all that was recorded."""
        return bool(self.rows("select 1 from steady_state where source_id = {id} and is_steady limit 1"))

    def where_other(self, view: str, rows: list[dict[str, Any]], words: str) -> str:
        """Words about how a section's rows differ from those of its view; nothing where they are as many."""
        (every,) = self.rows(f"select count(*) as cnt from {quoted(view)} where source_id = {{id}}")
        return words if every["cnt"] != len(rows) else ""

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """The rows of a query, in which {id} is the input and {begin} its first GPU work, or else range.

        None where they cannot be computed of what the input holds; `problems` then says why.
        """
        filled = statement.replace("{id}", str(self.source_id)).replace("{begin}", str(self.begin))
        try:
            return self.database.dicts(filled)
        except CorruptInputError as error:  # one section less
            self.problems.append(str(error))
            return []

    def columns(self, statement: str) -> dict[str, Any]:
        """The same rows as arrays by the names of the columns; raises where rows() gives none."""
        return self.database.columns(statement.replace("{id}", str(self.source_id)))

    def bounds(self, view: str) -> tuple[int, int] | None:
        """The first begin and the last end of a view's rows; None without rows."""
        ((first, last),) = self.database.rows(
            f"select min(start_ns), max(end_ns) from {quoted(view)} where source_id = {self.source_id}"
        )
        return None if first is None else (int(first), int(last))

    def subtitle(self) -> str:
        """What was read, in a line."""
        facts = self.rows("select item, value from source_fact where source_id = {id} and section = 'about'")
        told = {row["item"]: row["value"] for row in facts}
        run = [
            _fact(name.removeprefix("run: "), value)
            for name, value in told.items()
            if value and name.startswith("run: ") and (name, value) != ("run: micro_batches", "0")  # as many as usual
        ]
        device = [value for name, value in told.items() if name.startswith("device")]
        ((recorder,),) = self.database.rows(f"select recorder from _recorder where source_id = {self.source_id}")
        return ", ".join([_recorded(recorder), *device[:2], *run])


def _recorded(recorder: str) -> str:
    """What recorded an input: a program by its name, else what kind of file it is."""
    if " " not in recorder:
        return f"Recorded by {recorder}"
    return f"Read from {'an' if recorder[0] in 'aeiou' else 'a'} {recorder}"


def _fact(name: str, value: str) -> str:
    """A fact of a run as people write it: times in a unit, a list of one as that."""
    if name.endswith(" ns") and value.isdecimal():
        return f"{name.removesuffix(' ns')} {said_ns(int(value))}"
    return f"{name} {value.removeprefix('[').removesuffix(']')}"


def tabled(
    source: Source, name: str, title: str, text: str, view: str, statement: str, is_open: bool = False,
    keys: dict[str, str] | None = None, rows_are: str = "",
) -> Section | None:  # fmt: skip
    """A section with the rows of a query alone; None without rows."""
    rows = source.rows(statement)
    return section(name, title, text, view, rows, is_open=is_open, keys=keys, rows_are=rows_are) if rows else None


def only(rows: list[dict[str, Any]], *columns: str) -> list[dict[str, Any]]:
    """The rows with some of their columns."""
    return [{name: row[name] for name in columns} for row in rows]


def lines_of(
    rows: list[dict[str, Any]], key: str, value: str, what: str = ""
) -> tuple[list[dict[str, Any]], str, list[tuple[str, str]]]:
    """Rows of a time with a column for each device or stream: what figures.lines() takes."""
    keys = list(dict.fromkeys(row[key] for row in rows))
    wide: dict[int, dict[str, Any]] = {}
    for row in rows:
        at = wide.setdefault(row["start_ns"], {"start_ns": row["start_ns"], **{str(k): None for k in keys}})
        at[str(row[key])] = row[value]
    return list(wide.values()), "start_ns", [(str(k), f"{what} {k}".strip()) for k in keys]


def section(
    name: str, title: str, text: str, view: str, rows: list[dict[str, Any]], figure: Any = None, is_open: bool = False,
    kind: str = "chart", told: str = "", legend: tuple[str, ...] = (), keys: dict[str, str] | None = None,
    follows: tuple[str, ...] = (), added_up: str = "", row_cnt: int = 0, rows_are: str = "",
) -> Section:  # fmt: skip
    """A section whose table has the first of the rows, without columns in which none of them says anything.

    row_cnt: how many rows there are where `rows` are the first of them. rows_are: how they differ from the view's.
    """
    columns, cells = of_rows(telling(rows[:_ROW_LIMIT]), keys)
    left_out = max(0, max(row_cnt, len(rows)) - _ROW_LIMIT)
    return Section(
        name, title, text, view, figure, columns, cells, left_out, is_open, kind, told or f"{title}: {text}", legend,
        follows, rows_are, added_up,
    )  # fmt: skip


def telling(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without columns that are empty or zero in all of them."""
    names = [name for name in (rows[0] if rows else ()) if any(row[name] not in (None, 0, "") for row in rows)]
    return only(rows, *names)
