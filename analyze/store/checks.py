"""Arithmetic identities that hold on every trace, the user's too, and tables that must equal their definitions."""

from ... import sql
from ...errors import CheckError
from ...sql import quoted
from .database import Database
from .jobs import require_no_job

_DEFINED = "defined_"


def run(database: Database) -> None:
    """Raise CheckError, naming the identity and one row, when any check view holds rows."""
    checks = sql.in_folder(sql.CHECKS)
    with database.computing_once([check.name for check in checks]):
        for check in checks:
            broken = database.rows(f"select * from {quoted(check.name)} limit 1")
            if broken:
                raise CheckError(
                    f"{check.name} does not hold: {check.row} First: {broken[0]}. No report was written. "
                    "Please report it with the trace if you can share it."
                )


def definitions(database: Database) -> dict[str, int]:
    """Of each table that a view defines how many rows are in one of the two alone: 0 where all is right.

    Takes seconds for each million of GPU operations, because definitions go pair by pair. Raises UsageError for a job.
    """
    require_no_job(database, "validate --definitions")
    found = {}
    for view in sql.in_folder(sql.DEFINITIONS):
        if not view.name.startswith(_DEFINED):
            continue
        columns = ", ".join(quoted(column.name) for column in view.columns)
        table, defined = (f"select {columns} from {quoted(n)}" for n in (view.name.removeprefix(_DEFINED), view.name))
        ((count,),) = database.rows(
            f"select count(*) from (({table} except all {defined}) union all ({defined} except all {table}))"
        )
        found[view.name.removeprefix(_DEFINED)] = count
    return found
