"""Lines for a person: 80 places, in a terminal and in a pipe."""

import textwrap
from collections.abc import Iterable, Iterator

from rich.cells import cell_len

from ..tables.units import keep_begin

WIDTH = 80


def columns(left: str, right: str) -> str:
    """A line with one text at its start, cut where need be, and another at its end."""
    left = keep_begin(left, WIDTH - cell_len(right) - 1)
    return left + " " * (WIDTH - cell_len(right) - cell_len(left)) + right


def cut(line: str) -> str:
    """The start of a line, as much as there is room for."""
    return keep_begin(line, WIDTH)


def wrapped(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences in lines that fit."""
    for sentence in sentences:
        yield from textwrap.wrap(sentence, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
