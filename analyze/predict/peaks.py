"""What the peak of memory is made of, as far as settings of a training change it."""

from typing import Any

from ..store.database import Database

_LAYER = "(^|/)(layers|h|layer)\\.[0-9]+(/|$)"
_GROWS = "category in ('activation', 'temporary', 'autograd_detail')"
# Of the first input the device that counts: a GPU, if there is one.
_LIVE = """
    with live as (
        from memory_peak
        where source_id = (select min(source_id) from memory_peak)
        qualify device = first(device) over (order by device = 'cpu', peak_bytes desc)
    )"""
_PEAK = f"""{_LIVE}
    select
        max(peak_bytes)::double as total,
        sum(live_bytes) filter ({_GROWS} and regexp_matches(path, '{_LAYER}'))::double as layers,
        count(distinct regexp_extract(path, '{_LAYER}')) filter ({_GROWS} and regexp_matches(path, '{_LAYER}'))
            as layer_cnt,
        sum(live_bytes) filter ({_GROWS} and regexp_matches(path, '(^|/)recompute(/|$)'))::double as recomputed,
        sum(live_bytes) filter ({_GROWS} and regexp_matches(path, '(^|/)(loss|lm_head)(/|$)'))::double as loss,
        max(largest_bytes) filter (category = 'optimizer_state')::double as largest_state
    from live"""
_CATEGORIES = f"""{_LIVE}
    select category, sum(live_bytes)::double as live_bytes
    from live
    group by category"""


def peak(database: Database) -> dict[str, Any] | None:
    """The peak of the first input in bytes, by category and by what recomputation and losses have of it.

    None where no memory was recorded.
    """
    (row,) = database.dicts(_PEAK)
    if row["total"] is None:
        return None
    categories = dict(database.rows(_CATEGORIES))
    return {name: value or 0 for name, value in row.items()} | {"categories": categories}
