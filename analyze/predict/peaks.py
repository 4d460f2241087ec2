"""What the peak of memory is made of, as far as settings of a training change it."""

from typing import Any

from ..store.database import Database

_CATEGORIES = "select category, sum(live_bytes)::double as live_bytes from _setting_peak group by category"


def peak(database: Database) -> dict[str, Any] | None:
    """The peak of the first input in bytes, by category and by what recomputation and losses have of it.

    None where no memory was recorded.
    """
    (row,) = database.dicts("from _setting_need")
    if row["total"] is None:
        return None
    categories = dict(database.rows(_CATEGORIES))
    return {name: value or 0 for name, value in row.items()} | {"categories": categories}
