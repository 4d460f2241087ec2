"""How fast the collectives of several ranks are, in a few lines."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..tables.units import said_bytes
from ..terminal.screen import columns

# Of those whose speed is known the three kinds that take most time, the slowest first. Groups of one purpose, as the
# pairs of tensor parallelism, are together.
FASTNESS = """
    select *
    from (
        select operation, group_description, member_cnt, count(*) as collective_cnt, avg(bytes)::bigint as mean_bytes,
            min(bytes) = max(bytes) as is_even, sum(transfer_ns)::bigint as transfer_ns,
            sum(busbw_bytes_s * transfer_ns) / sum(transfer_ns) as busbw_bytes_s
        from collective_match
        where busbw_bytes_s is not null
        group by operation, group_description, member_cnt
        order by transfer_ns desc, operation, group_description, member_cnt
        limit 3
    )
    order by busbw_bytes_s, operation, group_description, member_cnt"""

Row = dict[str, Any]


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """A line that says what it is, and one for each of the rows of FASTNESS, of at most 80 characters."""
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
