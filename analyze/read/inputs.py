"""What lies behind a path on the command line: recognized by content, never by name.

run directory   its trace files, side by side
.nsys-rep       exported through the installed nsys first
SQLite          an nsys export
JSON, gzip      a Kineto trace
pickle          a snapshot of torch's allocator
DuckDB          a database that lorabench made earlier
"""

import dataclasses
import gzip
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path

from ... import nsys, rundir
from ...errors import CorruptInputError, InputError, ToolError, UnknownFormatError, UsageError
from ...vocabulary import MADE_FOR_PERFETTO
from . import packed
from .exports import Exports

HEAD_BYTES = 65_536
_OWN_BYTES = 256  # in which what this program writes says so
_HEADER_BYTES = 4 << 20  # what stands before the events of a trace of thousands of ranks
_MOST_FOLDERS = 2_000
_MOST_NAMED = 3
_GZIP = b"\x1f\x8b"
_PATTERN = re.compile(r"[*?\[]")
_TAR = slice(257, 262), b"ustar"  # of POSIX pax(1)
# A file of a folder that is called so and is no trace is worth a word.
_MEANT = re.compile(r"trace|rank|worker[-_.]?\d|\.(nsys-rep|sqlite)(\.\w+)?$", re.IGNORECASE)


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
    process: int | None = None  # nsys' number for the one that is read of several in the file
    whose: str = ""  # of several: rank0, process4711
    export: Path | None = None  # of an nsys report, while it is read


def find(paths: list[Path], exports: Exports) -> list[Input]:
    """All inputs behind the given paths, directories opened.

    Raises InputError for what cannot be read, UnknownFormatError for what is no trace, ToolError for a report that
    cannot be exported. Of several inputs one that exists and cannot be read is listed as unreadable, so that it stops
    no other.
    """
    groups = [_behind(path, exports) if len(paths) == 1 else listed(path, exports) for path in paths]
    found = told_apart([item for group in groups for item in group])
    broken = [item for item in found if item.kind is Kind.UNREADABLE]
    if len(broken) == len(found):
        raise CorruptInputError(broken[0].problem)
    if len(found) > 1 and any(item.kind is Kind.DATABASE for item in found):
        raise InputError("a .duckdb file that lorabench made is an input of its own; give it alone")
    return found


def with_exports(found: list[Input], exports: Exports) -> list[Input]:
    """The same, reports of which several are inputs exported for all of them; who reads one that cannot be says why."""
    made = []
    for item in found:
        if item.kind is Kind.NSYS_REPORT and item.process is not None:
            with suppress(ToolError):
                exports.of(item.path)
        made.append(dataclasses.replace(item, export=exports.made_of(item.path)))
    return made


def spare(inputs: list[Path], *outputs: Path) -> None:
    """Raise UsageError when writing one of the outputs would replace an input, or what is read beside one.

    Under whatever name: a link leads to the same file.
    """
    read: dict[tuple[int, int], Path] = {}
    for path in inputs:
        folder = path.parent
        with suppress(InputError, OSError):
            if path.is_dir():
                folder = _in_directory(path)[0].path.parent
        is_read_whole = folder != path.parent or (folder / rundir.MANIFEST).is_file()
        for file in (path, *(rundir.belongings(folder) if is_read_whole else [])):
            with suppress(OSError):  # reading says what is wrong with it
                read.setdefault((file.stat().st_dev, file.stat().st_ino), file)
    for output in outputs:
        with suppress(OSError):
            status = output.stat()
            if (status.st_dev, status.st_ino) in read and not output.is_dir():
                file = read[status.st_dev, status.st_ino]
                raise UsageError(f"{output} would replace the input {file}; choose another place for the output")


def _behind(path: Path, exports: Exports) -> list[Input]:
    found = _in_directory(path) if _is_folder(path) else [recognise(path)]
    if len(found) == 1:
        return _processes(found[0], exports)
    return [one for item in found for one in _or_unreadable(item.path, partial(_processes, item, exports))]


def _processes(item: Input, exports: Exports) -> list[Input]:
    """The inputs that one file is: of nsys' report of several processes with GPUs of their own one for each."""
    if item.kind not in (Kind.NSYS_SQLITE, Kind.NSYS_REPORT):
        return [item]
    from . import noted, nsys_processes

    is_report = item.kind is Kind.NSYS_REPORT
    found = noted.processes(item.path, lambda: nsys_processes.apart(exports.of(item.path) if is_report else item.path))
    item = dataclasses.replace(item, export=exports.made_of(item.path))
    return [of_process(item, one.global_id, one.called) for one in found] or [item]


