"""What the hardware counters say of the GPU's work, in a line."""

from collections.abc import Iterator
from typing import Any

from ..terminal.screen import wrapped

_MOST = 0.9  # of the time: what is sampled for less need not be said of all of it
_UNITS = {"sm_active_frac": "multiprocessors", "tensor_active_frac": "tensor cores", "dram_frac": "memory bandwidth"}


def counters(row: dict[str, Any] | None) -> Iterator[str]:
    """How much of its units the work uses, of a row of _answer_counter; nothing where that is not known."""
    said = [f"{name} {row[column]:.0%}" for column, name in _UNITS.items() if row and row[column] is not None]
    if row and said:
        part = "" if row["sampled_frac"] >= _MOST else f" (sampled in {row['sampled_frac']:.0%} of that time)"
        yield from wrapped([f"  in use while busy: {', '.join(said)}{part}"])
