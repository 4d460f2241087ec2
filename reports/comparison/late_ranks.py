"""Of inputs of several ranks which rank holds the others up in each, so that a change is seen to have helped or not."""

from collections.abc import Sequence

from ...analyze.store.database import Database
from ..tables import units
from ..tables.sources import counting
from .compared import letter

_SLOWEST = (
    "from _slowest_rank where kind in (select kind from source where {counting}) order by kept_waiting_ns desc limit 1"
)
_NOT_KNOWN = "it is not known which rank comes late"


def said(databases: Sequence[Database]) -> str:
    """Who is late in each, and how long the others wait for it in a step; "" where that is so in none of them."""
    known = {number: database for number, database in enumerate(databases) if _rank_cnt(database) > 1}
    found = {number: _slowest(database) for number, database in known.items()}
    if not any(text and text != _NOT_KNOWN for text in found.values()):
        return ""
    parts = [f"in {letter(number)} {text or 'no rank does'}" for number, text in found.items()]
    first = next(number for number, text in found.items() if text and text != _NOT_KNOWN)
    parts.insert(0, parts.pop([*found].index(first)))  # it says what the others do or do not
    return f"ranks: {', '.join(parts)}"


def _rank_cnt(database: Database) -> int:
    ((count,),) = database.rows(f"select count(distinct rank) from source where {counting(database)}")
    return int(count)


def _slowest(database: Database) -> str:
    """The rank for which the others wait longest; "" where none is a straggler."""
    with database.computing_once(("straggler",)):
        rows = database.dicts(_SLOWEST.format(counting=counting(database)))
        is_known = bool(database.rows("select 1 from straggler where kept_waiting_ns is not null limit 1"))
    if not rows:
        return "" if is_known else _NOT_KNOWN
    (row,) = rows
    late_cnt, step_cnt = row["straggler_cnt"], row["step_cnt"] or 0
    each_ns = row["kept_waiting_ns"] / max(1, row["rank_cnt"] - 1)
    waited = f"they wait {units.said_ns(each_ns)}, on average"
    if step_cnt > 1:
        steps = f"{late_cnt} of {step_cnt}" if late_cnt < step_cnt else f"all {step_cnt}"
        waited = f"late in {steps} steps, they wait {units.said_ns(each_ns / step_cnt)} a step on average"
    cause = f"; cause: {row['cause'].replace('_', ' ')}" if row["cause"] else ""
    return f"rank {row['rank']} holds the others up ({waited}{cause})"
