"""How far long work is: a bar for a person at a terminal, now and then a line where stderr goes to a pipe or a file."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .console import tell, visible
from .progress import Progress, Silent

if TYPE_CHECKING:
    import rich.progress


PAUSE_S = 10.0  # between two lines


@contextmanager
def shown(quiet: bool = False) -> Iterator[Progress]:
    """A listener that draws one bar a step on stderr; where that is no terminal, what draws it is not loaded."""
    if quiet:
        yield Silent()
        return
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Bar(bars)


class Lines:
    """Says in a line how far the work is, when it has said nothing for a while; short work ends without one."""

    def __init__(self, pause_s: float | None = None):
        self._pause_s = PAUSE_S if pause_s is None else pause_s
        self._said_s = time.monotonic()
        self._what = ""
        self._total: int | None = None
        self._done = 0

    def step(self, what: str, total: int | None = None) -> None:
        """Begin a step."""
        self._what, self._total, self._done = what, total, 0
        self._say()

    def advance(self, units: int) -> None:
        """Count on."""
        self._done += units
        self._say()

    def _say(self) -> None:
        now = time.monotonic()
        if now - self._said_s >= self._pause_s:
            self._said_s = now
            tell(f"{self._what}: {self._done / self._total:.0%}" if self._total else self._what)


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
