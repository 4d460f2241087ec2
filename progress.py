"""How a long step tells how far it is, without knowing who listens.

The CLI passes a listener that draws a bar on a terminal; everyone else gets silence.
"""

from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """Listens to long work."""

    def step(self, what: str, total: int | None = None) -> None:
        """A new step begins; `total` is in the step's own units, None when unknown."""

    def advance(self, units: int) -> None:
        """So many more units of the current step are done."""


class Silent:
    """A listener that ignores everything."""

    def step(self, what: str, total: int | None = None) -> None:
        """Ignore."""

    def advance(self, units: int) -> None:
        """Ignore."""


@dataclass(frozen=True)
class Prefixed:
    """A listener that is told which of several runs a step belongs to."""

    listener: Progress
    prefix: str

    def step(self, what: str, total: int | None = None) -> None:
        """A step of this run begins."""
        self.listener.step(f"{self.prefix}: {what}", total)

    def advance(self, units: int) -> None:
        """Units of it are done."""
        self.listener.advance(units)