def told_apart(found: list[Input]) -> list[Input]:
    """The same, without ranks for the processes of files that would give the same ones: reports of several nodes."""
    files: dict[str, set[Path]] = {}
    for item in found:
        if item.whose:
            files.setdefault(item.whose, set()).add(item.path)
    clashing = {path for paths in files.values() if len(paths) > 1 for path in paths}
    if not clashing:
        return found
    from .nsys_processes import pid_of

    return [
        of_process(item, item.process, f"process{pid_of(item.process)}")
        if item.process is not None and item.path in clashing
        else item
        for item in found
    ]


def of_process(item: Input, process: int, whose: str) -> Input:
    """What one process left in a file."""
    return dataclasses.replace(item, process=process, whose=whose)


def listed(path: Path, exports: Exports) -> list[Input]:
    """The inputs behind a path; one that exists and cannot be read is listed as unreadable."""
    return _or_unreadable(path, lambda: _behind(path, exports))


def _or_unreadable(path: Path, find: Callable[[], list[Input]]) -> list[Input]:
    try:
        return find()
    except (InputError, ToolError) as error:
        if not path.exists():  # a word of the command line is wrong
            raise
        return [_unreadable(path, error)]


def _unreadable(path: Path, error: InputError | ToolError) -> Input:
    status = path.stat()
    return Input(path, Kind.UNREADABLE, status.st_size, status.st_mtime_ns, str(error))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _in_directory(path: Path) -> list[Input]:
    """The traces of a run directory, or of any folder that holds some; else of the one folder below that does.

    TensorBoard's profiles lie so: LOGDIR/plugins/profile/RUN/*.trace.json.gz.
    """
    found = _directly_in(path)
    if found:
        return found
    below = {folder: traces for folder in _folders_below(path) if (traces := _directly_in(folder))}
    if len(below) != 1 and (path / rundir.SWEEP).is_file():
        page = path / "sweep.html"
        about = f"; its page is {page}" if page.is_file() else ""
        given = f"give one of its runs, as {sorted(below)[0]}" if below else "its runs hold no traces"
        raise InputError(f"{path} is a sweep{about}; {given}")
    if len(below) > 1:
        named = [str(folder) for folder in sorted(below)]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        raise InputError(
            f"{path} holds traces in {len(named)} folders: {', '.join(named[:_MOST_NAMED])}{more}; give one of them, "
            "or several for one database of all"
        )
    if not below:
        if (path / rundir.MANIFEST).is_file():
            raise InputError(_without_traces(path))
        raise InputError(
            f"{path} is a folder without traces; give an nsys .sqlite or .nsys-rep, a torch.profiler .json or "
            ".json.gz, an allocator snapshot .pickle, or a folder that holds some"
        )
    return next(iter(below.values()))


def _without_traces(run: Path) -> str:
    """Why a run directory holds no trace. Raises InputError for one that this version cannot read."""
    manifest = rundir.read_manifest(run)
    status = manifest.get("status")
    if status != rundir.OK:
        how = {rundir.OOM: "was out of memory", rundir.CANCELLED: "was cancelled"}.get(str(status), "failed")
        why = f" ({manifest['message']})" if manifest.get("message") else ""
        return f"{run} has no trace: the run {how}{why}; {_instead(manifest)}"
    passes = manifest.get("passes", {})
    said = [passes[name]["message"] for name in ("torch", "memory") if passes.get(name, {}).get("message")]
    if said:
        return f"{run} has no trace: {said[0]}"
    return (
        f"{run} is the folder of a run without traces: collect with --profiler timing,torch; `lorabench compare` sets "
        "its steps beside those of other runs"
    )


def _instead(manifest: dict[str, object]) -> str:
    """What to do where a run that did not go well has no trace."""
    passes = manifest.get("passes")
    states = passes.values() if isinstance(passes, dict) else ()
    if "spec" not in manifest and any("exit_code" in state for state in states):
        return "`--profiler torch` alone records up to there"  # of what lorabench trains a pass writes at its end
    is_cancelled = manifest.get("status") == rundir.CANCELLED
    return "collect it again" if is_cancelled or "spec" in manifest else "collect it again when that is corrected"


def _folders_below(path: Path) -> Iterator[Path]:
    """Folders in a folder, hidden ones and links left out; of a very large tree the first ones alone."""
    walked = os.walk(path)
    for name, folders, _ in islice(walked, _MOST_FOLDERS):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        if Path(name) != path:
            yield Path(name)


