"""One input into the tables of one database."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import duckdb

from ..errors import CorruptInputError, InputError
from ..progress import Progress
from ..vocabulary import SOURCE_KINETO, SOURCE_NSYS, SOURCE_SNAPSHOT
from .model import completion as model
from .read import companions
from .read.exports import Exports
from .read.identity import RANK_IN_NAME, READER_VERSIONS, identity
from .read.inputs import Input, Kind
from .read.staging import Staging
from .store.database import Database
from .store.limits import INSERT_MEMORY, READ_MEMORY


def _refuse(path: Path, staging: Staging, process: int | None) -> None:
    raise CorruptInputError(f"{path} cannot be read")


def _read_nsys(path: Path, staging: Staging, process: int | None) -> None:
    from .read import nsys_sqlite

    nsys_sqlite.read(path, staging, process)


def _read_kineto(path: Path, staging: Staging, process: int | None) -> None:
    from .read import kineto_json

    kineto_json.read(path, staging)


def _read_snapshot(path: Path, staging: Staging, process: int | None) -> None:
    from .read import memory_snapshot

    memory_snapshot.read(path, staging)


# Each is loaded when an input is its: of a small one that takes as long as reading it.
_READERS: dict[Kind, tuple[str | None, Callable[[Path, Staging, int | None], None]]] = {
    Kind.UNREADABLE: (None, _refuse),
    Kind.NSYS_SQLITE: (SOURCE_NSYS, _read_nsys),
    Kind.NSYS_REPORT: (SOURCE_NSYS, _read_nsys),
    Kind.KINETO: (SOURCE_KINETO, _read_kineto),
    Kind.SNAPSHOT: (SOURCE_SNAPSHOT, _read_snapshot),
}
_NAMED = re.compile(rf"{RANK_IN_NAME}|^profile_(\d{{1,6}})\.json")  # profile_0.json is Accelerate's
# What torch says of a rank is the job's. What NCCL says of it may be of a communicator of some ranks: a name says more,
# and where the two differ the communicator's size is not the job's.
_SET_RANK = f"""
    update source
    set rank = $rank, world_size = if(rank <> $rank, null, world_size)
    where source_id = $source and (rank is null or kind = '{SOURCE_NSYS}')"""


def is_read_as_now(source_kind: str, version: int | None) -> bool:
    """Whether a source of this kind was read by this version of its reader."""
    return version in {READER_VERSIONS[kind] for kind, (of_source, _) in _READERS.items() if of_source == source_kind}


def add_source(database: Database, source_id: int, item: Input, *, is_final: bool = True) -> None:
    """A row of source for an input, before anything is known of what it holds.

    Unless `is_final` the database does not count as one that holds the input: the next analysis tries again.
    """
    name, size_bytes, mtime_ns, version = identity(item)
    database.connection.execute(
        "insert into source (source_id, kind, name, size_bytes, mtime_ns, reader_version, is_timed) "
        "values (?, ?, ?, ?, ?, ?, true)",
        [source_id, _READERS[item.kind][0], name, size_bytes, mtime_ns, version if is_final else None],
    )


def fill(database: Database, source_id: int, item: Input, progress: Progress) -> None:
    """Read one input and complete the model for it."""
    _, read = _READERS[item.kind]
    add_source(database, source_id, item)
    staging = Staging(database, source_id, progress)
    staging.create()
    database.limit_memory(READ_MEMORY)
    with ExitStack() as stack:
        path = item.path
        if item.kind is Kind.NSYS_REPORT:
            path = item.export or stack.enter_context(Exports(progress)).of(path)
        try:
            read(path, staging, item.process)
        except OSError as error:
            raise InputError(f"cannot read {item.path}: {error.strerror}") from error
        except duckdb.ConversionException as error:
            said = str(error).splitlines()[0].removeprefix("Conversion Error: ")
            raise CorruptInputError(f"{item.path} holds a number that is out of range: {said}") from error
    staging.columns("staged_memory_event")  # companions look into them
    companions.add(database, source_id, item.path)
    if named := _NAMED.search(item.whose or item.path.name):
        database.connection.execute(_SET_RANK, {"rank": int(named[1] or named[2]), "source": source_id})
    database.limit_memory(INSERT_MEMORY)
    model.complete(staging)
