"""Ranks of one job beside each other: they wait for each other, so neither is the faster one.

rank 0   [work]  [all_reduce: waits      ]      a long kernel of communication is the other one's work
rank 7   [work              ][all_reduce]
"""

from dataclasses import dataclass

from ...analyze.store.database import Database
from ..tables import units
from ..tables.sources import counting
from .spread import Spread

_SINCE_1970_NS = 946_684_800_000_000_000  # times that are larger count from 1970
_NAMED = 8  # ranks that lie apart
_CLOCKS_NS = 10_000_000_000  # of hosts differ by less
WAITS = (
    "Kernels of communication run while they wait for other ranks: a rank that has less of them may be the one that "
    "the others wait for."
)


@dataclass(frozen=True)
class _Part:
    """What is here of a job."""

    ranks: frozenset[int]
    world_size: int | None
    kind: str
    start_ns: int
    end_ns: int


def said(pair: tuple[Database, Database], steps: tuple[Spread, Spread], letters: tuple[str, str]) -> str:
    """What is said of parts of one job in the place of which is faster; "" for other inputs."""
    if (parts := _parts(pair)) is None:
        return ""
    unit, cells = units.scaled("ns", [step.median for step in steps])
    one, two = map(_named, parts)
    return (
        f"{letters[0]} and {letters[1]} are ranks {one} and {two} of one job, which wait for each other: "
        f"steps of {cells[0]} and {cells[1]} {unit}. "
        "`lorabench summary` of both together says which rank is late, and why"
    )


def _named(part: _Part) -> str:
    """Its ranks: 3, those of a node as 4-7, else the first of them."""
    ranks = sorted(part.ranks)
    if len(ranks) > 1 and len(ranks) == ranks[-1] - ranks[0] + 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join([*map(str, ranks[:_NAMED]), *(["…"] if ranks[_NAMED:] else [])])


def are_ranks(databases: list[Database]) -> bool:
    """Whether the first and another one are ranks of one job."""
    return any(_parts((databases[0], other)) is not None for other in databases[1:])


def _parts(pair: tuple[Database, Database]) -> tuple[_Part, _Part] | None:
    """Two inputs that ran together: ranks of one world, recorded at once as far as they are dated."""
    one, two = (_part(database) for database in pair)
    if one is None or two is None or one.ranks & two.ranks:
        return None
    if (one.kind, one.world_size) != (two.kind, two.world_size):
        return None
    is_dated = [part.start_ns > _SINCE_1970_NS for part in (one, two)]
    apart = max(one.start_ns, two.start_ns) - min(one.end_ns, two.end_ns)
    return (one, two) if not any(is_dated) or (all(is_dated) and apart < _CLOCKS_NS) else None


def _part(database: Database) -> _Part | None:
    """Which ranks an input holds, and when they were recorded; None for one that says nothing of it."""
    rows = database.rows(
        "select list(distinct rank), any_value(world_size), any_value(kind), min(start_ns), max(end_ns) "
        f"from _recorded_rank where source_id in (select source_id from source where {counting(database)}) "
        "having count(distinct kind) = 1 and count(distinct coalesce(world_size, 0)) = 1"
    )
    return _Part(frozenset(rows[0][0]), *rows[0][1:]) if rows else None
