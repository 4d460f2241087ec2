"""The results of all inputs into one database, in which ranks are compared.

Rows about one input stand one after another, as they were handed on; collectives are matched, clocks aligned and
stragglers found among all, by the same views as where all inputs are read into one database.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ... import unfinished
from ...errors import CorruptInputError, InputError
from ...progress import Progress
from ...small_files import parse_json, read_text
from ...sql import literal
from ...vocabulary import WHOLE_FILE
from ..store import arrow_functions as arrow
from ..store import compact
from ..store.building import building, insert, tables_for_views
from ..store.database import Database
from ..store.jobs import JobInput
from . import comparing, folder, handed, result

_AT_ONCE = 64  # results in memory
_MEMORY = "384MB"
_WITH_COLLECTIVES = ("collective", "_rank_part", "_rank_stretch", "_rank_wait")


@dataclass(frozen=True)
class Entry:
    """One input of a job: its result, or why there is none."""

    location: str
    size_bytes: int | None  # None where its result cannot be read
    folder: Path
    problem: str | None = None
    stamp: str = ""
    made_by: str = ""  # which lorabench made the result
    settings: str = ""

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.location.rsplit("/", 1)[-1]

    @property
    def is_remote(self) -> bool:
        """Whether it lies elsewhere."""
        return "://" in self.location

    @property
    def file(self) -> Path:
        """The file that holds it; of one process of several in a file the location says which behind a #."""
        path = Path(self.location)
        return path if path.exists() or "#" not in path.name else Path(self.location.rpartition("#")[0])

    @property
    def result_ns(self) -> int | None:
        """When the result was written, whoever can read it."""
        with suppress(OSError):
            return folder.result_of(self.folder).stat().st_mtime_ns
        return None


class _DamagedError(CorruptInputError):
    """The result of an input, by its number, cannot be read to its end."""

    def __init__(self, number: int, place: Path) -> None:
        super().__init__(_damaged(place))
        self.number = number


@dataclass(frozen=True)
class Merged:
    """How many inputs were put together, and the names of those that could not be, with the reason."""

    read_cnt: int
    lost: tuple[tuple[str, str], ...]


def merge(job: Path, progress: Progress, problems: Mapping[str, str] | None = None, said: Path | None = None) -> Merged:
    """Make the database of a job of the results that are there.

    problems: what is wrong with results, by the names of their folders, said: how the job is called in messages.
    Raises InputError when there are none, OutputError when it cannot be written.
    """
    known = problems or {}
    listed = [
        replace(entry, problem=known.get(entry.folder.name, entry.problem))
        for entry in sorted(entries(job), key=_by_number)
    ]
    while True:  # once more without it, when a result turns out to be damaged behind its header
        lost = tuple((one.name, one.problem) for one in listed if one.problem is not None)
        if len(lost) == len(listed):
            first = f"; the first, {': '.join(lost[0])}" if lost else ""
            raise InputError(f"no result of an input in {said or job} can be used{first}")
        whole = unfinished.beside(job / folder.DATABASE, "open")
        try:
            _fill(job, whole, listed, progress)
            return Merged(len(listed) - len(lost), lost)
        except _DamagedError as error:
            listed[error.number - 1] = replace(listed[error.number - 1], problem=str(error))
        finally:
            whole.unlink(missing_ok=True)


def _fill(job: Path, whole: Path, entries: Sequence[Entry], progress: Progress) -> None:
    """Make the database, in one that has all views."""
    with building(whole, folder.settings_of(job)) as new:
        new.connection.execute(f"set memory_limit = {literal(_MEMORY)}")
        lost = [(number, entry) for number, entry in enumerate(entries, 1) if entry.problem is not None]
        new.connection.execute("begin")  # a commit for each batch would take a third of the time
        about_lost = _add_lost(new, lost)
        tables_for_views(new, handed.VIEWS)
        progress.step("putting results together", len(entries) - len(lost))
        for entries_at_once in _batches(entries):
            _append(new, entries_at_once)
            progress.advance(len(entries_at_once))
        insert(new, "trace_info", about_lost)
        new.connection.execute("commit")
        progress.step("comparing ranks")
        comparing.compare(new, [entry.folder for entry in entries])
        _note_made_of(new, entries)
        names = (*handed.TABLES, *handed.MATCHED, *handed.CONSTANT, *handed.VIEWS, *handed.MERGED, "job_input")
        compact.write(new, job / folder.DATABASE, names)


def is_current(job: Path, known: Sequence[JobInput]) -> bool:
    """Whether the database of a job holds the results and problems that are there now."""
    found: dict[str, int | None] = {}
    if not (job / folder.INPUTS).is_dir():  # its parts are gone: the database is all there is
        return True
    for path in folder.inputs_in(job):
        with suppress(OSError):
            found[path.name] = folder.result_of(path).stat().st_mtime_ns
        if path.name not in found and (path / folder.PROBLEM).is_file():
            found[path.name] = None
    return found == {one.folder: one.result_ns for one in known}


