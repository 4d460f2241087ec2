"""How fast the collectives of several ranks are, in a few lines."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..tables.units import said_bytes
from ..terminal.screen import columns

Row = dict[str, Any]


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """A line that says what it is, and one for each of the rows of _answer_collective, of at most 80 characters."""
    if rows:
        yield columns("collectives, the slowest first", "bus bandwidth (nccl-tests)")
    for row in rows:
        group = f" ({row['group_description']})" if row["group_description"] else ""
        sizes = f"{row['collective_cnt']:,} of {said_bytes(row['mean_bytes'])}"
        if not row["is_even"]:
            sizes += " on average"
        yield columns(
            f"  {row['operation']}{group} of {row['member_cnt']:,} ranks, {sizes}",
            f"{row['busbw_bytes_s'] / 1e9:.3g} GB/s",
        )
