"""Arithmetic identities that hold on every trace, the user's too, and tables that must equal their definitions."""

from ... import sql
from ...errors import CheckError, UsageError
from ...sql import quoted
from .database import Database
from .jobs import require_no_job
from .upgrades import DEFINED_SINCE

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


def broken_laws(database: Database) -> dict[str, tuple[int, str]]:
    """Of each law of what may be said how many rows break it, and one of them in words; none where all hold.

    Findings are replayed for it.
    """
    found = {}
    laws = sql.in_folder(sql.LAWS)
    with database.computing_once([law.name for law in laws]):
        for law in laws:
            rows = database.rows(f"select row::varchar from {quoted(law.name)} as row")
            if rows:
                found[law.name] = len(rows), str(rows[0][0])
    return found


def definitions(database: Database) -> dict[str, tuple[int, str]]:
    """Of each table that a view defines how many rows are in one of the two alone, 0 where all is right, and one row.

    Takes seconds for each million of GPU operations, because definitions go pair by pair. Raises UsageError for a job,
    and for a database from before what definitions go by was kept.
    """
    require_no_job(database, "validate --definitions")
    ((version,),) = database.rows("select schema_version from lorabench")
    if version < DEFINED_SINCE:
        raise UsageError(
            f"an earlier lorabench made this database (schema {version}) and kept less than the definitions need; "
            "analyze its inputs again"
        )
    found = {}
    for view in sql.in_folder(sql.DEFINITIONS):
        if not view.name.startswith(_DEFINED):
            continue
        columns = ", ".join(quoted(column.name) for column in view.columns)
        name = view.name.removeprefix(_DEFINED)
        ((count, example),) = database.rows(
            sql.statement("unlike_definition", table=quoted(name), definition=quoted(view.name), columns=columns)
        )
        found[name] = count, example or ""
    return found
