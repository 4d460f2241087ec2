"""The SQL of lorabench: one table or view a file, its documentation above it.

This module only finds and parses the files; analyze/store runs them, each view after those that it reads
(views.in_order). Folders say what a file is for:

    0_tables    what readers and attribution fill
    0_rows      what a new database has in tables of settings: a select, or a CSV of the rows
    1_staging   per source: batch of the file's rows -> rows of a table (run at ingest)
    2_macros    functions that views share
    2_definitions   what the sums by range, path and set are, where arrays or statements fill tables with them
    2_model     private views, names with a leading underscore, by what they are about:
        inputs      what an input is, holds and lacks: its devices, processes, window, run
        ranges      ranges of code: what they mean (phases, LoRA, input, compiling), what they own
        work        operations on GPUs: classes, short names, rooflines, what each device does when
        cpu         inputs without GPU work: what their threads do
        launches    calls of the API: launches, waits, queues
        idle        gaps of devices, and what each is blamed on
        steps       steps, their phases and lengths, and which of them are warm
        critical    the critical path by step, range and stream
        memory      blocks, levels, peaks
        ranks       ranks beside one another: meetings, ways, waits, stragglers, pipelines
        replay      what is replayed, and what findings save by it
    3_reports   public views
    3_shown     private views, what the answer, pages and files for other viewers show: made small
    3_compared  private views that only comparisons read: amounts by step (_amount_of_*), what steps and kernels are
    3_findings  rules of the view finding: the file's name is the rule, its second paragraph the advice; a third, if it
                begins with `Without torch:`, is the advice for a program in which nothing shows torch; the last, if it
                begins with `Only with:`, is a statement without whose rows the rule finds nothing, and is not planned
    3_memory_findings   rules of the view memory_finding, in the same form
    3_validations   rules of the view validation, in the same form
    4_checks    views that must be empty whenever a file was read
    4_laws      views that must be empty whenever findings are replayed (`lorabench validate`)
    5_statements    what no view can be, as it has $parameters or writes: statement() puts SQL in the place of them

A table's file is its header alone: the statement is made from the columns. A header is a comment block: a sentence
saying what a row is (of a macro `Macro NAME(arguments): ` and what it returns), an empty line, method and caveats, then

    -- columns:
    --   name   type   what it means

Files of 1_staging say which tables and temporary tables they read (`needs:`), those and statements what takes the place
of a $parameter or a ? (`given:`).

A column of the type `enum` holds no other texts than those that its sentence quotes; DuckDB stores and compares them as
numbers.
"""

import csv
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile

from ..errors import UsageError

TABLES, ROWS, STAGING, MACROS = "0_tables", "0_rows", "1_staging", "2_macros"
DEFINITIONS, MODEL = "2_definitions", "2_model"
REPORTS, SHOWN, FINDINGS, MEMORY_FINDINGS = "3_reports", "3_shown", "3_findings", "3_memory_findings"
COMPARED, VALIDATIONS = "3_compared", "3_validations"
CHECKS, LAWS, STATEMENTS = "4_checks", "4_laws", "5_statements"
FOLDERS = (
    TABLES,
    ROWS,
    STAGING,
    MACROS,
    DEFINITIONS,
    MODEL,
    REPORTS,
    SHOWN,
    COMPARED,
    FINDINGS,
    MEMORY_FINDINGS,
    VALIDATIONS,
    CHECKS,
    LAWS,
    STATEMENTS,
)

_COLUMN = re.compile(r"(?P<name>[a-z_0-9]+)\s+(?P<type>[a-z]+(?:\[\])?)\s+(?P<doc>\S.*)")
_ONLY_WITH = "Only with: "
_NOT_OURS = ("_", "duckdb_", "sqlite_", "pragma_")
_QUOTED = re.compile("'[^']+'")


@dataclass(frozen=True)
class Column:
    """One documented column: its name, its type as written in the header, and a sentence."""

    name: str
    type: str
    doc: str

    @property
    def sql_type(self) -> str:
        """The type as a statement spells it; the values of an `enum` are the words that its sentence quotes."""
        return f"enum({', '.join(_QUOTED.findall(self.doc))})" if self.type == "enum" else self.type


