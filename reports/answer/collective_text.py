"""How fast the collectives of several ranks are, in a few lines."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..tables.units import keep_begin, said_bytes, significant
from ..terminal.screen import WIDTH, columns

_OTHER_SPEED = 1.5  # times as fast as the slowest group of a purpose: they are not one number

Row = dict[str, Any]


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """A line that says what it is, and one for each of the rows of _answer_collective, of at most 80 characters.

    Of groups that are not equally fast the slowest and the fastest, and below which ranks the slowest are.
    """
    if rows:
        yield columns("collectives, the slowest first", "bus bandwidth (nccl-tests)")
    for row in rows:
        group = f" ({row['group_description']})" if row["group_description"] else ""
        sizes = f"{row['collective_cnt']:,} of {said_bytes(row['mean_bytes'])}"
        if not row["is_even"]:
            sizes += " on average"
        speed = f"{significant(row['busbw_bytes_s'] / 1e9)} GB/s"
        is_uneven = row["fastest_bytes_s"] > _OTHER_SPEED * row["slowest_bytes_s"]
        if is_uneven:
            speed = f"{significant(row['slowest_bytes_s'] / 1e9)} to {significant(row['fastest_bytes_s'] / 1e9)} GB/s"
        yield columns(f"  {row['operation']}{group} of {row['member_cnt']:,} ranks, {sizes}", speed)
        if is_uneven and row["slowest_ranks"]:
            ranks = row["slowest_ranks"].strip("[]")
            yield keep_begin(f"    the slowest of {row['group_cnt']:,} groups: ranks {ranks}", WIDTH)
