"""What is known of ranks beside one another, in the database of a job: by the views that compare inputs of one.

A rank alone hands on what it knows by itself; here what depends on the others takes its place.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from ... import sql
from ...errors import InputError
from ...sql import literal, quoted
from ...vocabulary import WHOLE_FILE
from ..ranks import alike, matching
from ..store import views
from ..store.building import insert, tables_for_views
from ..store.database import Database
from ..store.jobs import overlaid
from . import folder, handed

_MOST_PLACES = 16  # parts that are opened for where a straggler's CPU was
# Rules that compare ranks: the others' rows are handed on.
_RULES = (
    "clock_drift",
    "collective_disagrees",
    "host_twice",
    "other_job",
    "rank_missing",
    "rank_twice",
    "steps_differ",
)
_FINDING = "straggler_rank"
_IS_REPLAYED = "exists(from _replayed_rank where without_ns is not null)"


def compare(new: Database, folders: Sequence[Path]) -> None:
    """Fill in what needs all ranks: matches, clocks, stragglers, and rules about them.

    folders: of the results, in the order of their inputs.
    """
    matching.complete(new)
    run = new.connection.execute
    for table, summed in (("_rank_part", ", sum(part_ns) as part_ns"), ("_rank_stretch", "")):
        run(sql.statement("ways_of_job", table=table, summed=summed))
    run(sql.statement("rank_waits_of_job"))
    _put(new, "_straggler", new.rows_of("_straggler"))
    _put(new, "_straggler_place", _places(new, folders))
    _put(new, "straggler", new.rows_of("straggler"))
    _for_now(new, "_replayed_rank", alike.rows(new))
    run("delete from _validation where rule in (select unnest(?))", [_RULES])  # of ranks alone
    for rule in sql.in_folder(sql.VALIDATIONS):
        if rule.name in _RULES:
            _add_rule(new, "_validation", rule, "")
        elif rule.name == "lost":
            where = f" where source_id in (select source_id from source_fact where item = {literal(WHOLE_FILE)})"
            _add_rule(new, "_validation", rule, where)
    for rule in sql.in_folder(sql.FINDINGS):
        if rule.name == _FINDING:
            _add_rule(new, "_predicted_finding", rule, "", f", saving_ns as limit_ns, {_IS_REPLAYED} as is_predicted")
    for statement in ("without_rank_waits", "rank_waits_of_windows", "hidden_of_job"):
        run(sql.statement(statement))
    run("create or replace table what_if as from what_if order by source_id, saving_ns desc nulls last, change")


def _add_rule(new: Database, table: str, rule: sql.SqlFile, where: str, more: str = "") -> None:
    new.connection.execute(f"insert into {quoted(table)} by name select *{more} from ({views.of_rule(rule)}){where}")


def _for_now(new: Database, view: str, rows: pa.Table) -> None:
    """These rows in the place of a view, for what is compared here: who opens the job makes its own."""
    new.connection.register("handed", rows)
    new.connection.execute(f"create temp table {quoted(view)} as from handed")
    new.connection.unregister("handed")


def _put(new: Database, view: str, rows: pa.Table) -> None:
    """A table of these rows in the place of a view."""
    tables_for_views(new, [view])
    insert(new, view, rows)


def _places(new: Database, folders: Sequence[Path]) -> pa.Table:
    """Where the CPUs of stragglers were that came late because they were idle, from their parts if these are there."""
    found = [new.table("from _straggler_place where false")]
    late = new.rows(
        f"""select source_id from _straggler where is_straggler and cause like 'idle%'
        group by source_id order by sum(kept_waiting_ns) desc, source_id limit {_MOST_PLACES}"""
    )
    for (source_id,) in late:
        part = folders[source_id - 1] / folder.PART
        try:
            with overlaid(new, part, source_id, handed.TABLES + handed.MATCHED):
                found.append(new.table(f"from _straggler_place where source_id = {source_id}"))
        except (InputError, FileNotFoundError):
            continue
    return pa.concat_tables(found)
