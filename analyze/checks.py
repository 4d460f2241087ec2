"""Runs the check views: arithmetic identities that hold on every trace, the user's too."""

from .. import sql
from ..errors import CheckError
from ..sql import quoted
from .database import Database


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
