"""What is computed of a finished database by arrays and not by its views' statements, for those who ask for it.

The modules that compute it take longer to load than a small table takes to show: they are loaded when asked for.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from ..errors import CorruptInputError, OutputError
from ..sql import literal, quoted
from .store.building import insert, tables_for_views
from .store.database import Database
from .store.limits import QUERY_MEMORY

if TYPE_CHECKING:
    import pyarrow as pa

_SHORTCUTS = (
    "_device_activity", "_exposed", "_blamed_gap", "_judged_gap", "_critical_range", "_op_class", "_fusible_run",
    "_steady_spent",
)  # fmt: skip
_PREDICTIONS = ("replayed_step", "predicted_change", "followed_rule")
# What many read (rules the same views, reports and comparisons the steps): planned in each statement it takes seconds
# in all.
_BY_STATEMENT = (
    "_stream_work", "_phase_name", "_predicted_finding", "_steady_time", "_step", "_step_pace",
    "_step_range", "step_summary", "_gap_wait", "_blamed_place", "_costly_place", "_place_gap",
    "_place_cpu", "_place_call", "_blamed_kernel", "_short_name", "_steady_kernel", "_work_process",
)  # fmt: skip
_FOUND = "_finding"  # of which the rules are asked that can find something
# What has no rows of a single rank, or where no memory is recorded: statements find that out slowly.
OF_RANKS = (
    "straggler", "_rank_activity", "_straggler_place", "_replayed_rank", "_rank_wait", "_late_rank_wait",
    "_answer_straggler", "_rank_copied",
)  # fmt: skip
_OF_MEMORY = (
    "_answer_memory", "_memory_without", "memory_by_category", "memory_peak", "memory_phase", "memory_timeline",
)  # fmt: skip
# What has few rows, and none where a statement has none, which is found out when somebody asks for it.
_OF_ANY_MEMORY = (
    "select 1 from memory_event union all select 1 from memory_segment union all select 1 from out_of_memory_event"
)
_OF_COUNTERS = "from gpu_metric_sample"
_ROWS_OF = {
    "_adapter_step": "from _lora_path where adapter is not null",
    "_dropped_launch": "from _launch_surplus",
    "_cpu_gap_place": "from source where source_id not in (from _source_with_gpu)",
    "_operator_bound": "from range where shape_id is not null",
    "_answer_counter": _OF_COUNTERS,
    "_metric_use": _OF_COUNTERS,
    "_metric_window": _OF_COUNTERS,
    "_metric_work": _OF_COUNTERS,
    "kernel_metric_summary": _OF_COUNTERS,
    "memory_finding": _OF_ANY_MEMORY,
    "memory_fragmentation": _OF_ANY_MEMORY,
    "metric_over_time": _OF_COUNTERS,
    "metric_summary": _OF_COUNTERS,
    "_place_caller": "from call_frame",
    "_place_sample": "from sampled_frame",
    "call_stack_summary": "from call_frame",
    "os_summary": "from os_call",
    "out_of_memory": "from out_of_memory_event",
    "pipeline_bubble": "from _stage",
    "range_metric_summary": _OF_COUNTERS,
    "sample_summary": "from sampled_frame",
}
# What a database that people keep has as rows: other programs have no arrays, and plan its views for minutes.
_KEPT = (
    *_BY_STATEMENT, _FOUND, *_PREDICTIONS, *OF_RANKS, "_operator_bound", "_steady_spent", "_critical_range",
    "_fusible_run", "_memory_turn", "_memory_block", "_memory_learning",
)  # fmt: skip
_MOST_KEPT = 100_000  # rows of one of them; else it stays a view
_WHOLE_REPLAYS = ("replayed_step", "predicted_change")
_MOST_REPLAYED = 2_000_000  # operations; replaying all of them takes a kilobyte of memory for each


def keep(new: Database) -> list[str]:
    """Put rows in the place of views in a database that is being built, so that other programs read what we read; the
    names of these.
    """
    fill(new)
    new.connection.execute(f"set memory_limit = {literal(QUERY_MEMORY)}")  # as for who opens it
    ((op_cnt,),) = new.rows("select count(*) from gpu_op")
    kept = {}
    for name in _KEPT if op_cnt <= _MOST_REPLAYED else [name for name in _KEPT if name not in _WHOLE_REPLAYS]:
        with suppress(CorruptInputError, OutputError):  # who reads the view will say so; the others need not suffer
            rows = new.table(f"from {quoted(name)}")
            if rows.num_rows <= _MOST_KEPT:
                kept[name] = rows
    tables_for_views(new, [name for name in kept if name not in _PREDICTIONS], is_described=True)
    for name, rows in kept.items():
        insert(new, name, rows)
    return list(kept)


def fill(opened: Database, without: Collection[str] = ()) -> Database:
    """The database, in which views read what arrays compute, but for those `without` or that are rows already."""
    found = _late(_SHORTCUTS, lambda: _shortcuts(opened)) | _late(_PREDICTIONS, lambda: _predictions(opened))
    by_statement = [*_BY_STATEMENT]
    if opened.rows("from _several_ranks limit 1"):
        by_statement.append("straggler")
        found |= _late(("_replayed_rank",), lambda: _replayed(opened))
    else:
        found |= {view: partial(opened.no_rows_of, view) for view in OF_RANKS}
    if not opened.rows("from memory_event limit 1"):
        found |= {view: partial(opened.no_rows_of, view) for view in _OF_MEMORY}
    found |= {view: partial(_rows_if_any, opened, view, needed) for view, needed in _ROWS_OF.items()}
    found |= {view: partial(opened.rows_of, view) for view in by_statement}
    found[_FOUND] = partial(opened.rows_of_rules, _FOUND)
    ours = {name: make for name, make in found.items() if name not in opened.given.union(without)}
    opened.filling(ours, [*by_statement, *_ROWS_OF, _FOUND], once=True)
    return opened


def _rows_if_any(opened: Database, view: str, needed: str) -> "pa.Table":
    """The rows of a view, which is not asked where the statement of what it needs has none."""
    return opened.rows_of(view) if opened.rows(f"{needed} limit 1") else opened.no_rows_of(view)


def _late(
    names: Collection[str], load: "Callable[[], Mapping[str, Callable[[], pa.Table]]]"
) -> "dict[str, Callable[[], pa.Table]]":
    """The functions of these names that `load` returns; it is called when the first of them is."""
    loaded = cache(load)
    return {name: partial(lambda name: loaded()[name](), name) for name in names}


def _shortcuts(opened: Database) -> "Mapping[str, Callable[[], pa.Table]]":
    from .shortcuts import views

    return views.tables(opened)


def _predictions(opened: Database) -> "Mapping[str, Callable[[], pa.Table]]":
    from .predict.predictions import Predictions

    return Predictions(opened).tables()


def _replayed(opened: Database) -> "Mapping[str, Callable[[], pa.Table]]":
    from .ranks import alike

    return {"_replayed_rank": partial(alike.rows, opened)}
