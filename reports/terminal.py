"""Tables and lines for a person at a terminal."""

import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..console import tell, visible

_PIPE_WIDTH = 100_000  # nothing is shortened where a program reads
_TEXT_WIDTH = 48


def show(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Print rows as a table on stdout: numbers to the right, texts as they are, never as markup.

    On a terminal long texts are shortened and columns that do not fit are left out, and said on stderr; in a pipe
    everything is printed.
    """
    is_terminal = sys.stdout.isatty()
    console = Console(width=None if is_terminal else _PIPE_WIDTH)
    cells = {c: [_cell(r[c]) for r in rows] for c in columns}
    limit = _TEXT_WIDTH if is_terminal else _PIPE_WIDTH
    widths = {c: min(limit, max(map(len, [c, *cells[c]]))) for c in columns}
    fitting = [c for n, c in enumerate(columns) if sum(widths[k] + 2 for k in columns[: n + 1]) - 2 <= console.width]
    fitting = fitting or columns[:1]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in fitting:
        numeric = all(isinstance(r[column], int | float | None) for r in rows)
        table.add_column(
            Text(visible(column)), justify="right" if numeric else "left", no_wrap=True, max_width=widths[column]
        )
    for number in range(len(rows)):
        table.add_row(*(Text(cells[c][number], overflow="ellipsis") for c in fitting))
    console.print(table)
    if left := columns[len(fitting) :]:
        tell(f"{len(left)} more columns ({', '.join(left)}): --csv, or -o FILE")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return visible(str(value))
