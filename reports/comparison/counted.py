"""How much of each input a comparison counts: what lies in its steps, in warm ones where that is known by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...analyze.store.database import Database
from ..tables.sources import counting
from .compared import letter
from .spread import Spread, learning_and_not

Spreads = dict[tuple[Any, ...], Spread]
_LEAST_INSIDE = 0.95  # of what is compared: where less lies in the steps, that is said


@dataclass(frozen=True)
class Steps:
    """How many steps an input has, all and warm ones."""

    every: int
    warm: int

    @classmethod
    def of(cls, database: Database) -> "Steps":
        """Those of all sources that count; adapters in turn are one."""
        ((every, warm),) = database.rows(
            f"""select count(*), count(*) filter (is_warm)
            from _counted_step
            where source_id in (select source_id from source where {counting(database)})"""
        )
        return cls(int(every), int(warm))

    def share(self, width: Spread | None) -> float:
        """What a row's total is multiplied by for its value in a step."""
        if width is not None and width.warm is not None and self.warm:
            return width.warm / self.warm
        return (1.0 if width is None else width.held) / self.every


WHOLE = Steps(1, 0)  # of an input whose values are not for each step


def left_out(what: str, spreads: Sequence[Spreads]) -> list[str]:
    """How much of each input lies outside of its steps and does not count, where it is worth saying."""
    inside = [widths[()].held if () in widths else 1.0 for widths in spreads]
    return [
        f"{1 - share:.0%} of {what} in {letter(number)} lies outside of its steps and is left out"
        for number, share in enumerate(inside)
        if share < _LEAST_INSIDE
    ]


def cold(steps: Sequence[Steps], spreads: Sequence[Spreads]) -> list[str]:
    """How many steps are cold, and whether they count: not where values are known by step."""
    if not (said := said_cold(steps)):
        return []
    if know_warm(spreads):
        return [f"Values are of warm steps: cold ones ({said}) are left out"]
    return [f"Values are of all steps, cold ones ({said}) too"]


def evaluating(spreads: Sequence[Spreads]) -> str:
    """How many steps of each input only evaluate; "" where that is not known of each."""
    found = []
    for number, widths in enumerate(spreads):
        if () not in widths or not widths[()].kinds:
            return ""
        learning, other = (kind.step_cnt for kind in learning_and_not(widths[()].kinds))
        found.append(f"{other} of {learning + other} in {letter(number)}")
    return f"Steps without a backward: {', '.join(found)}; rows are means of all steps"


def know_warm(spreads: Sequence[Spreads]) -> bool:
    """Whether it is known by step what is compared, so that warm ones alone count."""
    return any(width.warm is not None for widths in spreads for width in widths.values())


def said_cold(steps: Sequence[Steps]) -> str:
    """How many steps of each input are cold; "" of none."""
    counts = [(count.every - count.warm, letter(number)) for number, count in enumerate(steps) if count.warm]
    return ", ".join(f"{count} of {which}" for count, which in counts if count)
