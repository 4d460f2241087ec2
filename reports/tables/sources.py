"""Which inputs of a database count when its numbers are added up or set beside others."""

from ... import rundir
from ...analyze.store.database import Database
from ...errors import InputError, UsageError
from ...sql import literal, quoted
from ...vocabulary import SOURCE_SNAPSHOT

_MOST_NAMED = 16  # ranks
_LEAST_BYTES = 64 << 10  # live at the peak: scalars that a CPU program makes on its way say nothing about its memory


def counting(database: Database, table: str = "source") -> str:
    """Which sources with rows in a table count: of recordings of the same steps one, as a run directory has several.

    Of a rank that was recorded with and without memory that without (_memory_pass); of inputs of ranks those that fit
    to the others (_rank_problem), if any does.
    """
    return database.looked_up(f"counting {table}", lambda: _counting(database, table))


def _counting(database: Database, table: str) -> str:
    is_filled = f"source.kind is not null and source.source_id in (select source_id from {quoted(table)})"
    if table == "source" and database.rows("from _memory_pass limit 1"):
        is_filled += " and source.source_id not in (from _memory_pass)"
    is_filled += "".join(f" and source.source_id <> {source_id}" for source_id in _left_out(database))
    names = {name for (name,) in database.rows(f"select name from source where {is_filled}")}
    found = {rundir.recording(name) for name in names}.intersection(rundir.RECORDINGS)
    if len(found) < 2:
        return is_filled
    has_gpu = database.rows("select 1 from _source_with_gpu limit 1")
    first = next(kind for kind in (rundir.RECORDINGS if has_gpu else rundir.RECORDINGS_OF_CPU) if kind in found)
    others = sorted(name for name in names if rundir.recording(name) in found - {first})
    return f"{is_filled} and source.name not in ({', '.join(map(literal, others))})"


def _left_out(database: Database) -> list[int]:
    """The inputs that do not fit to those of other ranks, none where no input does."""
    left_out = [
        number
        for (number,) in database.rows("select distinct source_id from _rank_problem where is_left_out order by 1")
    ]
    if not left_out:
        return []
    ((fitting_cnt,),) = database.rows(
        f"select count(*) from source where kind is not null and source_id not in ({', '.join(map(str, left_out))})"
    )
    return left_out if fitting_cnt else []


def shown(database: Database, rank: int | None = None) -> int:
    """The input to show: of those that count, and are of a rank if one is given, the lowest rank with GPU work.

    Before ranks come inputs that say none, as a report of all processes.

    Raises UsageError for a rank that is not there.
    """
    is_asked = "true" if rank is None else f"source.rank = {rank}"
    choices = [counting(database)]
    if rank is not None:  # what does not fit to the other ranks can be looked at by itself
        choices.append("source.kind is not null")
    for counts in choices:
        rows = database.rows(
            f"select source_id from source where {is_asked} and {counts} "
            "order by source_id not in (from _source_with_gpu), coalesce(source.rank, -1), source_id limit 1"
        )
        if rows:
            return int(rows[0][0])
    if rank is not None:
        known = [
            str(known) for (known,) in database.rows("select distinct rank from source where rank >= 0 order by 1")
        ]
        if not known:
            raise UsageError(f"--rank {rank}: no input says which rank it is")
        named = ", ".join(known) if len(known) <= _MOST_NAMED else f"{len(known)}, from {known[0]} to {known[-1]}"
        raise UsageError(f"--rank {rank}: the ranks here are {named}")
    raise InputError("none of the inputs could be read, so there is nothing to show")


def of_rank(source_id: int) -> str:
    """The inputs of the rank that an input is of, and those without one, as a list in SQL."""
    return (
        "(select source_id from source where rank is null or rank is not distinct from "
        f"(select rank from source where source_id = {source_id}))"
    )


def of_memory(database: Database, source_id: int) -> tuple[int, str] | None:
    """The input that knows most of what memory is for, of the rank of another or without one, and the device.

    Itself where it is a snapshot, which holds nothing else; else that of a run's memory pass before others, then
    itself; devices before the CPU. None where none has much.
    """
    found = database.rows(
        f"""select source_id, device
        from _memory_source
        where source_id in {of_rank(source_id)} and (most_bytes >= {_LEAST_BYTES} or kind = '{SOURCE_SNAPSHOT}')
        order by source_id = {source_id} and kind = '{SOURCE_SNAPSHOT}' desc, not is_named, device = 'cpu',
            source_id <> {source_id}, source_id, device
        limit 1"""
    )
    return (int(found[0][0]), str(found[0][1])) if found else None
