"""How a long step tells how far it is, without knowing who listens.

The CLI passes a listener that draws a bar on a terminal; everyone else gets silence.
"""

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
