"""What the steps of an input have of each row of a view, and how long they are: asked of its database."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ... import sql
from ...analyze.store.database import Database
from ...sql import literal, quoted
from ..tables.sources import counting
from .spread import FEW_STEPS, KindOfSteps, Spread

Keys = tuple[Any, ...]
_BETWEEN = "\x1f"  # of several names that are one key


@dataclass(frozen=True)
class _Amounts:
    """The amounts of the rows of a report: a view of sql/3_compared with a column for each measure."""

    view: str
    named: str = "select name_id as key, text as name from name"  # what its keys stand for
    has_one_key: bool = True  # else the name is of several, with _BETWEEN between them
    has_processes: bool = True  # whose steps have it: processes of a file run side by side
    is_of_window: bool = False  # adds up to a device's window with what is not known by step: nothing is left out

    @property
    def measures(self) -> set[str]:
        """The columns that are amounts."""
        (view,) = (view for view in sql.in_folder(sql.COMPARED) if view.name == self.view)
        return {column.name for column in view.columns} - {"source_id", "process", "at_ns", "key", "is_outermost"}


_OWN_NAMES = "select distinct key, key as name from {view}"
_AMOUNTS = {
    "range_summary": _Amounts("_amount_of_range", "select path_id as key, path as name from range_path"),
    "kernel_summary": _Amounts("_amount_of_kernel"),
    "kernel_class": _Amounts("_amount_of_class", _OWN_NAMES),
    "operator_summary": _Amounts("_amount_of_operator"),
    "api_summary": _Amounts("_amount_of_call"),
    "idle_summary": _Amounts("_amount_of_gap", _OWN_NAMES, has_processes=False, is_of_window=True),
    "lora_summary": _Amounts("_amount_of_part", _OWN_NAMES, has_one_key=False),
    "adapter_summary": _Amounts("_amount_of_adapter", _OWN_NAMES, has_one_key=False),
}


def of_steps(database: Database, measure: str = "length_ns") -> Spread | None:
    """The quartiles and the mean of a column of step_summary, of warm steps; None where none of them has it.

    A step without a phase that others have spends nothing in it.
    Of several ranks the mean of a step counts: they take it together. Adapters in turn are one step.
    """
    is_one_job = bool(database.rows("from _several_ranks limit 1"))
    ((low, median, high, steps),) = database.rows(
        sql.statement(
            "spread_of_steps",
            measure=quoted(measure),
            counted=counting(database),
            few=str(FEW_STEPS),
            step="turn.step" if is_one_job else "turn.source_id, turn.turn_id",
        )
    )
    return Spread(low, median, high, len(steps), samples=tuple(steps)).with_mean() if steps else None


def said_of_steps(database: Database) -> str:
    """How many steps there are, of processes in one file of each, and how many of them are cold."""
    ((cold,),) = database.rows(
        "select coalesce(sum(cold_step_cnt), 0)::bigint from _steady_time join source using (source_id) "
        f"where {counting(database)}"
    )
    return _said_of_all_steps(database) + (f", {cold} of them cold" if cold else "")


def _said_of_all_steps(database: Database) -> str:
    counts = database.rows(
        "select step_cnt, numbered_cnt, process_cnt from _step_count where source_id in "
        f"(select source_id from source where {counting(database)})"
    )
    inputs, (every, numbered, processes) = len(counts), [sum(column) for column in zip((0, 0, 0), *counts, strict=True)]
    most, least = max(counts, default=(0,))[0], min(counts, default=(0,))[0]
    if processes > inputs == 1 and every == numbered * processes:
        return f"{numbered} steps in each of {processes} processes"
    if processes == inputs == 1 and numbered < every and every % numbered == 0:  # adapters in turn
        return f"{numbered} step{'s' if numbered > 1 else ''} of {every // numbered} turns"
    if inputs > 1 and database.rows("from _several_ranks limit 1"):
        if least == most:
            return f"{most} step{'s' * (most > 1)} on each of {inputs} ranks"
        return f"{least} to {most} steps on each of {inputs} ranks"
    return "no steps" if not every else "1 step" if every == 1 else f"{every} steps"


def of_rows(database: Database, view: str, measure: str, only: Iterable[Keys] | None = None) -> dict[Keys, Spread]:
    """The spread of each row of a view over the steps, and under () that of all rows together.

    Empty for views whose amounts are not known by step. only: the rows that count.
    """
    amounts = _AMOUNTS.get(view)
    if amounts is None or measure not in amounts.measures:
        return {}
    found = _asked(database, amounts, measure, only)
    if view != "range_summary" or only is not None:
        return found
    if measure in _AMOUNTS["kernel_summary"].measures:  # ranges nest: all together is the work itself
        whole = _asked(database, _AMOUNTS["kernel_summary"], measure, None)
    else:
        whole = _asked(database, amounts, measure, None, "is_outermost")
    return found | {(): whole[()]} if () in whole else found


def _asked(
    database: Database, amounts: _Amounts, measure: str, only: Iterable[Keys] | None, chosen: str = "true"
) -> dict[Keys, Spread]:
    """The spreads of all rows and under () of their sum. Numbers stand for names until all is added up."""
    rows = database.rows(_statement(database, amounts, measure, only, chosen))
    every = next((row[-2] for row in rows if row[1]), ())
    return {
        _keys(amounts, name, is_all): Spread(
            low or 0.0,
            median or 0.0,
            high or 0.0,
            count,
            held=1.0 if held is None or amounts.is_of_window else held,
            warm=None if amounts.is_of_window else warm,
            total=total,
            kinds=tuple(
                KindOfSteps(int(whole[0]), int(own[0]), own[1], own[2], None if values is None else tuple(values))
                for own, whole, values in zip(kinds, every, each, strict=True)
            ),
        )
        for name, is_all, low, median, high, count, held, warm, total, kinds, each in rows
    }


def _statement(database: Database, amounts: _Amounts, measure: str, only: Iterable[Keys] | None, chosen: str) -> str:
    names = None if only is None else ", ".join(literal(_BETWEEN.join(map(str, keys))) for keys in only)
    is_one_job = bool(database.rows("from _several_ranks limit 1"))  # ranks take a step together
    return sql.statement(
        "spread_of_rows", amounts=amounts.view, measure=measure, chosen=chosen, counted=counting(database),
        named=amounts.named.format(view=amounts.view),
        wanted="true" if names is None else f"name in ({names})" if names else "false",
        process="process" if amounts.has_processes else "0",
        whose="0" if is_one_job else "amount.source_id",
        steps_of_all="(select count(distinct source_id) from step)" if is_one_job else "1", few=str(FEW_STEPS),
    )  # fmt: skip


def _keys(amounts: _Amounts, name: str, is_all: int) -> Keys:
    if is_all:
        return ()
    return (name,) if amounts.has_one_key else tuple(name.split(_BETWEEN))
