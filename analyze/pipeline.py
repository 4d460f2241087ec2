"""Inputs in, a finished database out; an unchanged input is not read twice."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ..errors import InputError, UsageError
from ..progress import Progress, Silent
from ..vocabulary import SOURCE_KINETO, SOURCE_NSYS
from . import checks, inputs, kineto_json, model, nsys_report, nsys_sqlite
from .database import Database, building, create_views, open_database, sources_of
from .inputs import Input, Kind
from .settings import Settings
from .staging import Staging

_READERS: dict[Kind, tuple[str, int, Callable[[Path, Staging], None]]] = {
    Kind.NSYS_SQLITE: (SOURCE_NSYS, nsys_sqlite.READER_VERSION, nsys_sqlite.read),
    Kind.NSYS_REPORT: (SOURCE_NSYS, nsys_sqlite.READER_VERSION, nsys_sqlite.read),
    Kind.KINETO: (SOURCE_KINETO, kineto_json.READER_VERSION, kineto_json.read),
}


def analyze(
    paths: list[Path],
    database: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    settings: Settings | None = None,
) -> Database:
    """Read the inputs into a database at the given path, or open it when it already holds them unchanged.

    A single .duckdb input is opened as it is. Raises InputError for inputs that cannot be read, OutputError when the
    database cannot be written, CheckError when an identity does not hold.
    """
    found = inputs.find(paths)
    if [item.kind for item in found] == [Kind.DATABASE]:
        if settings not in (None, Settings()):
            raise UsageError(f"{found[0].path} keeps the settings that it was made with; give the trace it was made of")
        return open_database(found[0].path)
    if any(item.path.absolute() == database.absolute() for item in found):
        raise UsageError(f"{database} is an input; choose another place for the database with --db")
    settings = settings or Settings()
    held = sources_of(database, settings)  # never replace a file that is not a lorabench database
    if not force and held == [(i.path.name, i.size_bytes, i.mtime_ns, _READERS[i.kind][1]) for i in found]:
        return open_database(database)
    with building(database, settings) as new:
        for number, item in enumerate(found, start=1):
            _ingest(new, number, item, progress or Silent())
        create_views(new)
        (progress or Silent()).step("checks")
        checks.run(new)
    return open_database(database)


def _ingest(database: Database, source_id: int, item: Input, progress: Progress) -> None:
    """Read one input and complete the model for it."""
    kind, version, read = _READERS[item.kind]
    database.connection.execute(
        "insert into source (source_id, kind, name, size_bytes, mtime_ns, reader_version) values (?, ?, ?, ?, ?, ?)",
        [source_id, kind, item.path.name, item.size_bytes, item.mtime_ns, version],
    )
    staging = Staging(database, source_id, progress)
    staging.create()
    with ExitStack() as stack:
        path = item.path
        if item.kind is Kind.NSYS_REPORT:
            progress.step("nsys export")
            path = stack.enter_context(nsys_report.exported(path))
        try:
            read(path, staging)
        except OSError as error:
            raise InputError(f"cannot read {item.path}: {error.strerror}") from error
    model.complete(staging)
