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
_CLOCKS_NS = 10_000_000_000  # of hosts differ by less
WAITS = (
    "Kernels of communication run while they wait for other ranks: a rank that has less of them may be the one that "
    "the others wait for."
)


@dataclass(frozen=True)
class _Rank:
    rank: int
    world_size: int | None
    kind: str
    start_ns: int
    end_ns: int


def said(pair: tuple[Database, Database], steps: tuple[Spread, Spread], letters: tuple[str, str]) -> str:
    """What is said of two ranks of one job in the place of which is faster; "" for other inputs."""
    if (ranks := _ranks(pair)) is None:
        return ""
    unit, cells = units.scaled("ns", [step.median for step in steps])
    return (
        f"{letters[0]} and {letters[1]} are ranks {ranks[0]} and {ranks[1]} of one job, which wait for each other: "
        f"steps of {cells[0]} and {cells[1]} {unit}. "
        "`lorabench summary` of both together says which rank is late, and why"
    )


def are_ranks(databases: list[Database]) -> bool:
    """Whether the first and another one are ranks of one job."""
    return any(_ranks((databases[0], other)) is not None for other in databases[1:])


def _ranks(pair: tuple[Database, Database]) -> tuple[int, int] | None:
    """The ranks of two inputs that ran together: two of one world, recorded at once as far as they are dated."""
    one, two = (_rank(database) for database in pair)
    if one is None or two is None or one.rank == two.rank:
        return None
    if (one.kind, one.world_size) != (two.kind, two.world_size):
        return None
    is_dated = [rank.start_ns > _SINCE_1970_NS for rank in (one, two)]
    apart = max(one.start_ns, two.start_ns) - min(one.end_ns, two.end_ns)
    return (one.rank, two.rank) if not any(is_dated) or (all(is_dated) and apart < _CLOCKS_NS) else None


def _rank(database: Database) -> _Rank | None:
    """Which rank an input is, and when it was recorded; None for one of several ranks, or that says nothing of it."""
    rows = database.rows(
        "select rank, world_size, kind, start_ns, end_ns from _recorded_rank "
        f"where source_id in (select source_id from source where {counting(database)})"
    )
    return _Rank(*rows[0]) if len(rows) == 1 else None
