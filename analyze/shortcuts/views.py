"""The views that have a shortcut."""

from collections.abc import Callable

import pyarrow as pa

from ..store.database import Database
from . import gaps
from .activity import Activity


def tables(database: Database) -> dict[str, Callable[[], pa.Table]]:
    """For each of these views the function that makes its rows."""
    activity = Activity(database)
    return activity.tables() | gaps.tables(database, lambda: activity.stretches)