@dataclass(frozen=True)
class SqlFile:
    """An SQL file: what a row is, how it is computed, its columns and its statement; parsed when they are asked for."""

    folder: str
    name: str
    text: str

    @cached_property
    def _header(self) -> list[str]:
        comments = takewhile(lambda line: line.startswith("--"), self.text.splitlines())
        return [line[2:].rstrip() for line in comments]

    @cached_property
    def _columns_at(self) -> int:
        return next((i for i, line in enumerate(self._header) if line.strip() == "columns:"), len(self._header))

    @cached_property
    def _paragraphs(self) -> list[str]:
        paragraphs = re.split(r"\n\s*\n", "\n".join(self._header[: self._columns_at]).strip())
        return [" ".join(paragraph.split()) for paragraph in paragraphs]

    @property
    def row(self) -> str:
        """The sentence that says what a row is, or what a macro returns. Raises ValueError when the header has none."""
        first = self._paragraphs[0]
        is_said = re.match(rf"(?:Table macro|Macro) {self.name}\(", first) if self.folder == MACROS else first
        if not is_said:
            missing = "Macro NAME(arguments): …" if self.folder == MACROS else "a sentence that says what a row is"
            raise ValueError(f"{self.folder}/{self.name}.sql begins without {missing}")
        return first

    @property
    def method(self) -> str:
        """How it is computed, and caveats."""
        return "\n\n".join(text for text in self._paragraphs[1:] if not text.startswith(_ONLY_WITH))

    @property
    def only_with(self) -> str:
        """A statement; where it has no rows a rule has none. Empty: nobody knows before the rule is asked."""
        last = self._paragraphs[-1]
        return last.removeprefix(_ONLY_WITH) if last.startswith(_ONLY_WITH) else ""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The documented columns, in their order."""
        return _columns(self._header[self._columns_at + 1 :])

    @cached_property
    def statement(self) -> str:
        """What makes it; of a table that is made from the columns."""
        if self.folder == TABLES:
            return f"create table {self.name} ({', '.join(f'{c.name} {c.sql_type}' for c in self.columns)})"
        return "\n".join(self.text.splitlines()[len(self._header) :]).strip().rstrip(";")

    @property
    def is_public(self) -> bool:
        """True for the views that users query; private names begin with an underscore."""
        return self.folder == REPORTS


def _columns(lines: list[str]) -> tuple[Column, ...]:
    """Columns from header lines; a line indented deeper than the names continues the one above."""
    columns: list[Column] = []
    for line in lines:
        if line.startswith("      ") and columns:
            last = columns[-1]
            columns[-1] = Column(last.name, last.type, f"{last.doc} {line.strip()}")
        elif match := _COLUMN.match(line.strip()):
            columns.append(Column(**match.groupdict()))
    return tuple(columns)


@cache
def load() -> tuple[SqlFile, ...]:
    """Every SQL file of the package, folder by folder, each folder in name order."""
    return tuple(
        SqlFile(folder, name.removesuffix(".sql"), content.decode())
        for folder, name, content in _contents()
        if name.endswith(".sql")
    )


@cache
def _contents() -> tuple[tuple[str, str, bytes], ...]:
    """Folder, name and bytes of every file; the folders in their order, what is in each in order of its names."""
    return tuple(
        (folder, path.name, path.read_bytes())
        for folder in FOLDERS
        for path in sorted(_files_in(files(__name__).joinpath(folder)), key=lambda path: path.name)
    )


def _files_in(folder: Traversable) -> Iterator[Traversable]:
    for path in folder.iterdir():
        if path.is_dir():
            yield from _files_in(path)
        else:
            yield path


@cache
def fingerprint() -> str:
    """A short text that changes with any SQL file; a database of another one is not used again."""
    hashed = hashlib.sha256()
    for folder, name, content in _contents():
        hashed.update(f"{folder}/{name}\0".encode())
        hashed.update(content + b"\0")
    return hashed.hexdigest()[:16]


def public() -> tuple[SqlFile, ...]:
    """The views that users query."""
    return tuple(file for file in load() if file.is_public)


def public_view(name: str) -> SqlFile:
    """The public view of a name. Raises UsageError with the names most like it."""
    known = {view.name: view for view in public()}
    if name not in known:
        near = get_close_matches(name, known) or [other for other in known if name and name in other][:5]
        hint = f"did you mean {' or '.join(near)}?" if near else "`lorabench views` lists them"
        raise UsageError(f"there is no view {name!r}: {hint}")
    return known[name]


def relation(name: str) -> str:
    """The name itself, unless no database has such a view or table. Raises UsageError with the views most like it.

    Names that begin with an underscore, and those of DuckDB's own views, are left to the database.
    """
    known = {file.name for file in load()} | set(csv_names()) | {"lorabench"}
    if name.lower() not in known and not name.lower().startswith(_NOT_OURS):
        public_view(name)
    return name


@cache
def csv_rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a CSV file of 0_rows."""
    (content,) = (content for folder, file, content in _contents() if (folder, file) == (ROWS, f"{name}.csv"))
    return tuple(csv.DictReader(content.decode().splitlines()))


def csv_names() -> tuple[str, ...]:
    """The tables whose rows lie in a CSV file."""
    names = (name for folder, name, _ in _contents() if folder == ROWS)
    return tuple(name.removesuffix(".csv") for name in names if name.endswith(".csv"))


def in_folder(folder: str) -> tuple[SqlFile, ...]:
    """The files of one folder."""
    return tuple(f for f in load() if f.folder == folder)


def staging(name: str, **given: str) -> str:
    """The statement of one staging file, with SQL in the place of its $parameters; KeyError for an unknown name."""
    return _with(STAGING, name, given)


def statement(name: str, **given: str) -> str:
    """One of the statements that no view can be, with SQL in the place of its $parameters; KeyError as above."""
    return _with(STATEMENTS, name, given)


def _with(folder: str, name: str, given: dict[str, str]) -> str:
    """A statement with its parameters, all at once: what is given may hold a $ of its own."""
    found = {file.name: file.statement for file in in_folder(folder)}[name]
    return re.sub(r"\$(\w+)", lambda parameter: given.get(parameter[1], parameter[0]), found)


def staging_macro(function: str, parameters: str, name: str) -> str:
    """A statement that makes a temporary function of a staging file, for others to call."""
    return f"create or replace temp macro {function}({parameters}) as {staging(name)}"


def quoted(identifier: str) -> str:
    """A SQL identifier in double quotes."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A SQL string in single quotes."""
    return "'" + text.replace("'", "''") + "'"
