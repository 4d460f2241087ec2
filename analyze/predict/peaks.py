"""What the peak of memory is made of, as far as settings of a training change it."""

from typing import Any

from ..store.database import Database

_PEAK = """
    select
        max(peak_bytes)::double as total,
        sum(live_bytes) filter (layer is not null)::double as layers,
        count(distinct layer) as layer_cnt,
        sum(live_bytes) filter (is_recomputed)::double as recomputed,
        sum(live_bytes) filter (is_of_loss)::double as loss,
        max(largest_bytes) filter (category = 'optimizer_state')::double as largest_state
    from _setting_peak"""
_CATEGORIES = "select category, sum(live_bytes)::double as live_bytes from _setting_peak group by category"


def peak(database: Database) -> dict[str, Any] | None:
    """The peak of the first input in bytes, by category and by what recomputation and losses have of it.

    None where no memory was recorded.
    """
    (row,) = database.dicts(_PEAK)
    if row["total"] is None:
        return None
    categories = dict(database.rows(_CATEGORIES))
    return {name: value or 0 for name, value in row.items()} | {"categories": categories}
