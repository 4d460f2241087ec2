"""Fills the tables that need all ranks: matched_collective by its definition, clock from what is matched.

A clock is that of a machine where its name is recorded and its ranks can share one, else that of the input.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..attribute.clocks import Floats, Meetings, Piece, islands, pieces, reference_of
from ..attribute.intervals import Ints, distinct
from ..read.identity import RANK_IN_NAME
from ..store.database import Database

# Of two inputs with one rank in two communicators neither says the job's rank: each is of some of its ranks, as those
# that share out a layer. A rank in a name is the job's.
_IN_PARTS = f"""
    update source
    set world_size = null, rank = if(regexp_matches(name, '{RANK_IN_NAME}'), rank, null)
    where source_id in (select source_id from _told_rank) and exists (
        from _told_rank as one join _told_rank as other using (value) where one.note <> other.note
    )"""
_SEVERAL = "select count(distinct rank) > 1 and exists (from collective) from source"
_MEETING = """
    select match_id, source_id, host, origin_ns, work_start_ns, work_end_ns
    from _clock_meeting
    order by match_id, source_id, work_start_ns"""

_CLOCK_COLUMNS = ("source_id", "clock_id", "piece_id", "from_ns", "offset_ns", "error_ns", "collective_cnt",
                  "reference_source_id")  # fmt: skip
_ROUNDED_NS = 1000  # traces in whole microseconds

_Columns = dict[str, npt.NDArray[Any]]


def complete(database: Database) -> None:
    """Match the collectives of a database whose inputs are all read; nothing to do for a single rank."""
    if database.rows("select count(*) > 1 from source")[0][0]:
        database.connection.execute(_IN_PARTS)
    if not database.rows(_SEVERAL)[0][0]:
        return
    database.connection.execute("insert into matched_collective by name from defined_matched_collective")
    rows = database.columns(_MEETING)
    if len(rows["match_id"]):
        database.connection.register("computed", _clocks(rows))
        database.connection.execute("insert into clock by name from computed")
        database.connection.unregister("computed")


def _clocks(rows: _Columns) -> pa.Table:
    """The rows of the table clock."""
    match = _in_order_of_time(rows)
    zero = int((rows["origin_ns"] + rows["work_start_ns"]).min())
    start, end = (rows["origin_ns"] + rows[name] - zero for name in ("work_start_ns", "work_end_ns"))
    sources, source = distinct(rows["source_id"].astype(np.int64))
    clock_of = _clock_of(rows, sources, source, match, start, end)
    meetings = Meetings.of(match, clock_of[source], start, end)
    found = list(pieces(meetings))
    known = []
    for number in np.unique(island := islands(found)):
        among = np.flatnonzero(island == number)
        reference = reference_of(found, among)
        name = sources[np.flatnonzero(clock_of == reference)[0]]
        for place in np.flatnonzero(np.isin(clock_of, among)):
            mine = source == place
            first_of = _first_times(match[mine], rows["work_start_ns"][mine], found)
            known += _of_source(int(sources[place]), int(clock_of[place]), reference, int(name), found, first_of)
    names = _CLOCK_COLUMNS
    columns = list(zip(*known, strict=True)) or [()] * len(names)
    return pa.table({name: pa.array(column, pa.int64()) for name, column in zip(names, columns, strict=True)})


def _in_order_of_time(rows: _Columns) -> Ints:
    """Numbers of the matched collectives by when the first of their members ended, however clocks are apart."""
    ids, match = distinct(rows["match_id"].astype(np.int64))
    sources, source = distinct(rows["source_id"].astype(np.int64))
    # on the clock of the input with the most collectives; others follow their own order between them
    base = np.bincount(source).argmax()
    shift = np.zeros(len(sources))
    when = (rows["origin_ns"] + rows["work_end_ns"]).astype(np.float64)
    of_base = np.full(len(ids), np.nan)
    of_base[match[source == base]] = when[source == base]
    for other in range(len(sources)):
        apart = (when - of_base[match])[source == other]
        shift[other] = np.nanmedian(apart) if (~np.isnan(apart)).any() else 0
    earliest = np.full(len(ids), np.inf)
    np.minimum.at(earliest, match, when - shift[source])
    rank = np.empty(len(ids), dtype=np.int64)
    rank[np.argsort(earliest, kind="stable")] = np.arange(len(ids))
    return rank[match]


def _clock_of(rows: _Columns, sources: Ints, source: Ints, match: Ints, start: Ints, end: Ints) -> Ints:
    """The number of each input's clock: that of its machine, if all its ranks can share one, else its own."""
    hosts = dict(zip(source.tolist(), rows["host"].tolist(), strict=True))
    clock = np.arange(len(sources))
    for host in {host for host in hosts.values() if host}:
        members = np.array([place for place in range(len(sources)) if hosts[place] == host])
        mine = np.isin(source, members)
        meetings = Meetings.of(match[mine], np.zeros(mine.sum(), dtype=np.int64), start[mine], end[mine])
        if (meetings.start <= meetings.end + _ROUNDED_NS).all():
            clock[members] = members[0]
    return distinct(clock)[1]


def _first_times(match: Ints, time: Ints, found: list[Piece]) -> list[int | None]:
    """When the first collective of each piece begins for an input, None for pieces without any of it."""
    piece = np.searchsorted([one.first for one in found], match, side="right") - 1
    first = np.full(len(found), np.iinfo(np.int64).max)
    np.minimum.at(first, piece, time)
    return [None if value == np.iinfo(np.int64).max else int(value) for value in first]


def _of_source(
    source: int, clock: int, reference: int, name: int, found: list[Piece], first_of: list[int | None]
) -> list[tuple[int, ...]]:
    """Rows of one input: of each piece that it takes part in and in which its clock is known.

    Of several pieces each is as wrong besides as the clock runs away meanwhile: as fast as between any two of them.
    """
    known = []
    for number, (piece, first) in enumerate(zip(found, first_of, strict=True)):
        offset: Floats
        offset, error = piece.offset(reference)
        if first is not None and np.isfinite(error[clock]):
            known.append((number, first, float(offset[clock]), max(0.0, float(error[clock])), piece.end - piece.first))
    firsts, offsets = (np.array([one[place] for one in known], dtype=np.float64) for place in (1, 2))
    lengths = np.diff(firsts)
    speed = float(np.max(np.abs(np.diff(offsets)) / np.maximum(lengths, 1), initial=0))
    away = speed * np.append(lengths, lengths[-1:] if len(lengths) else [0.0] * len(known))
    return [
        (source, clock, number, first, round(offset), int(np.ceil(error + float(more))), count, name)
        for (number, first, offset, error, count), more in zip(known, away, strict=True)
    ]
