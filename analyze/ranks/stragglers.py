"""Views about several ranks: of a single one there are no rows, which their statements find out slowly."""

import pyarrow as pa

from ...sql import quoted
from ..store import views
from ..store.database import Database

VIEWS = ("straggler", "_rank_activity", "_straggler_place", "_replayed_rank", "_rank_wait", "_late_rank_wait")


def none(database: Database, view: str) -> pa.Table:
    """No rows of one of these views."""
    known, _ = views.needed()
    columns = ", ".join(f"null::{column.sql_type} as {quoted(column.name)}" for column in known[view].columns)
    return database.connection.sql(f"select {columns} where false").to_arrow_table()
