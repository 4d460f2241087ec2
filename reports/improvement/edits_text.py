"""Edits of a script by hand for a person: what each saves, how it is written, and what came of those that were made."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from ..tables import units
from ..terminal.screen import WIDTH, wrapped

_WHY = "      "
Row = dict[str, Any]


def lines(rows: Sequence[Row], has_after: bool) -> Iterator[str]:
    """Edits, the largest saving first, and below each how it is written."""
    if not rows:
        yield "no edit by hand is known that saves a hundredth of a step"
        return
    step = units.said_ns(rows[0]["step_ns"])
    what = f"edits by hand ({rows[0]['framework']}), and what each saves of a step of {step} (no profiler)"
    yield from wrapped([what + "; what is left is of the same step" * has_after])
    for row in rows:
        saving = "not known"
        if row["saving_frac"] is not None:
            saving = f"{row['saving_frac']:.1%}"
        elif row["at_most_frac"] is not None:
            saving = f"at most {row['at_most_frac']:.1%}"
        yield f"  {row['edit']:<36}{saving:>15}  {_came_of_it(row)}".rstrip()
        note = f"{row['write']}" + (f" (alters {row['alters']})" if row["alters"] else "")
        yield from textwrap.wrap(note, WIDTH, initial_indent=_WHY, subsequent_indent=_WHY, break_on_hyphens=False)


def _came_of_it(row: Row) -> str:
    """Whether it was made where that is known, else whether the trace changed there."""
    left = "" if row["left_frac"] is None else f": {row['left_frac']:.1%} left"
    if row["is_made"] is not None:
        return ("made" if row["is_made"] else "not made") + left
    return f"{'trace changed' if row['is_changed'] else 'still there'}{left}" if left else ""


def held(rows: Sequence[Row], before_ns: float, after_ns: float, scripts: Sequence[str] = ()) -> str:
    """Whether the predictions of the edits that were made came true."""
    made = [row for row in rows if row["is_made"] or (row["is_made"] is None and row["is_changed"])]
    predicted = [row for row in made if row["saving_frac"] is not None]
    said_ns = before_ns * max(0.0, 1 - sum(row["saving_frac"] for row in predicted))
    unit, cells = units.scaled("ns", [before_ns, after_ns, said_ns])
    same = f"if {scripts[0]} and {scripts[1]} are one program: " if scripts else ""
    if not made:
        return f"{same}none of the edits shows; step {cells[0]} -> {cells[1]} {unit}"
    if not predicted:
        named = ", ".join(row["edit"] for row in made)
        return f"{same}nothing was predicted of what was made ({named}); step {cells[0]} -> {cells[1]} {unit}"
    named = "what was made" if all(row["is_made"] for row in made) else "what was made, or changed in the trace"
    return f"{same}predicted {cells[2]} {unit} with {named}, measured {cells[1]} {unit} ({said_ns / after_ns - 1:+.1%})"
