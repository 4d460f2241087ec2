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
# A rank alone takes for communication what it waits for others; here is what exposed_communication says of several.
_WITHOUT_WAITING = """
    update _predicted_finding as found
    set saving_ns = late.left_ns * least(1, late.saved_ns / nullif(late.all_left_ns, 0)),
        limit_ns = late.left_ns,
        evidence = if(late.waited_ns > 0, regexp_replace(
            found.evidence, '(, the most in |$)', said_waiting(late.waited_ns, found.limit_ns) || '\\1'
        ), found.evidence)
    from (
        select found.source_id, found.place, coalesce(late.waited_ns, 0) as waited_ns,
            greatest(0, found.limit_ns - coalesce(late.waited_ns, 0)) as left_ns,
            sum(left_ns) over (partition by found.source_id) as all_left_ns,
            sum(found.saving_ns) over (partition by found.source_id) as saved_ns
        from _predicted_finding as found
        left join (
            select source_id, if(device_id is null, null, place) as place, device_id is null as is_cpu,
                sum(waited_ns) / greatest(1, count(distinct device_id)) as waited_ns
            from _late_rank_wait
            group by all
        ) as late
            on late.source_id = found.source_id and (late.is_cpu or late.place is not distinct from found.place)
        where found.rule = 'exposed_communication'
    ) as late
    where found.rule = 'exposed_communication' and late.source_id = found.source_id
        and late.place is not distinct from found.place"""
_RANK_WAIT = """
    update steady_state as steady
    set rank_wait_ns = least(late.waited_ns, steady.exposed_communication_ns)
    from (select source_id, device_id, sum(waited_ns) as waited_ns from _late_rank_wait group by all) as late
    where late.source_id = steady.source_id and late.device_id = steady.device_id"""

# A rank alone does not know what hiding communication saves: as the view what_if of several ranks has it.
_HIDDEN = """
    update what_if as change
    set step_ns = (hidden.step_ns * (1 - hidden.saving_frac))::bigint,
        saving_ns = (hidden.step_ns * hidden.saving_frac)::bigint,
        saving_frac = hidden.saving_frac,
        replay_error_frac = hidden.error_frac,
        note = hidden.note
    from (
        select step.step_ns, found.*
        from _hidden_communication as found
        join _mean_step as step using (source_id)
    ) as hidden
    where change.change = 'hide-communication=*' and change.source_id = hidden.source_id"""


def compare(new: Database, folders: Sequence[Path]) -> None:
    """Fill in what needs all ranks: matches, clocks, stragglers, and rules about them.

    folders: of the results, in the order of their inputs.
    """
    matching.complete(new)
    for name, value in (("_rank_part", "sum(part_ns) as part_ns"), ("_rank_stretch", None)):
        new.connection.execute(
            f"""create or replace table {quoted(name)} as
            select * replace (min(start_ns) as start_ns, max(end_ns) as end_ns{f", {value}" if value else ""})
            from (
                select way.* replace (matched.collective_id as collective_id, matched.step as step)
                from {quoted(name)} as way
                join _next_matched as matched on matched.part_id = way.collective_id
            )
            group by all
            union all by name from {quoted(name)} where collective_id is null"""
        )
    new.connection.execute(
        """create or replace table _rank_wait as
        select wait.* replace (matched.step as step)
        from _rank_wait as wait
        join matched_collective as matched using (collective_id)
        where matched.match_id is not null"""
    )
    _put(new, "_straggler", new.rows_of("_straggler"))
    _put(new, "_straggler_place", _places(new, folders))
    _put(new, "straggler", new.rows_of("straggler"))
    _for_now(new, "_replayed_rank", alike.rows(new))
    new.connection.execute("delete from _validation where rule in (select unnest(?))", [_RULES])  # of ranks alone
    for rule in sql.in_folder(sql.VALIDATIONS):
        if rule.name in _RULES:
            _add_rule(new, "_validation", rule, "")
        elif rule.name == "lost":
            where = f" where source_id in (select source_id from source_fact where item = {literal(WHOLE_FILE)})"
            _add_rule(new, "_validation", rule, where)
    for rule in sql.in_folder(sql.FINDINGS):
        if rule.name == _FINDING:
            _add_rule(new, "_predicted_finding", rule, "", f", saving_ns as limit_ns, {_IS_REPLAYED} as is_predicted")
    new.connection.execute(_WITHOUT_WAITING)
    new.connection.execute(_RANK_WAIT)
    new.connection.execute(_HIDDEN)
    new.connection.execute(
        "create or replace table what_if as from what_if order by source_id, saving_ns desc nulls last, change"
    )


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
