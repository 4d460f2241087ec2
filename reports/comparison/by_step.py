"""What the steps of an input have of each row of a view, and how long they are: asked of its database."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...analyze.store.database import Database
from ...sql import literal, quoted
from ..tables.sources import counting
from .spread import FEW_STEPS, KindOfSteps, Spread

Keys = tuple[Any, ...]
_BETWEEN = "\x1f"  # of several names that are one key


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
# A kernel without a launch, where calls are recorded, was launched before the recording, and in none of its steps;
# unless these are no ranges but stretches of time (_step_work).
_GPU = """coalesce(gpu_op.launch_start_ns, case
    when gpu_op.kind <> 'kernel' or gpu_op.source_id not in (select source_id from api_call)
        or gpu_op.source_id in (select source_id from _step where range_id is null)
    then gpu_op.start_ns
end)"""
_GPU_NS = "gpu_op.end_ns - gpu_op.start_ns"
_MEASURED = ("gpu_op_cnt", "kernel_cnt", "launch_cnt", "launch_api_ns", "queue_ns", "launch_latency_ns", "gpu_op_ns",
             "kernel_ns", "gpu_busy_ns")  # fmt: skip
# Ranges that are in no other one but those around whole steps, which hold more and begin in none.
_OUTERMOST = """range.range_id not in (from _around_step)
    and (range.parent_id is null or range.parent_id in (from _around_step))"""
# Steps that do as much are of one kind: those that learn, those that only evaluate, micro steps, by their tokens.
_KIND = """concat_ws(' ', if(sum(backward_ns) is null, 'evaluates', 'learns'),
    if(sum(optimizer_ns) is null, 'without', 'with'), sum(token_cnt))"""
_KIND_CNT = 4
_FEW = 64  # steps, of which each is asked for: one that is far out says nothing of the others
_BY_KIND = f"""[{
    ", ".join(
        f"[count(of_step) filter (kind = {kind}), coalesce(sum(of_step) filter (kind = {kind}), 0), "
        f"coalesce(sum(of_step * of_step) filter (kind = {kind}), 0)]"
        for kind in range(_KIND_CNT)
    )
}], [{
    ", ".join(
        f"if(count(of_step) filter (kind = {kind}) <= {_FEW}, "
        f"list(of_step order by whose, step) filter (kind = {kind}), null)"
        for kind in range(_KIND_CNT)
    )
}]"""
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
    "gpu_timeline_summary": _Amounts(
        "_device_activity as stretch", "stretch", "stretch.device_id", "stretch.start_ns",
        {"busy_ns": "stretch.end_ns - stretch.start_ns"}, "stretch.activity = 'busy'",
        named_by="select distinct device_id as key, device_id as name from gpu_op", process=_ANY,
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
    ((low, median, high, steps),) = database.rows(
        f"""select {_quartiles("warm")}, list((kind, warm::double) order by source_id, turn_id)
            filter (warm is not null)
        from (
            select min(source_id) as source_id, min(turn_id) as turn_id, any_value(kind order by source_id) as kind,
                avg(warm) as warm
            from (
                select source_id, turn_id, any_value(step) as step, {_KIND} as kind,
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
    return Spread(low, median, high, len(steps), samples=tuple(steps)).with_mean() if steps else None


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
    rows = database.rows(_statement(database, amounts, measure, only, also))
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


def _statement(database: Database, amounts: _Amounts, measure: str, only: Iterable[Keys] | None, also: str) -> str:
    """The amounts of each name, and of all, by step: whose they are, how they spread, and sums by kinds of steps."""
    names = None if only is None else ", ".join(literal(_BETWEEN.join(map(str, keys))) for keys in only)
    wanted = "" if names is None else f"where name in ({names})" if names else "where false"
    process = _ANY if amounts.process == _ANY else "process"
    is_one_job = bool(database.rows("from _several_ranks limit 1"))  # ranks take a step together
    whose = "0" if is_one_job else "amount.source_id"
    return f"""with step as (
        select source_id, step, start_ns, end_ns, {process} as process, kind, is_warm
        from _compared_step
        where source_id in (select source_id from source where {counting(database)})
    ),
    named as (from ({amounts.named_by}) {wanted}),
    amount as (
        select {amounts.alias}.source_id, {amounts.at_ns} as at_ns, {amounts.key} as key,
            {amounts.values[measure]} as value, {amounts.process} as process
        from {amounts.found_in} where {amounts.own} and {also}
    ),
    by_step as (
        select amount.key, {whose} as whose,
            if(amount.at_ns <= step.end_ns, step.step, null) as step, any_value(step.kind) as kind,
            amount.at_ns <= step.end_ns and step.is_warm as is_warm, sum(amount.value)::double as value
        from amount asof left join step
            on step.source_id = amount.source_id and step.process = amount.process
            and step.start_ns <= amount.at_ns
        where amount.source_id in (select source_id from step)
        group by all
    ),
    summed as (
        select named.name, grouping(named.name) as is_all, whose, step, sum(by_step.value) as value,
            any_value(by_step.kind) as kind,
            if(by_step.step is null or sum(by_step.value) <= 0, null, sum(by_step.value)) as inside,
            if(bool_and(by_step.is_warm), inside, null) as warm,
            warm / {"(select count(distinct source_id) from step)" if is_one_job else 1} as of_step
        from by_step join named using (key)
        group by grouping sets ((named.name, whose, step), (whose, step))
    )
    select name, is_all, {_quartiles("of_step")}, count(of_step), coalesce(sum(inside), 0) / nullif(sum(value), 0),
        coalesce(sum(warm), 0) / nullif(sum(value), 0), sum(value), {_BY_KIND}
    from summed group by name, is_all"""


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
