"""Tables for a person: units that people read, no line longer than the terminal, the end of a path before its start.

Raw numbers are what --csv, --json and files have; nothing here is read by a program.
"""

import sys
import textwrap
from collections.abc import Sequence
from itertools import takewhile
from string import ascii_letters, digits
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ...console import put_lines, tell, terminal_width, visible
from ..tables.units import Column, keep_begin, keep_end, of_values

_PIPE_WIDTH = 120
_LEAST_HEAD = 4  # of a text in front of where it differs from others
_HEAD_WIDTH = 12  # what is left of a path in front of its last name, to tell it from others
_TEXT_WIDTH = 24  # a text is cut to no less than this before a column is left out
_BELOW = ("example", "evidence", "advice")  # sentences: a line of their own below their row
_GAP = 2


def width() -> int:
    """How long a line may be: the terminal's width, in a pipe 120."""
    return terminal_width() if sys.stdout.isatty() else _PIPE_WIDTH


def show(rows: list[dict[str, Any]], columns: Sequence[str], more: str = "--csv") -> None:
    """Print rows as a table on stdout: numbers in units to the right, texts as they are, never as markup.

    Texts are shortened to fit and columns that still do not are left out and named on stderr, with the options that
    show them (`more`).
    """
    below = [name for name in _BELOW if name in columns and len(columns) > 1]
    shown = [of_values(visible(c), [row[c] for row in rows]) for c in columns if c not in below]
    sentences = [[visible(str(row[name])) for name in below if row[name]] for row in rows]
    left = print_columns(shown, sentences)
    if left:
        tell(_left_out([c for c in columns if c not in below][-left:], more))


def _left_out(names: list[str], more: str) -> str:
    """How many columns did not fit, the names of the first of them, and the options that show them."""
    count = f"{len(names)} more columns" if len(names) > 1 else "1 more column"
    for shown in range(len(names), 0, -1):
        listed = ", ".join([*names[:shown], *(["…"] if shown < len(names) else [])])
        if len(line := f"{count} ({listed}): {more}") <= width():
            return line
    return f"{count}: {more}"


def print_columns(columns: list[Column], below: list[list[str]] | None = None) -> int:
    """Print columns side by side, and below each row its sentences; returns how many columns did not fit.

    What the row above says as well is not said again.
    """
    wide = width()
    fitting = _fit(columns, wide)
    header, *lines = _lines(columns[: len(fitting)], fitting)
    # the header alone: rich takes long for a line
    Console(width=wide, highlight=False).print(Text(header, style="bold"), no_wrap=True, overflow="ignore", crop=False)
    printed = []
    for number, line in enumerate(lines):
        printed.append(line)
        said = below[number - 1] if below and number else []
        for sentence in [text for text in below[number] if text not in said] if below else []:
            printed += [f"    {piece}" for piece in textwrap.wrap(sentence, wide - 4, break_on_hyphens=False)]
    if printed:
        put_lines("\n".join(printed))
    return len(columns) - len(fitting)


def _fit(columns: list[Column], wide: int) -> list[int]:
    """Widths of the columns that fit, from the first: numbers are whole, texts share what is left."""
    whole = [max(map(cell_len, [column.title, *column.cells])) for column in columns]
    least = [
        size if column.is_number else min(size, max(_TEXT_WIDTH, cell_len(column.title)))
        for size, column in zip(whole, columns, strict=True)
    ]
    count = 1
    while count < len(columns) and sum(least[: count + 1]) + _GAP * count <= wide:
        count += 1
    widths = [min(size, wide) for size in least[:count]]
    spare = wide - sum(widths) - _GAP * (count - 1)
    for number in range(count):
        more = min(spare, whole[number] - widths[number])
        widths[number] += max(0, more)
        spare -= max(0, more)
    return widths


def _lines(columns: list[Column], widths: list[int]) -> list[str]:
    cells = [
        [_filled(cell, size, column.is_number) for cell in [keep_begin(column.title, size), *_cut(column, size)]]
        for column, size in zip(columns, widths, strict=True)
    ]
    return [(" " * _GAP).join(line).rstrip() for line in zip(*cells, strict=True)]


def _filled(cell: str, size: int, is_number: bool) -> str:
    space = " " * (size - cell_len(cell))
    return space + cell if is_number else cell + space


def _cut(column: Column, size: int) -> list[str]:
    """The cells in so many places; what does not fit is lost on the right, of a path on the left.

    Texts that would be the same then lose what they have in common behind their first third, paths what they have in
    common in front of their last name.

    in 16 places   encoder.block.1.layer/aten::to/copy_   not   …aten::to/copy_   but   …er.block.1…/copy_
                   encoder.block.2.layer/aten::to/copy_         …aten::to/copy_         …er.block.2…/copy_
    """
    if not column.is_path:
        return _told_apart(column.cells, size)
    cut = {cell: keep_end(cell, size) for cell in column.cells}
    for cells in _alike(cut):
        same = takewhile(lambda letters: len(set(letters)) == 1, zip(*map(reversed, cells), strict=False))
        common = "".join(letters[0] for letters in same)[::-1].lstrip(ascii_letters + digits)  # no part of a word
        last = common[max(common.rfind("/"), 0) :]
        room = size - cell_len(last) - 1
        if "/" in common and room >= _HEAD_WIDTH:
            cut |= {cell: f"{keep_end(cell.removesuffix(common), room)}…{last}" for cell in cells}
    return [cut[cell] for cell in column.cells]


def _alike(cut: dict[str, str]) -> list[list[str]]:
    """The texts that became the same when they were cut."""
    found: dict[str, list[str]] = {}
    for text, short in cut.items():
        found.setdefault(short, []).append(text)
    return [texts for texts in found.values() if len(texts) > 1]


def _told_apart(cells: Sequence[str], size: int) -> list[str]:
    """The begins of texts in so many places, and of those whose begins are the same where they differ.

    in 16 places   fused_norm_backward_kernel<4096>   not   fused_norm_back…   but   fused…nel<4096>
                   fused_norm_backward_kernel<8192>         fused_norm_back…         fused…nel<8192>
    """
    cut = {cell: keep_begin(cell, size) for cell in cells}
    head = size // 3
    for group in _alike(cut) if head >= _LEAST_HEAD else ():
        same = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*group, strict=False)))
        for cell in group:
            begin, room = keep_begin(cell, head + 1).rstrip("…"), size - head - 1
            # as much of the end as there is room for, where all that differs is in it
            is_last = same >= len(cell) - room
            end = keep_end(cell, room + 1).lstrip("…") if is_last else cell[max(0, same - 2) :]
            cut[cell] = keep_begin(f"{begin}…{end}", size)
    return [cut[cell] for cell in cells]
