"""Inputs in, a finished database out; an unchanged input is not read twice."""

import shutil
from pathlib import Path

from ..errors import UsageError
from ..progress import Progress, Silent
from . import checks, ingest, inputs, parts
from .database import Database, building, open_database, sources_of
from .inputs import Kind
from .settings import Settings


def analyze(
    paths: list[Path],
    database: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    settings: Settings | None = None,
    writes_into: Path | None = None,
) -> Database:
    """Read the inputs into a database at the given path, or open it when it already holds them unchanged.

    A single .duckdb input is opened as it is. Of several inputs those that can be read make the database, and the
    others are facts of it (section 'lost', item 'the whole file'). Reports can be copied into the folder `writes_into`.
    Raises InputError when none can be read, OutputError when the database cannot be written, CheckError when an
    identity does not hold.
    """
    found = inputs.find(paths)
    if [item.kind for item in found] == [Kind.DATABASE]:
        if settings not in (None, Settings()):
            raise UsageError(f"{found[0].path} keeps the settings that it was made with; give the trace it was made of")
        return open_database(found[0].path, writes_into)
    if any(item.path.absolute() == database.absolute() for item in found):
        raise UsageError(f"{database} is an input; choose another place for the database with --db")
    settings = settings or Settings()
    held = sources_of(database, settings)  # never replace a file that is not a lorabench database
    if not force and held == [ingest.identity(item) for item in found]:
        return open_database(database, writes_into)
    progress = progress or Silent()
    with building(database, settings) as new:
        if len(found) > 1:
            parts.read(new, found, _parts_of(database), force, progress)
        else:
            ingest.fill(new, 1, found[0], progress)
        progress.step("checks")
        checks.run(new)
    shutil.rmtree(_parts_of(database), ignore_errors=True)
    return open_database(database, writes_into)


def _parts_of(database: Path) -> Path:
    """Where the parts of a database of several inputs lie until it is finished."""
    return database.with_name(f"{database.name}.parts")
