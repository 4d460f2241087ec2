"""How much the steps of one input differ among themselves, by which a difference between two inputs is judged.

The spread of a row is the distance between the quartiles of what each step has of it, over the steps that have any; of
fewer than five steps between the extremes: one in three that waits for input says as much as the other two. A
difference of no more than half of both spreads is within them: the middle halves of the steps overlap. With fewer than
three steps no spread is known.

A loop that waits for input in every other step has two kinds of steps, and a median that says little: there the mean
counts, where it differs by more than three standard errors. What comes in turns is no noise: of steps that are long and
short by turns each pair is as long as any other, so the error is the least of that of single steps, of pairs and of
fours (batch means).
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...analyze.store.database import Database
from ...sql import literal, quoted
from ..sources import counting
from ..step_text import is_uneven

LEAST_STEPS = 3
_ERRORS = 3  # by so many standard errors means differ that are no accident
_LEAST_MEAN = 0.05  # a smaller change of the mean is left to the medians
_BATCHES = (1, 2, 4)
FEW_STEPS = 5  # of fewer the extremes take the place of the quartiles
Keys = tuple[Any, ...]
_BETWEEN = "\x1f"  # of several names that are one key


@dataclass(frozen=True)
class Spread:
    """The quartiles of a number over warm steps, and how many of them have it."""

    low: float
    median: float
    high: float
    step_cnt: int
    mean: float | None = None  # of warm steps
    error: float | None = None  # its standard error
    held: float = 1.0  # how much of all there is lies in steps, a fraction
    warm: float | None = None  # how much of it lies in warm ones; None where that is not known
    total: float | None = None  # all there is

    @property
    def width(self) -> float | None:
        """The distance between the quartiles, None where too few steps say it."""
        return self.high - self.low if self.step_cnt >= LEAST_STEPS else None

    def scaled(self, factor: float) -> "Spread":
        """The same on another clock."""
        return Spread(
            self.low * factor, self.median * factor, self.high * factor, self.step_cnt, held=self.held, warm=self.warm
        )  # fmt: skip

    @property
    def frac(self) -> float | None:
        """The same as a fraction of the median."""
        return None if self.width is None or not self.median else self.width / self.median


def centres(first: Spread, other: Spread) -> tuple[float, float]:
    """The numbers by which two are compared: their medians, or their means (have_other_means)."""
    if first.mean is not None and other.mean is not None and have_other_means(first, other):
        return first.mean, other.mean
    return first.median, other.median


def are_alike(first: Spread, other: Spread) -> bool:
    """Whether the difference of two lies within their spread, and that of their means is no more than an accident."""
    change = other.median - first.median
    return not have_other_means(first, other) and is_within(change, first.width, other.width)


@dataclass(frozen=True)
class _Amounts:
    """Where the amounts of one row are, each with the moment at which it was asked for."""

    found_in: str
    alias: str  # of the rows of `found_in` that have the source
    key: str
    at_ns: str
    values: dict[str, str]
    own: str = "true"
    named_by: str = "select name_id as key, text as name from name"
    has_one_key: bool = True  # else the name is of several, with _BETWEEN between them
    process: str = "coalesce(gpu_op.process_id, 0)"  # whose steps have it: processes of a file run side by side
    is_of_window: bool = False  # adds up to a device's window with what is not known by step: nothing is left out


_THREAD = """(
    select process from _work_process as own where own.source_id = {0}.source_id and own.thread_id = {0}.thread_id)"""
_ANY = "0"  # of what no process has alone
# A kernel without a launch, where calls are recorded, was launched before the recording, and in none of its steps.
_GPU = """coalesce(gpu_op.launch_start_ns, case
    when gpu_op.kind <> 'kernel' or gpu_op.source_id not in (select source_id from api_call) then gpu_op.start_ns
end)"""
_GPU_NS = "gpu_op.end_ns - gpu_op.start_ns"
_MEASURED = ("gpu_op_cnt", "kernel_cnt", "launch_cnt", "launch_api_ns", "queue_ns", "launch_latency_ns", "gpu_op_ns",
             "kernel_ns", "gpu_busy_ns")  # fmt: skip
# Ranges that are in no other one but those around whole steps, which hold more and begin in none.
_OUTERMOST = """range.range_id not in (from _around_step)
    and (range.parent_id is null or range.parent_id in (from _around_step))"""
_LORA = "gpu_op join _lora_reach as reached using (attribution_id) join _lora_path as place using (path_id)"
_AMOUNTS = {
    "range_summary": _Amounts(
        "range left join range_measure using (range_id)", "range", "range.path_id", "range.start_ns",
        {"wall_ns": "range.end_ns - range.start_ns", "range_cnt": "1"} | {m: f"range_measure.{m}" for m in _MEASURED},
        "range.kind = 'annotation'", "select path_id as key, path as name from range_path",
        process=_THREAD.format("range"),
    ),
    "kernel_summary": _Amounts(
        "gpu_op", "gpu_op", "gpu_op.name_id", _GPU, {"kernel_ns": _GPU_NS, "kernel_cnt": "1"}, "gpu_op.kind = 'kernel'",
    ),
    "kernel_class": _Amounts(
        """gpu_op left join _owner as own using (attribution_id) join _op_class as op_class
        on op_class.name_id = gpu_op.name_id and work_kind(op_class.kind) = gpu_op.kind
        and op_class.path_id is not distinct from own.path_id""",
        "gpu_op", "op_class.class", _GPU, {"gpu_op_ns": _GPU_NS, "gpu_op_cnt": "1"},
        named_by="""select class as key, class as name from kernel_class_rule
        union values ('copy', 'copy'), ('other', 'other')""",
    ),
    "operator_summary": _Amounts(
        "gpu_op join range as call on call.range_id = gpu_op.operator_id", "gpu_op", "call.name_id", _GPU,
        {"self_gpu_ns": _GPU_NS},
    ),
    "api_summary": _Amounts(
        "api_call", "api_call", "api_call.name_id", "api_call.start_ns",
        {"call_ns": "api_call.end_ns - api_call.start_ns", "call_cnt": "1"}, "not api_call.is_duplicate",
        process=_THREAD.format("api_call"),
    ),
    "idle_summary": _Amounts(
        "_blamed_gap", "_blamed_gap", "_blamed_gap.cause", "_blamed_gap.start_ns",
        {"idle_ns": "_blamed_gap.idle_ns", "gap_cnt": "1"},
        named_by="select distinct cause as key, cause as name from _blamed_gap", process=_ANY, is_of_window=True,
    ),
    "lora_summary": _Amounts(
        _LORA, "gpu_op", "concat_ws(chr(31), place.module, place.part, reached.direction)", _GPU,
        {"gpu_op_ns": _GPU_NS, "gpu_op_cnt": "1"}, "place.is_part",
        """select distinct concat_ws(chr(31), module, part, direction) as key, key as name
        from _lora_reach join _lora_path using (path_id) where is_part""",
        has_one_key=False,
    ),
    "adapter_summary": _Amounts(
        _LORA, "gpu_op", "concat_ws(chr(31), place.adapter, reached.direction)", _GPU,
        {"gpu_op_ns": _GPU_NS, "gpu_op_cnt": "1"}, "place.adapter is not null and place.part <> 'base'",
        """select distinct concat_ws(chr(31), adapter, direction) as key, key as name
        from _lora_reach join _lora_path using (path_id) where adapter is not null and part <> 'base'""",
        has_one_key=False,
    ),
}  # fmt: skip


def of_steps(database: Database, measure: str = "length_ns") -> Spread | None:
    """The quartiles and the mean of a column of step_summary, of warm steps; None where none of them has it.

    A step without a phase that others have spends nothing in it.
    Of several ranks the mean of a step counts: they take it together. Adapters in turn are one step.
    """
    value = quoted(measure)
    is_one_job = bool(database.rows("from _several_ranks limit 1"))
    ((low, median, high, warm),) = database.rows(
        f"""select {_quartiles("warm")}, list(warm::double order by source_id, turn_id) filter (warm is not null)
        from (
            select min(source_id) as source_id, min(turn_id) as turn_id, avg(warm) as warm
            from (
                select source_id, turn_id, any_value(step) as step,
                    if(min(start_ns) >= coalesce(any_value(first_step_ns), min(start_ns)), coalesce(sum({value}),
                        if(max(sum({value})) over (partition by source_id) is null, null, 0)), null) as warm
                from _turned_step
                left join (select source_id, first_step_ns from _steady_time) as steady using (source_id)
                group by source_id, turn_id
            )
            where source_id in (select source_id from source where {counting(database)})
            group by {"step" if is_one_job else "source_id, turn_id"}
        )"""
    )
    return Spread(low, median, high, len(warm), statistics.fmean(warm), _error_of_mean(warm)) if warm else None


def _error_of_mean(values: list[float]) -> float | None:
    """The standard error of the mean: the least by batches of 1, 2 and 4 that follow one another, of five or more."""
    found = []
    for size in _BATCHES:
        batches = [statistics.fmean(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]
        if len(batches) >= (FEW_STEPS if size > 1 else 2):
            found.append(statistics.stdev(batches) / math.sqrt(len(batches)))
    return min(found, default=None)


def have_other_means(first: Spread, other: Spread) -> bool:
    """Whether means tell apart what medians cannot, or say better what uneven steps take."""
    if first.mean is None or other.mean is None or first.error is None or other.error is None:
        return False
    change = abs(other.mean - first.mean)
    if change <= _ERRORS * math.hypot(first.error, other.error) or change <= _LEAST_MEAN * first.mean:
        return False
    are_uneven = is_uneven(first.mean, first.median) or is_uneven(other.mean, other.median)
    return are_uneven or is_within(other.median - first.median, first.width, other.width)


def said_of_steps(database: Database) -> str:
    """How many steps there are, of processes in one file of each, and how many of them are cold."""
    ((cold,),) = database.rows(
        "select coalesce(sum(cold_step_cnt), 0)::bigint from _steady_time join source using (source_id) "
        f"where {counting(database)}"
    )
    return _said_of_all_steps(database) + (f", {cold} of them cold" if cold else "")


def _said_of_all_steps(database: Database) -> str:
    ((every, numbered, processes, inputs),) = database.rows(
        f"""select count(*), count(distinct (source_id, step)), count(distinct (source_id, process)),
            count(distinct source_id)
        from _step left join _work_process using (source_id, thread_id)
        where source_id in (select source_id from source where {counting(database)})"""
    )
    if processes > inputs == 1 and every == numbered * processes:
        return f"{numbered} steps in each of {processes} processes"
    if processes == inputs == 1 and numbered < every and every % numbered == 0:  # adapters in turn
        return f"{numbered} step{'s' if numbered > 1 else ''} of {every // numbered} turns"
    if inputs > 1 and every % inputs == 0 and database.rows("from _several_ranks limit 1"):
        return f"{every // inputs} step{'' if every == inputs else 's'} on each of {inputs} ranks"
    return "no steps" if not every else "1 step" if every == 1 else f"{every} steps"


def of_rows(database: Database, view: str, measure: str, only: Iterable[Keys] | None = None) -> dict[Keys, Spread]:
    """The spread of each row of a view over the steps, and under () that of all rows together.

    Empty for views whose amounts are not known by step. only: the rows that count.
    """
    amounts = _AMOUNTS.get(view)
    if amounts is None or measure not in amounts.values:
        return {}
    found = _asked(database, amounts, measure, only)
    if view != "range_summary" or only is not None:
        return found
    if measure in _AMOUNTS["kernel_summary"].values:  # ranges nest: all together is the work itself
        whole = _asked(database, _AMOUNTS["kernel_summary"], measure, None)
    else:
        whole = _asked(database, amounts, measure, None, _OUTERMOST)
    return found | {(): whole[()]} if () in whole else found


def _asked(
    database: Database, amounts: _Amounts, measure: str, only: Iterable[Keys] | None, also: str = "true"
) -> dict[Keys, Spread]:
    """The spreads of all rows and under () of their sum. Numbers stand for names until all is added up."""
    names = None if only is None else ", ".join(literal(_BETWEEN.join(map(str, keys))) for keys in only)
    wanted = "" if names is None else f"where name in ({names})" if names else "where false"
    process = _ANY if amounts.process == _ANY else "own.process"
    rows = database.rows(
        f"""with step as (
            select source_id, step, start_ns, end_ns, {process} as process,
                coalesce(min(start_ns) over (partition by source_id, step) >= first_step_ns, true) as is_warm
            from _step join _work_process as own using (source_id, thread_id)
            left join (select source_id, first_step_ns from _steady_time) as steady using (source_id)
            where source_id in (select source_id from source where {counting(database)})
        ),
        named as (from ({amounts.named_by}) {wanted}),
        amount as (
            select {amounts.alias}.source_id, {amounts.at_ns} as at_ns, {amounts.key} as key,
                {amounts.values[measure]} as value, {amounts.process} as process
            from {amounts.found_in} where {amounts.own} and {also}
        ),
        by_step as (
            select amount.key, amount.source_id, if(amount.at_ns <= step.end_ns, step.step, null) as step,
                amount.at_ns <= step.end_ns and step.is_warm as is_warm, sum(amount.value)::double as value
            from amount asof left join step
                on step.source_id = amount.source_id and step.process = amount.process
                and step.start_ns <= amount.at_ns
            where amount.source_id in (select source_id from step)
            group by all
        ),
        summed as (
            select named.name, grouping(named.name) as is_all, sum(by_step.value) as value,
                if(by_step.step is null or sum(by_step.value) <= 0, null, sum(by_step.value)) as inside,
                if(bool_and(by_step.is_warm), inside, null) as warm
            from by_step join named using (key)
            group by grouping sets ((named.name, source_id, step), (source_id, step))
        )
        select name, is_all, {_quartiles("warm")}, count(warm), coalesce(sum(inside), 0) / nullif(sum(value), 0),
            coalesce(sum(warm), 0) / nullif(sum(value), 0), sum(value)
        from summed group by name, is_all"""
    )
    return {
        _keys(amounts, name, is_all): Spread(
            low or 0.0,
            median or 0.0,
            high or 0.0,
            count,
            held=1.0 if held is None or amounts.is_of_window else held,
            warm=None if amounts.is_of_window else warm,
            total=total,
        )
        for name, is_all, low, median, high, count, held, warm, total in rows
    }


def _keys(amounts: _Amounts, name: str, is_all: int) -> Keys:
    if is_all:
        return ()
    return (name,) if amounts.has_one_key else tuple(name.split(_BETWEEN))


def _quartiles(value: str) -> str:
    number = f"{value}::double"
    return (
        f"if(count({value}) < {FEW_STEPS}, min({number}), quantile_cont({number}, 0.25)), "
        f"quantile_cont({number}, 0.5), "
        f"if(count({value}) < {FEW_STEPS}, max({number}), quantile_cont({number}, 0.75))"
    )


def is_within(change: float, *widths: float | None) -> bool:
    """Whether a change is no more than half of both spreads; False where one is not known."""
    known = [width for width in widths if width is not None]
    return len(known) == len(widths) and abs(change) <= sum(known) / 2
