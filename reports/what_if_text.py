"""Rows of what_if for a person: the change, what the step becomes, what it saves, then what the change is."""

import textwrap
from collections.abc import Container, Iterator, Mapping
from itertools import groupby

from .answer import Row
from .screen import WIDTH, columns, cut
from .units import keep_end, said_ns
from .verdict_text import said_shift

_CHANGE_WIDTH, _INPUT_CNT = 46, 3
_LEAST_SHOWN = 0.001  # of a step: what a change saves at least to have a line of its own


def lines(rows: list[Row], on_gpu: Container[int], shifts: Mapping[int, int]) -> Iterator[str]:
    """Rows of what_if for a person, in lines of at most 80 characters: input by input, the largest saving first.

    `on_gpu` are the inputs with GPU work, `shifts` of those whose clocks disagree by how many ns.
    """
    if not rows:
        yield "no change can be replayed: there is no GPU work and no input in this file"
    inputs = [list(of) for _, of in groupby(rows, key=lambda row: row["source_id"])]
    for number, of_input in enumerate(inputs[:_INPUT_CNT]):
        if len(inputs) > 1:
            yield from ([""] if number else [])
            rank = of_input[0]["rank"]
            yield f"input {number + 1}:" if rank is None else f"rank {rank}:"
        source_id = of_input[0]["source_id"]
        if source_id in shifts:
            doubt = f"clocks: {said_shift(shifts[source_id])}; a replay begins with launches, so savings are"
            yield from textwrap.wrap(f"{doubt} not to be trusted", WIDTH, subsequent_indent="  ")
        yield from _of_input(of_input, source_id in on_gpu)
    if len(inputs) > _INPUT_CNT:
        yield from ("", f"{len(inputs) - _INPUT_CNT} more inputs: --csv has all, or name one of them alone")


def _of_input(rows: list[Row], has_gpu: bool) -> Iterator[str]:
    known = [row for row in rows if row["saving_ns"] is not None]
    if known:
        before = said_ns(known[0]["step_ns"] + known[0]["saving_ns"])
        error = max(row["replay_error_frac"] or 0 for row in known)
        count = known[0]["step_cnt"]
        what = "the recording" if count is None else f"{count:,} step{'s' if count > 1 else ''}"
        what += ", GPU work included" if count is not None and has_gpu else ""
        each = " each" if (count or 1) > 1 else ""
        yield cut(f"{what}: {before}{each}, replayed within {error:.1%}; with a change")
    said = None
    for row in rows:
        change = _short_change(row["change"])
        if row["saving_ns"] is None:
            yield columns(f"  {change}", "unknown to one rank")
        elif abs(row["saving_frac"]) >= _LEAST_SHOWN or len(rows) == 1:
            yield columns(f"  {change}", f"{said_ns(row['step_ns'])}  saves {row['saving_frac']:6.1%}")
        else:
            continue
        if row["note"] != said:
            yield from textwrap.wrap(row["note"], WIDTH, initial_indent="      ", subsequent_indent="      ")
        said = row["note"]
    if none := [row["change"] for row in known if abs(row["saving_frac"]) < _LEAST_SHOWN and len(rows) > 1]:
        yield from textwrap.wrap(f"less than {_LEAST_SHOWN:.1%}: {', '.join(none)}", WIDTH, subsequent_indent="  ")


def _short_change(change: str) -> str:
    """What is changed and the end of the place."""
    kind, equals, place = change.partition("=")
    return f"{kind}{equals}{keep_end(place, _CHANGE_WIDTH - len(kind) - 1)}"
