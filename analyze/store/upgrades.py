"""Databases of earlier versions, read through steps that each go from one version of the tables to the next.

Nothing is written: a step is a select in the place of a table. `{before}` is the table as it was, or what the step
before made of it. A version from before the first step is refused.

    their tables (version 6) ─► step 6 ─► step 7 ─► … ─► step 17 ─► the tables that views expect (version 18)
"""

from functools import cache

from ...errors import InputError
from ...sql import TABLES, in_folder, literal, quoted
from ...vocabulary import MEMORY_CATEGORIES, SOURCE_NSYS, SOURCE_SNAPSHOT

SCHEMA_VERSION = 18
DEFINED_SINCE = 10  # the first in which all is kept that definitions go by

_CATEGORIES = ", ".join(f"({number}, {literal(name)})" for number, name in enumerate(MEMORY_CATEGORIES))
_IS_SNAPSHOT = f"source_id in (select source_id from {{theirs}}.source where kind = {literal(SOURCE_SNAPSHOT)})"


def _with_nulls(table: str, kept: tuple[str, ...] = ()) -> str:
    """A select of all columns of a table, NULL in those that the version before did not have."""
    (columns,) = (file.columns for file in in_folder(TABLES) if file.name == table)
    chosen = (c.name if c.name in kept else f"null::{c.sql_type} as {c.name}" for c in columns)
    return f"select {', '.join(chosen)}" + (" from {before}" if kept else "")


def _empty(*tables: str) -> dict[str, str]:
    """A table that the version before did not have has no rows."""
    return {table: f"{_with_nulls(table)} where false" for table in tables}


_KEPT_OF_COLLECTIVES = ("source_id", "thread_id", "start_ns", "end_ns", "name", "dtype", "in_element_cnt",
                        "out_element_cnt", "group_size")  # fmt: skip


@cache
def _steps() -> dict[int, dict[str, str]]:
    """What to select in the place of a table, by the version from which each step goes to the next."""
    return {
        6: {
            "memory_category": f"select * from (values {_CATEGORIES}) as categories(number, category)",
            # of a snapshot it was what tensors had asked for
            "memory_event": f"""select * replace (if({_IS_SNAPSHOT}, null, allocated_bytes) as allocated_bytes),
                if({_IS_SNAPSHOT}, allocated_bytes, null) as requested_bytes from {{before}}""",
            "set_work": "select *, null::integer as rule_cnt from {before}",
            "source": "select *, true as is_timed from {before}",
        },
        7: _empty("reach"),
        # steps that no range shows are found when an input is read; what is predicted is filled when it is asked for
        8: _empty("found_step", "replayed_step", "predicted_change", "followed_rule"),
        # collectives have kernels, and those of several ranks are matched, when inputs are read
        9: {
            "source": "select *, null::varchar as host from {before}",
            "collective": _with_nulls("collective", _KEPT_OF_COLLECTIVES),
            **_empty("matched_collective", "clock"),
        },
        10: {"run_step": "select *, null::bigint as real_token_cnt from {before}"},
        11: {"waiting_call": "select * from defined_waiting_call"},
        # copies that their calls feed are waited for as well
        12: {
            "waiting_call": "select * from defined_waiting_call",
            "memory_category": f"select * from (values {_CATEGORIES}) as categories(number, category)",
            **_empty("os_call"),
        },
        13: {"out_of_memory_event": "select *, null::bigint as reserved_bytes from {before}"},
        14: _empty("sampled_frame"),
        15: _empty("gpu_metric_sample"),
        # clocks of CPU and GPU are a little apart
        16: {"waiting_call": "select * from defined_waiting_call", **_empty("kernel_counter")},
        17: _empty("call_frame"),
    }


# What an earlier version did not read of an input, by the step that leaves it empty: which inputs lack it, and what.
_UNREAD = {
    8: (
        "kind_has_work(kind) and source_id not in "
        "(select source_id from {theirs}.range join {theirs}.name using (name_id) where text ilike '%step%')",
        "steps that no range shows",
    ),
    9: ("(select count(distinct rank) from {theirs}.source) > 1", "collectives of several ranks and their clocks"),
    12: (f"kind = {literal(SOURCE_NSYS)}", "calls of the operating system"),
    14: (
        "source_id in (select source_id from {theirs}.source_fact where item = 'samples of the CPU')",
        "samples of the CPU",
    ),
    16: (
        "source_id in (select source_id from {theirs}.source_fact where item = 'events X cuda_profiler_range')",
        "hardware counters of kernels",
    ),
    17: (
        "source_id in (select distinct source_id from {theirs}.api_call where is_duplicate)",
        "stacks of CUDA calls",
    ),
}
_FORMER = "('kernel_wait_ns', 1000.0), ('memory_share_frac', 0.25)"  # defaults that were others: nobody set them
# What was set is theirs; what is built in is ours, whenever a database was made: what views ask for is there.
_SETTINGS = {
    "threshold": """select ours.name, coalesce(theirs.value, ours.value) as value, ours.doc from {ours} as ours
        left join (
            select name, any_value(value) as value from {before}
            where (name, value) not in (select (name, value) from (values {former}) as former(name, value))
            group by name
        ) as theirs using (name)""".replace("{former}", _FORMER),
    "kernel_class_rule": "select * from {before} where priority < 0 union all from {ours} where priority >= 0",
    "device_peak": "from {ours}",
}
OURS = {table: f"built_in_{table}" for table in _SETTINGS}  # what these tables of a blank database are called then


def _with_unread(facts: str, theirs: str, which: str, what: str) -> str:
    return f"""select source_id, section, item, value, note from {facts} union all
        select source_id, 'lost', {literal(what)}, 'not read by the lorabench that made this database',
            'analyze its inputs again'
        from {theirs}.source where {which.format(theirs=theirs)}"""


def relations(version: object, tables: list[str], theirs: str, name: object) -> dict[str, str]:
    """What to select from for each table of this version, given a database `theirs` of another one.

    Raises InputError for a version that no step begins with; `name` is the database's name for it.
    """
    if not isinstance(version, int) or version not in (*_steps(), SCHEMA_VERSION):
        is_newer = isinstance(version, int) and version > SCHEMA_VERSION
        advice = "update lorabench" if is_newer else "run `lorabench analyze` on its input again"
        versions = f"schema {version}, this one has {SCHEMA_VERSION}"
        raise InputError(f"{name} was made by another version of lorabench ({versions}); {advice}")
    found = {table: f"{theirs}.{quoted(table)}" for table in tables}
    for step in range(version, SCHEMA_VERSION):
        for table, select in _steps()[step].items():
            found[table] = f"({select.format(before=found[table], theirs=theirs)})"
        if step in _UNREAD:
            found["source_fact"] = f"({_with_unread(found['source_fact'], theirs, *_UNREAD[step])})"
    for table, select in _SETTINGS.items():
        found[table] = f"({select.format(before=found[table], ours=OURS[table])})"
    return found
