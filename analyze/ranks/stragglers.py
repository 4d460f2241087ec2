"""The rows of the view straggler: of a single rank there are none, and its statement takes long to plan."""

import pyarrow as pa

from ... import sql
from ..store.database import Database

_VIEW = "straggler"


def rows(database: Database) -> pa.Table:
    """The rows of the view."""
    ((rank_cnt,),) = database.rows("select count(distinct rank) from source where kind is not null")
    if rank_cnt > 1:
        return database.rows_of(_VIEW)
    columns = ", ".join(f"null::{column.sql_type} as {column.name}" for column in sql.public_view(_VIEW).columns)
    return database.connection.sql(f"select {columns} where false").to_arrow_table()
