"""Tables and progress bars for a person at a terminal."""

import sys
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 100_000  # nothing is folded where a program reads


class Bar:
    """A progress listener that draws one bar a step on stderr, and nothing where stderr is no terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def step(self, what: str, total: int | None = None) -> None:
        """Begin a bar; one without a total pulses."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=total)

    def advance(self, units: int) -> None:
        """Move the bar on."""
        if self._task is not None:
            self._progress.advance(self._task, units)


def show(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Print rows as a table on stdout: numbers to the right, texts as they are, never as markup."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    numeric = {c: all(isinstance(r[c], int | float | None) for r in rows) for c in columns}
    for column in columns:
        table.add_column(Text(column), justify="right" if numeric[column] else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[c])) for c in columns))
    is_terminal = sys.stdout.isatty()
    Console(width=None if is_terminal else _PIPE_WIDTH).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
