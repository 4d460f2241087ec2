"""The progress bar for a person at a terminal. In a pipe there is none, and what would draw it is not loaded."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..console import visible
from ..progress import Progress, Silent

if TYPE_CHECKING:
    import rich.progress


@contextmanager
def shown() -> Iterator[Progress]:
    """A listener that draws one bar a step on stderr, and nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Bar(bars)


class _Bar:
    def __init__(self, bars: "rich.progress.Progress"):
        self._bars = bars
        self._task: rich.progress.TaskID | None = None

    def step(self, what: str, total: int | None = None) -> None:
        """Begin a bar; one without a total pulses."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(visible(what), total=total)

    def advance(self, units: int) -> None:
        """Move the bar on."""
        if self._task is not None:
            self._bars.advance(self._task, units)
