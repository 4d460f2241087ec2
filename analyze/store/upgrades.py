"""Databases of earlier versions, read through steps that each go from one version of the tables to the next.

Nothing is written: a step is a select in the place of a table. `{before}` is the table as it was, or what the step
before made of it. A version from before the first step is refused.

    their tables (version 6) ─► step 6 ─► step 7 ─► step 8 ─► the tables that views expect (version 9)
"""

from ...errors import InputError
from ...sql import TABLES, in_folder, literal, quoted
from ...vocabulary import MEMORY_CATEGORIES, SOURCE_SNAPSHOT

SCHEMA_VERSION = 9

_CATEGORIES = ", ".join(f"({number}, {literal(name)})" for number, name in enumerate(MEMORY_CATEGORIES))
_IS_SNAPSHOT = f"source_id in (select source_id from {{theirs}}.source where kind = {literal(SOURCE_SNAPSHOT)})"
_EMPTY = {
    file.name: f"select {', '.join(f'null::{column.sql_type} as {column.name}' for column in file.columns)} where false"
    for file in in_folder(TABLES)
}
_STEPS: dict[int, dict[str, str]] = {
    6: {
        "memory_category": f"select * from (values {_CATEGORIES}) as categories(number, category)",
        # of a snapshot it was what tensors had asked for
        "memory_event": f"""select * replace (if({_IS_SNAPSHOT}, null, allocated_bytes) as allocated_bytes),
            if({_IS_SNAPSHOT}, allocated_bytes, null) as requested_bytes from {{before}}""",
        "set_work": "select *, null::integer as rule_cnt from {before}",
        "source": "select *, true as is_timed from {before}",
    },
    7: {"reach": _EMPTY["reach"]},
    # steps that no range shows are found when an input is read; what is predicted is filled when it is asked for
    8: {name: _EMPTY[name] for name in ("found_step", "replayed_step", "predicted_change", "followed_rule")},
}


def relations(version: object, tables: list[str], theirs: str, name: object) -> dict[str, str]:
    """What to select from for each table of this version, given a database `theirs` of another one.

    Raises InputError for a version that no step begins with; `name` is the database's name for it.
    """
    if not isinstance(version, int) or version not in (*_STEPS, SCHEMA_VERSION):
        is_newer = isinstance(version, int) and version > SCHEMA_VERSION
        advice = "update lorabench" if is_newer else "run `lorabench analyze` on its input again"
        versions = f"schema {version}, this one has {SCHEMA_VERSION}"
        raise InputError(f"{name} was made by another version of lorabench ({versions}); {advice}")
    found = {table: f"{theirs}.{quoted(table)}" for table in tables}
    for step in range(version, SCHEMA_VERSION):
        for table, select in _STEPS[step].items():
            found[table] = f"({select.format(before=found[table], theirs=theirs)})"
    return found
