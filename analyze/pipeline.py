"""Inputs in, a finished database out; an unchanged input is not read twice.

What reads takes longer to load than it takes to open what was read: it is loaded when there is something to read.
"""

import shutil
from pathlib import Path

from ..errors import OutputError, UsageError
from ..progress import Progress, Silent
from . import fillers
from .job import folder
from .read import inputs
from .read.exports import Exports
from .read.identity import identity
from .read.inputs import Input, Kind
from .store import cache, checks
from .store.blank import Shape
from .store.building import building
from .store.database import Database
from .store.opening import kept, open_database
from .store.remembered import Remembered, forget
from .store.settings import Settings


def analyze(
    paths: list[Path],
    database: Path | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
    settings: Settings | None = None,
    writes_into: Path | None = None,
    wanted: folder.Wanted | None = None,
    is_kept: bool = False,
) -> Database:
    """Read the inputs into a database at the given path, or open it when it already holds them unchanged.

    Without a path it is kept in the user's cache folder. One that people keep (`is_kept`) says what its tables, views
    and columns are, and has rows in the place of views that other programs than lorabench would take minutes for. A
    single .duckdb input is opened as it is. Of several inputs those that can be read make the database, and the others
    are facts of it (section 'lost', item 'the whole file').
    Reports can be copied into the folder `writes_into`. A single job folder is opened, with the part that is `wanted`.
    Raises InputError when none can be read, OutputError when the database cannot be written, CheckError when an
    identity does not hold.
    """
    if len(paths) == 1 and folder.is_job(paths[0]):
        if database is not None or force or settings not in (None, Settings()):
            raise UsageError(
                f"{paths[0]} is a job folder, which keeps what it was made with; leave out --db, --force, --threshold "
                "and --kernel-classes"
            )
        from .job import job as jobs

        return jobs.opened(paths[0], wanted or folder.Wanted(), writes_into, progress)
    progress = progress or Silent()
    with Exports(progress) as exports:
        return fillers.fill(_opened(paths, exports, database, force, progress, settings, writes_into, is_kept))


def _opened(
    paths: list[Path],
    exports: Exports,
    database: Path | None,
    force: bool,
    progress: Progress,
    settings: Settings | None,
    writes_into: Path | None,
    is_kept: bool,
) -> Database:
    found = inputs.find(paths, exports)
    if [item.kind for item in found] == [Kind.DATABASE]:
        if settings not in (None, Settings()):
            raise UsageError(f"{found[0].path} keeps the settings that it was made with; give the trace it was made of")
        if database is not None:
            raise UsageError(f"{found[0].path} is a database already; copy it, or give the trace it was made of")
        return open_database(found[0].path, writes_into)
    settings = settings or Settings()
    if database is None:
        database = cache.path_of(paths, settings)
    inputs.spare(paths, database)
    is_own = cache.holds(database)
    # a file elsewhere is never replaced unless it is a lorabench database
    identities = [identity(item) for item in found]
    remembered = Remembered(database, (settings.fingerprint, identities)) if is_own else None
    opened = None if force and is_own else kept(database, identities, settings, writes_into, remembered)
    if opened is not None and (force or not is_own):  # elsewhere others may have changed its views
        opened.close()
        opened = None if force else open_database(database, writes_into)
    if opened is not None:
        if is_own:
            cache.used(database)
        return opened
    try:
        is_complete, given = _built(database, inputs.with_exports(found, exports), settings, progress, is_kept)
    except OutputError:
        # of several inputs another process may have read the same ones meanwhile, and removed the parts of both
        made = kept(database, identities, settings, writes_into, remembered) if is_own and not force else None
        if made is None:
            raise
        return made
    if is_complete:  # else the next analysis goes on with them
        shutil.rmtree(_parts_of(database), ignore_errors=True)
    if is_own:
        forget(database)
    opened = open_database(database, writes_into, is_own=True, remembered=remembered)  # it was made just now
    opened.give(given)
    if is_own:
        cache.trim(keep=database)
    return opened


def _built(
    database: Path, found: list[Input], settings: Settings, progress: Progress, is_kept: bool
) -> tuple[bool, list[str]]:
    """Make the database; whether all that could be read was, and the names of views that are rows in it."""
    with building(database, settings, Shape.DESCRIBED if is_kept else Shape.WHOLE) as new:
        is_complete = _read(new, found, _parts_of(database), settings, progress)
        progress.step("checks")
        checks.run(new)
        if not is_kept:
            return is_complete, []
        progress.step("findings and predictions")
        return is_complete, fillers.keep(new)


def _read(new: Database, found: list[Input], beside: Path, settings: Settings, progress: Progress) -> bool:
    """Read inputs into a new database; whether all that could be read was."""
    from . import ingest
    from .ranks import matching

    is_complete = True
    if len(found) > 1:
        from . import parts

        is_complete = parts.read(new, found, beside, settings, progress)
    else:
        ingest.fill(new, 1, found[0], progress)
    matching.complete(new)
    return is_complete


def _parts_of(database: Path) -> Path:
    """Where the parts of a database of several inputs lie until it is finished."""
    return database.with_name(f"{database.name}.parts")
