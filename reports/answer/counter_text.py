"""What the hardware counters say of the GPU's work, in a line."""

from collections.abc import Iterator
from typing import Any

from ..terminal.screen import wrapped

_UNITS = {"sm_active_frac": "multiprocessors", "tensor_active_frac": "tensor cores", "dram_frac": "memory bandwidth"}


def counters(row: dict[str, Any] | None) -> Iterator[str]:
    """How much of its units the work uses, of a row of _answer_counter; nothing where that is not known."""
    said = [f"{name} {row[column]:.0%}" for column, name in _UNITS.items() if row and row[column] is not None]
    if said:
        yield from wrapped([f"  in use while busy: {', '.join(said)}"])
