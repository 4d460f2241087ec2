"""Which rows and columns of a report are wanted: --columns, --sort, --limit, --step, --rank, --device, --range."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import sql
from ...errors import UsageError
from ...sql import literal, quoted

_UNITS = ("_ns", "_bytes", "_frac", "_cnt")
_PATHS = ("path", "place", "name", "event_name")  # what --range looks at, the first that a view has
_DEVICES = ("device_id", "device")
MOST_ROWS = 1 << 62  # that are taken where more are asked for: numbers of a database and of a frame end there


@dataclass(frozen=True)
class Narrowing:
    """What was asked for; nothing leaves a report as it is."""

    columns: str | None = None
    sort: str | None = None
    limit: int | None = None
    step: int | None = None
    rank: int | None = None
    device: int | None = None
    path: str | None = None

    def __bool__(self) -> bool:
        return self != Narrowing()

    @property
    def filters(self) -> list[str]:
        """The options that leave rows out by what they are about, as they were written."""
        given = {"--step": self.step, "--rank": self.rank, "--device": self.device, "--range": self.path}
        return [f"{option} {value}" for option, value in given.items() if value is not None]

    def chosen(self, columns: Sequence[str], what: str) -> list[str]:
        """The names of the wanted columns. Raises UsageError for one that is not there."""
        if self.columns is None:
            return list(columns)
        names = [_found(name.strip(), columns, "--columns", what) for name in self.columns.split(",")]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise UsageError(f"--columns names {', '.join(twice)} twice")
        return names

    def statement(self, view: sql.SqlFile) -> str:
        """The select of these rows of a view. Raises UsageError for a column or filter that the view does not have."""
        types = {column.name: column.type for column in view.columns}
        columns = list(types)
        wanted = ", ".join(map(quoted, self.chosen(columns, view.name)))
        where = " and ".join(self._conditions(types, view.name))
        order = ""
        if self.sort is not None:
            name, falls = ordered_by(self.sort, columns, view.name, lambda name: types[name] not in ("varchar", "enum"))
            order = f" order by {quoted(name)} {'desc' if falls else 'asc'} nulls last"
        return (
            f"select {wanted} from {quoted(view.name)}{f' where {where}' if where else ''}{order}"
            f"{f' limit {min(self.limit, MOST_ROWS)}' if self.limit is not None else ''}"
        )

    def of_frame(self, frame: Any) -> Any:
        """The same of a polars DataFrame; filters are for views."""
        if self.sort is not None:
            name, falls = ordered_by(
                self.sort, frame.columns, "the result", lambda name: frame[name].dtype.is_numeric()
            )
            frame = frame.sort(name, descending=falls, nulls_last=True, maintain_order=True)
        frame = frame.select(self.chosen(frame.columns, "the result"))
        return frame if self.limit is None else frame.head(min(self.limit, MOST_ROWS))

    def _conditions(self, types: dict[str, str], view: str) -> list[str]:
        found = []
        for option, value, names in (
            ("--step", self.step, ("step",)),
            ("--rank", self.rank, ("rank",)),
            ("--device", self.device, _DEVICES),
            ("--range", self.path, _PATHS),
        ):
            if value is None:
                continue
            name = next((name for name in names if name in types), None)
            if name is None:
                have = [v.name for v in sql.public() if any(column.name in names for column in v.columns)]
                raise UsageError(f"{option}: {view} has no column {names[0]}; views that have: {', '.join(have)}")
            if option == "--range":
                _require_pattern(str(value))
                found.append(f"regexp_matches({quoted(name)}, {literal(str(value))})")
            elif types[name] == "varchar":  # cuda:0
                found.append(f"regexp_matches({quoted(name)}, {literal(of_device(int(value)))})")
            else:
                found.append(f"{quoted(name)} = {value}")
        return found


def of_device(number: int) -> str:
    """A regular expression for the names that a device has: 0 is 0, and cuda:0."""
    return f"(^|[^0-9]){number}$"


def some_of(names: Sequence[str]) -> str:
    """The first names of a list, and how many there are if not all are said."""
    return ", ".join(names[:10]) + (f", … ({len(names)})" if len(names) > 10 else "")


def ordered_by(text: str, columns: Sequence[str], what: str, is_number: Any) -> tuple[str, bool]:
    """The column to sort by, and whether from the largest down: numbers unless + is before the name, texts with -.

    Raises UsageError for one that is not there.
    """
    name = _found(text.lstrip("+-"), columns, "--sort", what)
    return name, text.startswith("-") or (not text.startswith("+") and is_number(name))


def _found(name: str, columns: Sequence[str], option: str, what: str) -> str:
    """The column of this name, which may lack its unit. Raises UsageError with the columns that exist."""
    if name in columns:
        return name
    with_unit = [name + unit for unit in _UNITS if name + unit in columns]
    if not with_unit:
        raise UsageError(f"{option} {name}: {what} has the columns {', '.join(columns)}")
    return with_unit[0]


def _require_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--range {pattern} is not a regular expression: {error}") from error
