"""Views about several ranks: of a single one there are no rows, which their statements find out slowly."""

from typing import TYPE_CHECKING

from ...sql import quoted
from ..store import views
from ..store.database import Database

if TYPE_CHECKING:
    import pyarrow as pa

VIEWS = ("straggler", "_rank_activity", "_straggler_place", "_replayed_rank", "_rank_wait", "_late_rank_wait")


def none(database: Database, view: str) -> "pa.Table":
    """No rows of one of these views."""
    columns = ", ".join(f"null::{c.sql_type} as {quoted(c.name)}" for c in views.known()[view].columns)
    return database.connection.sql(f"select {columns} where false").to_arrow_table()
