"""The views that have a shortcut."""

from collections.abc import Callable

import pyarrow as pa

from ..store.database import Database
from . import classes, critical, fusible, steady
from .activity import Activity
from .gaps import Blame


def tables(database: Database) -> dict[str, Callable[[], pa.Table]]:
    """For each of these views the function that makes its rows."""
    activity = Activity(database)
    blame = Blame(database, activity)
    return activity.tables() | {
        "_blamed_gap": blame.rows,
        "_judged_gap": blame.judged,
        "_critical_range": lambda: critical.rows(database),
        "_op_class": lambda: classes.rows(database),
        "_fusible_run": lambda: fusible.rows(database),
        "_steady_spent": lambda: steady.rows(database, activity, blame),
    }
