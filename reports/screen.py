"""Lines for a person: 80 places, in a terminal and in a pipe."""

from rich.cells import cell_len

from .units import keep_begin

WIDTH = 80


def columns(left: str, right: str) -> str:
    """A line with one text at its begin, cut where need be, and another at its end."""
    left = keep_begin(left, WIDTH - cell_len(right) - 1)
    return left + " " * (WIDTH - cell_len(right) - cell_len(left)) + right


def cut(line: str) -> str:
    """The begin of a line, as much as there is room for."""
    return keep_begin(line, WIDTH)
