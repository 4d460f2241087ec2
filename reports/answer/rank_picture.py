"""Ranks x steps in characters: for which rank, in which step, the others waited.

rank 0  ··········      largest 38 ms: █ from 3/4 of it, ▓ from 1/2, ▒ from 1/4, ░ from 1/16 and of each straggler,
rank 1  ··█··█··▓·      · less, ' ' not known
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ..tables.units import said_ns
from ..terminal.screen import cut

# Of the kind of the input that is shown.
WAITED = """
    select rank, step, sum(kept_waiting_ns)::bigint as kept_waiting_ns, bool_or(is_straggler) as is_straggler
    from straggler
    where step is not null and source_id in (select source_id from source where kind = '{kind}')
    group by rank, step"""
_RANK_CNT, _STEP_CNT = 8, 60
_SHADES = ((3 / 4, "█"), (1 / 2, "▓"), (1 / 4, "▒"), (1 / 16, "░"))
_LEAST_STEPS = 2  # of one there is nothing to see

Row = dict[str, Any]


def most_striking(sizes: Iterable[tuple[Any, int]], count: int) -> list[Any]:
    """Of ranks or steps with sizes so many, in order: those of which one size is largest."""
    most: dict[Any, int] = {}
    for one, size in sizes:
        most[one] = max(most.get(one, 0), size)
    return sorted(sorted(most, key=lambda one: -most[one])[:count])


def picture(rows: Sequence[Row]) -> Row | None:
    """Of rows of WAITED the ranks and steps with most waiting, that in ns and who is a straggler, a list for each rank.

    None where there is nothing to see.
    """
    found = {(row["rank"], row["step"]): row["kept_waiting_ns"] for row in rows}
    late = {(row["rank"], row["step"]) for row in rows if row["is_straggler"]}
    steps = {step for _, step in found}
    if len(steps) < _LEAST_STEPS or not any(found.values()):
        return None
    shown_ranks = most_striking(((rank, ns or 0) for (rank, _), ns in found.items()), _RANK_CNT)
    shown_steps = most_striking(((step, ns or 0) for (_, step), ns in found.items()), _STEP_CNT)
    return {
        "ranks": shown_ranks,
        "rank_cnt": len({rank for rank, _ in found}),
        "steps": shown_steps,
        "step_cnt": len(steps),
        "kept_waiting_ns": [[found.get((rank, step)) for step in shown_steps] for rank in shown_ranks],
        "is_straggler": [[(rank, step) in late for step in shown_steps] for rank in shown_ranks],
    }


def lines(found: Row) -> Iterator[str]:
    """A line that says what it is, and one for each rank, of at most 80 characters."""
    largest = max(ns or 0 for row in found["kept_waiting_ns"] for ns in row)
    ranks = _of(found["ranks"], found["rank_cnt"], "ranks")
    steps = _of(found["steps"], found["step_cnt"], "steps")
    most, *others = (shade for _, shade in _SHADES)
    shades = f"{most} from {said_ns(round(_SHADES[0][0] * largest))}, {''.join(others)} less"
    yield cut(f"others waited for {ranks}, {steps} ({shades})")
    label = max(len(str(rank)) for rank in found["ranks"])
    for rank, row, late in zip(found["ranks"], found["kept_waiting_ns"], found["is_straggler"], strict=True):
        yield f"  rank {rank:>{label}}  {''.join(map(partial(_shade, largest), row, late))}"
    if any(ns is None for row in found["kept_waiting_ns"] for ns in row):
        yield "  (blank: not known, or no such step)"


def _of(shown: list[int], count: int, what: str) -> str:
    """Which ranks or steps are shown."""
    if len(shown) < count:
        return f"{len(shown)} of {count:,} {what}"
    if len(shown) == 1:
        return f"{what.removesuffix('s')} {shown[0]}"
    span = f"{shown[0]} to {shown[-1]}"
    return f"{what} {span}" if shown[-1] - shown[0] + 1 == count else f"{count} {what} ({span})"


def _shade(largest: int, ns: int | None, is_late: bool) -> str:
    if ns is None:
        return " "
    least = _SHADES[-1][1] if is_late else "·"
    return next((shade for share, shade in _SHADES if ns >= share * largest), least)
