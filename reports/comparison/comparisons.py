"""What can be compared: views of a trace, what their rows are about, and which fits the inputs unless one says so."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import sql
from ...analyze.store.database import Database
from ...errors import UsageError
from ...sql import literal, quoted
from ..tables import narrowing
from ..tables.sources import counting

Values = dict[tuple[Any, ...], float]
_MOST = 0.5  # of the GPU's time in kernels: what ranges must hold to be what a comparison is about, unless one says so
LAUNCHED = "_launched_range"
# of single calls or allocations, what is the same in all rows, and moments
_ADDS_UP_TO_NOTHING = re.compile("(mean|median|min|max|stddev|largest|peak)_|start_ns$")
_PROCESSES = "select source_id, step, count(distinct process) as process_cnt from _compared_step group by all"


@dataclass(frozen=True)
class Comparison:
    """One view, the columns that name a row in every trace, and the measure unless the user names another."""

    view: str
    keys: tuple[str, ...]
    measure: str
    where: str = "true"
    is_per_step: bool = True
    table: str = "source"  # inputs without rows in it do not count
    on_cpu: str | None = None  # the measure where no input has GPU work
    found_in: str | None = None  # the view that has the values where that is another
    again: tuple[str, ...] = ()  # measures in which a row has what lies in other rows, too


COMPARISONS = {
    "range": Comparison("range_summary", ("path",), "kernel_ns", "kind = 'annotation'", on_cpu="wall_ns"),
    "operator": Comparison(
        "operator_summary",
        ("operator",),
        "self_gpu_ns",
        on_cpu="self_cpu_ns",
        again=("cpu_ns", "gpu_ns", "backward_gpu_ns"),
    ),
    "kernel": Comparison("kernel_summary", ("kernel_name",), "kernel_ns"),
    "class": Comparison("kernel_class", ("class",), "gpu_op_ns"),
    "lora": Comparison("lora_summary", ("module", "part", "direction"), "gpu_op_ns", on_cpu="wall_ns"),
    "adapter": Comparison("adapter_summary", ("adapter", "direction"), "gpu_op_ns", on_cpu="wall_ns"),
    "api": Comparison("api_summary", ("api_name",), "call_ns"),
    "idle": Comparison("idle_summary", ("cause",), "idle_ns"),
    "device": Comparison("gpu_timeline_summary", ("device_id",), "busy_ns"),
    "step": Comparison("step_summary", ("step",), "length_ns", is_per_step=False),
    "finding": Comparison("finding", ("rule", "place"), "saving_ns"),
    "memory": Comparison("memory_peak", ("device", "category"), "live_bytes", is_per_step=False, table="memory_event"),
}


def choose(by: str, measure: str | None) -> Comparison:
    """A comparison by its name, perhaps with another measure. Raises UsageError with the names that exist."""
    if by not in COMPARISONS:
        raise UsageError(f"--by {by}: choose one of {', '.join(COMPARISONS)}, of run directories also summary")
    chosen = COMPARISONS[by]
    (view,) = (v for v in sql.load() if v.name == chosen.view)
    every = [c.name for c in view.columns if re.search("_(ns|cnt|bytes)$", c.name)]
    columns = [name for name in every if not _ADDS_UP_TO_NOTHING.match(name) and name not in chosen.again]
    if measure is not None and measure not in columns:
        why = " does not add up" if measure in every else ""
        if measure in chosen.again:
            why = " counts what runs within others again"
        raise UsageError(f"--measure {measure}{why}: choose one of {', '.join(columns)}")
    return chosen if measure is None else replace(chosen, measure=measure, on_cpu=None)


def of_one_device(how: Comparison, databases: Sequence[Database], number: int) -> Comparison:
    """The comparison of one device's rows. Raises UsageError with the devices that there are."""
    (column,) = {"device", "device_id"}.intersection(how.keys)
    there = {str(key[how.keys.index(column)]) for database in databases for key in values_of(database, how)}
    pattern = narrowing.of_device(number)
    if not any(re.search(pattern, device) for device in there):
        named = sorted(there, key=lambda text: (len(text), text))
        raise UsageError(f"--device {number}: there are {narrowing.some_of(named) or 'none'}")
    return replace(how, where=f"{how.where} and regexp_matches({column}::varchar, {literal(pattern)})")