def entries(job: Path) -> Iterator[Entry]:
    """The inputs of a job that were read, or that could not be."""
    settings = folder.settings_of(job).text
    for path in folder.inputs_in(job):
        header = result.header(folder.result_of(path))
        if header is not None:
            problem = None
            if header.get("settings") != settings:
                problem = "it was read with other thresholds or kernel classes; analyze it again"
            elif header.get("versions") != folder.versions():
                problem = f"it was read by another version of lorabench: lorabench merge {job}"
            of = (str(header["location"]), int(header["size_bytes"]), path, problem)
            yield Entry(*of, str(header.get("stamp")), str(header.get("versions")), str(header.get("settings")))
            continue
        try:
            noted = parse_json(read_text(path / folder.PROBLEM))
            identity = noted["identity"]
            yield Entry(str(identity["location"]), int(identity["size_bytes"]), path, str(noted["text"]))
        except (OSError, ValueError, KeyError, TypeError):
            if folder.result_of(path).exists():  # its size and place were in what cannot be read
                yield Entry(path.name, None, path, _damaged(path))
            # else somebody is reading it for the first time


def _damaged(place: Path) -> str:
    return f"its result is damaged: remove {folder.INPUTS}/{place.name} and analyze it again"


def _by_number(entry: Entry) -> list[Any]:
    """Names in the order that people expect: rank 2 before rank 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", entry.location)]


def _batches(entries: Sequence[Entry]) -> Iterator[list[tuple[int, Entry]]]:
    numbered = [(number, entry) for number, entry in enumerate(entries, 1) if entry.problem is None]
    for at in range(0, len(numbered), _AT_ONCE):
        yield numbered[at : at + _AT_ONCE]


def _add_lost(new: Database, lost: Sequence[tuple[int, Entry]]) -> pa.Table:
    """Rows of inputs that could not be read; what trace_info has of them."""
    for number, entry in lost:
        new.connection.execute(
            "insert into source (source_id, name, size_bytes, is_timed) values (?, ?, ?, true)",
            [number, _text(entry.name), entry.size_bytes],
        )
        new.connection.execute(
            "insert into source_fact (source_id, section, item, value) values (?, 'lost', ?, ?)",
            [number, WHOLE_FILE, entry.problem],
        )
    return new.table("from trace_info")


def large(paths: Sequence[tuple[int, Path]], view: str, empty: pa.Table) -> pa.Table:
    """The rows of a view that stay in the results, of these inputs; rows like those of a table without any."""
    found = [empty]
    for source_id, path in paths:
        table = result.read_one(path, view)
        if table is not None:
            found.append(_renumbered(table, source_id, 0))
    return pa.concat_tables(found, promote_options="permissive").combine_chunks()


def _append(new: Database, entries: Sequence[tuple[int, Entry]]) -> None:
    """Put the rows of some results into the tables."""
    ((shift,),) = new.rows("select coalesce(max(collective_id) + 1, 0) from collective")
    gathered: dict[str, list[pa.Table]] = {}
    for source_id, entry in entries:
        try:
            tables = dict(result.read(entry.folder / folder.RESULT))
        except CorruptInputError as error:
            raise _DamagedError(source_id, entry.folder) from error
        for name in (*handed.TABLES, *handed.VIEWS):
            if name in tables:
                moved = _renumbered(tables[name], source_id, shift if name in _WITH_COLLECTIVES else 0)
                gathered.setdefault(name, []).append(moved)
        if "collective" in tables:
            shift += arrow.extent(tables["collective"]["collective_id"])[1] + 1
    for name, tables_of_name in gathered.items():
        insert(new, name, pa.concat_tables(tables_of_name, promote_options="permissive").combine_chunks())


def _renumbered(table: pa.Table, source_id: int, shift: int) -> pa.Table:
    """The rows as those of this source, their collectives with the keys that they have here."""
    place = table.column_names.index("source_id")
    table = table.set_column(place, "source_id", pa.repeat(pa.scalar(source_id, pa.int32()), table.num_rows))
    if shift:
        place = table.column_names.index("collective_id")
        moved = arrow.shifted(table["collective_id"], shift)
        table = table.set_column(place, "collective_id", moved)
    return table


def _note_made_of(new: Database, entries: Sequence[Entry]) -> None:
    """The inputs by number, and of which results the database is."""
    rows = pa.table(
        {
            "source_id": pa.array(range(1, len(entries) + 1), pa.int32()),
            "location": pa.array([_text(entry.location) for entry in entries], pa.string()),
            "folder": pa.array([entry.folder.name for entry in entries], pa.string()),
            "result_ns": pa.array([entry.result_ns for entry in entries], pa.int64()),
            "versions": pa.array([folder.versions()] * len(entries), pa.string()),
        }
    )
    new.connection.register("handed", rows)
    new.connection.execute("create table job_input as from handed")
    new.connection.unregister("handed")


def _text(name: str) -> str:
    """A name as text; bytes that are no text are written out."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