def _directly_in(path: Path) -> list[Input]:
    """The traces that lie in a folder itself; those that cannot be read are listed as unreadable."""
    try:
        candidates = rundir.traces(path)
    except OSError as error:
        raise InputError(f"cannot read the folder {path}: {error.strerror}") from error
    found = []
    for candidate in candidates:
        is_meant = _MEANT.search(candidate.name) is not None
        try:
            item = recognise(candidate)
            if is_meant or item.kind is not Kind.KINETO or _has_events(candidate):
                found.append(item)
        except InputError as error:
            if is_meant or not isinstance(error, UnknownFormatError) or _is_packed_trace(candidate):
                found.append(_unreadable(candidate, error))
    return _without_twins([item for item in found if item.kind is not Kind.DATABASE])


def _has_events(path: Path) -> bool:
    """Whether JSON looks like a trace, and not like a model's settings or words, which may lie beside one."""
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    if head.startswith(_GZIP):
        head = _gunzip_start(path, head, _HEADER_BYTES)
    return b'"traceEvents"' in head or b'"ph"' in head


def _is_packed_trace(path: Path) -> bool:
    """Whether a packed file that is not read holds what would be."""
    head = packed.start(path, _HEADER_BYTES)
    try:
        return bool(head) and (_kind(path, head) is not Kind.KINETO or b'"traceEvents"' in head or b'"ph"' in head)
    except InputError:
        return False


def _without_twins(found: list[Input]) -> list[Input]:
    """Leave out an nsys report that lies beside its own export, and what is packed beside the same unpacked.

    What has another size when it is unpacked is another recording.
    """
    sizes = {item.path.name: item.size_bytes for item in found}
    exported = {item.path.with_suffix("") for item in found if item.kind is Kind.NSYS_SQLITE}

    def is_twin(item: Input) -> bool:
        if item.kind is Kind.NSYS_REPORT and item.path.with_suffix("") in exported:
            return True
        unpacked = sizes.get(item.path.with_suffix("").name)
        return unpacked is not None and (item.kind is not Kind.KINETO or unpacked == item.content_bytes)

    return [item for item in found if not is_twin(item)]


def recognise(path: Path) -> Input:
    """The format of one file, from its first bytes.

    Raises UnknownFormatError for another one, and what unpacks it where that is the obstacle.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is not a regular file; write it to one first, because it is read more than once")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(max(0, status.st_size - 4))
            tail = file.read(4)
    except FileNotFoundError as error:
        hint = "; leave out the quotes, so that the shell expands it" if _PATTERN.search(str(path)) else ""
        raise InputError(f"no such file: {path}{hint}") from error
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
        kind = _kind(path, head)
        if kind not in (Kind.KINETO, Kind.SNAPSHOT):
            raise UnknownFormatError(
                f"{path} is packed with gzip; unpack it first: `gunzip -k` (JSON and snapshots are read as they are)"
            )
        return kind
    is_named = path.suffix in (".nsys-rep", ".qdrep", ".qdstrm")  # nsys documents no signature
    if nsys.is_report(head) or (is_named and not head.lstrip().startswith((b"{", b"["))):
        return Kind.NSYS_REPORT
    return _kind_of_text(path, head)


def _gunzip_start(path: Path, head: bytes, most_bytes: int = HEAD_BYTES) -> bytes:
    try:
        text = zlib.decompressobj(wbits=31).decompress(head, most_bytes)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise CorruptInputError(f"{path} begins like gzip but is damaged: {error}") from error
    if not text and path.stat().st_size <= HEAD_BYTES:
        raise CorruptInputError(f"{path} is gzip and holds nothing: it is empty, or cut off at once")
    return text


def _kind_of_text(path: Path, head: bytes) -> Kind:
    if head.startswith(packed.ZIP) and b"/data.pkl" in head:
        raise UnknownFormatError(
            f"{path} is what torch.save() writes, a checkpoint or weights, and no trace; a snapshot of memory is what "
            "torch.cuda.memory._dump_snapshot() writes"
        )
    if how := packed.advice(head):
        raise UnknownFormatError(f"{path} is {how}")
    if head[_TAR[0]] == _TAR[1]:
        raise UnknownFormatError(f"{path} is an archive; unpack it first: `tar -xf`, and name the folder")
    if MADE_FOR_PERFETTO.encode() in head[:_OWN_BYTES]:
        raise UnknownFormatError(f"{path} is what `{MADE_FOR_PERFETTO}` wrote; give the trace that it was made of")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"{", b"[")):
        return Kind.KINETO
    raise UnknownFormatError(
        f"{path} is neither an nsys export (.sqlite, .nsys-rep) nor a torch.profiler trace (.json, .json.gz) nor an "
        "allocator snapshot (.pickle)"
    )
