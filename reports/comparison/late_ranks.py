"""Of inputs of several ranks which rank holds the others up in each, so that a change is seen to have helped or not."""

from collections.abc import Sequence
from typing import Any

from ...analyze.store.database import Database
from ..answer.answer import MOSTLY
from ..answer.step_text import late_in
from ..tables import units
from ..tables.sources import counting
from .compared import letter

_NAMED = 8  # ranks that are late together
_LATE = """
    select rank, list(coalesce(step, -1)) as steps, sum(kept_waiting_ns)::bigint as kept_waiting_ns
    from straggler
    where is_straggler
    group by rank
    order by kept_waiting_ns desc, rank"""
_SLOWEST = (
    "from _slowest_rank where kind in (select kind from source where {counting}) order by kept_waiting_ns desc limit 1"
)


def said(databases: Sequence[Database]) -> str:
    """Who is late in each, and how long the others wait for it in a step; "" where that is so in none of them."""
    several = {letter(number): database for number, database in enumerate(databases) if _rank_cnt(database) > 1}
    late = {name: _slowest(database) for name, database in several.items()}
    if not any(late.values()):
        return ""
    # who is late first: that says what the others do or do not
    parts = [f"in {name} {text}" for name, text in late.items() if text]
    parts += [f"in {name} {_of_none_late(several[name])}" for name, text in late.items() if not text]
    return f"ranks: {', '.join(parts)}"


def _rank_cnt(database: Database) -> int:
    ((count,),) = database.rows(f"select count(distinct rank) from source where {counting(database)}")
    return int(count)


def _of_none_late(database: Database) -> str:
    is_known = bool(database.rows("select 1 from straggler where kept_waiting_ns is not null limit 1"))
    return "no rank does" if is_known else "it is not known which rank comes late"


def _slowest(database: Database) -> str:
    """The rank for which the others wait longest; "" where none is a straggler."""
    rows = database.dicts(_SLOWEST.format(counting=counting(database)))
    if not rows:
        return ""
    (row,) = rows
    late_cnt, step_cnt = row["straggler_cnt"], row["step_cnt"] or 0
    each_ns = row["kept_waiting_ns"] / max(1, row["rank_cnt"] - 1)
    waited = f"they wait {units.said_ns(each_ns)}, on average"
    if step_cnt > 1:
        waited = (
            f"late in {late_in(late_cnt, step_cnt)}, they wait {units.said_ns(each_ns / step_cnt)} a step on average"
        )
    late = database.dicts(_LATE)
    if row["kept_waiting_ns"] < MOSTLY * sum(one["kept_waiting_ns"] for one in late):
        return _of_several(row, late)
    cause = f"; cause: {row['cause'].replace('_', ' ')}" if row["cause"] else ""
    return f"rank {row['rank']} holds the others up ({waited}{cause})"


def _of_several(row: dict[str, Any], late: Sequence[dict[str, Any]]) -> str:
    """Of ranks that are late in turn how often, of ranks that are late together which; and how long others wait.

    row: the slowest of them, of _slowest_rank; late: all of them, of _LATE.
    """
    late_cnt, step_cnt = row["straggler_cnt"], max(1, row["step_cnt"] or 0)
    all_ns = sum(one["kept_waiting_ns"] for one in late)
    own = {step for one in late if one["rank"] == row["rank"] for step in one["steps"]}
    together = sorted(one["rank"] for one in late if 2 * len(own.intersection(one["steps"])) > late_cnt)
    if 1 < len(together) < row["rank_cnt"]:
        each = units.said_ns(all_ns / (row["rank_cnt"] - len(together)) / step_cnt)
        named = ", ".join(map(str, together[:_NAMED])) + (" …" if together[_NAMED:] else "")
        often = f"late in {late_in(late_cnt, step_cnt)}, they wait {each} a step on average"
        return f"ranks {named} hold the others up ({often})"
    others_cnt = sum(len(one["steps"]) for one in late) - late_cnt
    each = units.said_ns(all_ns / max(1, row["rank_cnt"] - 1) / step_cnt)
    often = f"late in {late_in(late_cnt, step_cnt)}, others in {others_cnt}; {each} a step"
    return f"ranks hold each other up in turn (rank {row['rank']} most: {often})"