def natural(databases: Sequence[Database]) -> str:
    """What inputs are compared by unless one says so.

    Memory where one is a snapshot of an allocator, which has nothing else. Ranges; kernels where those of an input hold
    little of its GPU time; operators of recordings without either. Raises UsageError for a snapshot beside what has no
    memory.
    """
    if not all(db.rows(f"select 1 from source where {counting(db)} and kind_has_work(kind)") for db in databases):
        if not all(db.rows("select 1 from memory_event limit 1") for db in databases):
            raise UsageError(
                "one input is a snapshot of memory alone, and another has none recorded: nothing in common"
            )
        return "memory"
    if any(_held(database) < _MOST for database in databases):
        return "kernel"
    if any(db.rows("select 1 from gpu_op limit 1") for db in databases):
        return "range" if any(values_of(database, COMPARISONS["range"]) for database in databases) else "operator"
    # of the CPU's time: where an input has no range, or one around everything, operators say more
    paths = [db.rows("select count(*) from range_summary where kind = 'annotation'")[0][0] for db in databases]
    has_operators = all(db.rows("select 1 from operator_summary limit 1") for db in databases)
    says_little = min(paths) == 0 or max(paths) <= 1
    return "operator" if not any(paths) or (has_operators and says_little) else "range"


def _held(database: Database) -> float:
    """The share of the GPU's time in kernels that outermost annotations hold; 1 without such time."""
    ((whole,),) = database.rows(
        f"select sum(kernel_ns) from kernel_summary where source_id in "
        f"(select source_id from source where {counting(database)})"
    )
    held = 0.0
    last = "/"
    for (path,), time in sorted(values_of(database, COMPARISONS["range"]).items()):
        if not path.startswith(f"{last}/"):
            held, last = held + time, path
    return held / whole if whole else 1.0


def fitting(how: Comparison, databases: dict[str, Database]) -> Comparison:
    """The comparison with a measure that all inputs have: where one is without GPU work the CPU's time.

    Ranges have the backward of what ran in them where all inputs with GPU work say which that is, or none does.
    """
    if how.on_cpu is None:
        return how
    with_work = [db for db in databases.values() if db.rows("select 1 from gpu_op limit 1")]
    if len(with_work) < len(databases):  # what was not recorded is not nothing
        return replace(how, measure=how.on_cpu)
    linked = "select 1 from range_summary where sequence_kernel_ns > 0 limit 1"
    is_apart = how.view == "range_summary" and len({bool(db.rows(linked)) for db in with_work}) > 1
    return replace(how, found_in=LAUNCHED) if is_apart else how


def values_of(database: Database, how: Comparison) -> Values:
    """What each row of a comparison has in all."""
    keys = ", ".join(map(quoted, how.keys))
    counted = f"select source_id from source where {counting(database, how.table)}"
    if how.view == "memory_peak":  # of several ranks that which needs most: no device holds what they have together
        counted = (
            f"select source_id from memory_peak where source_id in ({counted}) "
            "group by source_id order by sum(live_bytes) desc, source_id limit 1"
        )
    is_together = how.view == "step_summary" and database.rows("from _several_ranks limit 1")  # a step is that of all
    rows_of, share = f"(select * from {quoted(how.found_in or how.view)} where {how.where})", "1"
    if how.view == "step_summary":  # processes of a file take it side by side
        rows_of += f" left join ({_PROCESSES}) using (source_id, step)"
        share = "coalesce(any_value(process_cnt), 1)"
    rows = database.rows(
        f"select * exclude (source_id, value), {'avg' if is_together else 'sum'}(value)::double "
        f"from (select {keys}, source_id, sum({quoted(how.measure)}) / {share} as value "
        f"from {rows_of} where source_id in ({counted}) group by all) group by all"
    )
    return {row[:-1]: row[-1] for row in rows if row[-1] is not None}
