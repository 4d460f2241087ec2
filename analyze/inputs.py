"""What lies behind a path on the command line: recognised by content, never by name.

run directory   its trace files, side by side
.nsys-rep       exported through the installed nsys first
SQLite          an nsys export
JSON, gzip      a Kineto trace
pickle          a snapshot of torch's allocator
DuckDB          a database that lorabench made earlier
"""

import gzip
import re
import stat
import zlib
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from .. import rundir
from ..errors import CorruptInputError, InputError, UnknownFormatError, UsageError

HEAD_BYTES = 65_536
_GZIP = b"\x1f\x8b"
# A file of a folder that is called so and is no trace is worth a word.
_MEANT = re.compile(r"trace|rank|\.nsys-rep$|\.sqlite$", re.IGNORECASE)


class Kind(Enum):
    """The formats that lorabench reads."""

    NSYS_SQLITE = "nsys sqlite"
    NSYS_REPORT = "nsys report"
    KINETO = "kineto json"
    SNAPSHOT = "allocator snapshot"
    DATABASE = "lorabench database"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Input:
    """One file to read, with the size and time that tell whether it has changed since."""

    path: Path
    kind: Kind
    size_bytes: int
    mtime_ns: int
    problem: str = ""  # of an unreadable one
    content_bytes: int = 0  # when it is decompressed


def find(paths: list[Path]) -> list[Input]:
    """All inputs behind the given paths, directories opened.

    Raises InputError for what cannot be read, UnknownFormatError for what is no trace. Of several inputs a damaged one
    is listed as unreadable, so that it stops no other.
    """
    groups = [_in_directory(path) if _is_folder(path) else [_recognise_or_list(path)] for path in paths]
    found = [item for group in groups for item in group]
    broken = [item for item in found if item.kind is Kind.UNREADABLE]
    if len(broken) == len(found):
        raise CorruptInputError(broken[0].problem)
    if len(found) > 1 and any(item.kind is Kind.DATABASE for item in found):
        raise InputError("a .duckdb file that lorabench made is an input of its own; give it alone")
    return found


def spare(inputs: list[Path], *outputs: Path) -> None:
    """Raise UsageError when writing one of the outputs would replace an input, or what is read beside one.

    Under whatever name: a link leads to the same file.
    """
    read: dict[tuple[int, int], Path] = {}
    for path in inputs:
        folder = path if path.is_dir() else path.parent
        beside = rundir.belongings(folder) if path.is_dir() or (folder / rundir.MANIFEST).is_file() else []
        for file in (path, *beside):
            with suppress(OSError):  # reading says what is wrong with it
                read.setdefault((file.stat().st_dev, file.stat().st_ino), file)
    for output in outputs:
        with suppress(OSError):
            status = output.stat()
            if (status.st_dev, status.st_ino) in read and not output.is_dir():
                file = read[status.st_dev, status.st_ino]
                raise UsageError(f"{output} would replace the input {file}; choose another place for the output")


def _recognise_or_list(path: Path) -> Input:
    try:
        return recognise(path)
    except CorruptInputError as error:
        return _unreadable(path, error)


def _unreadable(path: Path, error: InputError) -> Input:
    status = path.stat()
    return Input(path, Kind.UNREADABLE, status.st_size, status.st_mtime_ns, str(error))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _in_directory(path: Path) -> list[Input]:
    """The traces of a run directory, or of any folder that holds some."""
    try:
        candidates = rundir.traces(path)
    except OSError as error:
        raise InputError(f"cannot read the folder {path}: {error.strerror}") from error
    found = []
    for candidate in candidates:
        try:
            found.append(_recognise_or_list(candidate))
        except UnknownFormatError as error:
            if _MEANT.search(candidate.name):
                found.append(_unreadable(candidate, error))
    found = _without_twins([item for item in found if item.kind is not Kind.DATABASE])
    if not found:
        raise InputError(
            f"{path} is a folder without traces; give an nsys .sqlite or .nsys-rep, a torch.profiler .json or "
            ".json.gz, an allocator snapshot .pickle, or a folder that holds some"
        )
    return found


def _without_twins(found: list[Input]) -> list[Input]:
    """Leave out an nsys report that lies beside its own export."""
    exported = {item.path.with_suffix("") for item in found if item.kind is Kind.NSYS_SQLITE}
    return [i for i in found if i.kind is not Kind.NSYS_REPORT or i.path.with_suffix("") not in exported]


def recognise(path: Path) -> Input:
    """The format of one file, from its first bytes."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is not a regular file; write it to one first, because it is read more than once")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(max(0, status.st_size - 4))
            tail = file.read(4)
    except FileNotFoundError as error:
        raise InputError(f"no such file: {path}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not head:
        raise CorruptInputError(f"{path} is empty")
    content_bytes = status.st_size
    if head.startswith(_GZIP):  # the last member's length, modulo 4 GiB: https://www.rfc-editor.org/rfc/rfc1952, ISIZE
        content_bytes = max(content_bytes, int.from_bytes(tail, "little"))
    return Input(path, _kind(path, head), status.st_size, status.st_mtime_ns, content_bytes=content_bytes)


def _kind(path: Path, head: bytes) -> Kind:
    if head.startswith(b"SQLite format 3\0"):
        return Kind.NSYS_SQLITE
    if head[8:12] == b"DUCK":
        return Kind.DATABASE
    if re.match(rb"\x80[\x02-\x05]", head):
        return Kind.SNAPSHOT
    if head.startswith(_GZIP):
        head = _gunzip_start(path, head)
        if head.startswith(_GZIP):
            raise CorruptInputError(f"{path} is gzip in gzip; decompress it once with gunzip")
        return _kind(path, head)
    if path.suffix in (".nsys-rep", ".qdrep", ".qdstrm") and not head.lstrip().startswith((b"{", b"[")):
        return Kind.NSYS_REPORT  # nsys has no documented signature; only here the name has to help
    return _kind_of_text(path, head)


def _gunzip_start(path: Path, head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise CorruptInputError(f"{path} begins like gzip but is damaged: {error}") from error


def _kind_of_text(path: Path, head: bytes) -> Kind:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"{", b"[")):
        return Kind.KINETO
    raise UnknownFormatError(
        f"{path} is neither an nsys export (.sqlite, .nsys-rep) nor a torch.profiler trace (.json, .json.gz) nor an "
        "allocator snapshot (.pickle)"
    )
