"""The SQL of lorabench: one table or view a file, its documentation above it.

This module only finds and parses the files; analyze/store runs them. Folders are read in the order of their
numbers, so a file may use everything from an earlier folder:

    0_tables    what readers and attribution fill
    0_rows      what a new database has in tables of settings: a select, or a CSV of the rows
    1_staging   per source: batch of the file's rows -> rows of a table (run at ingest)
    2_macros    functions that views share
    2_definitions   what the sums by range, path and set are, where arrays or statements fill tables with them
    2_model     private views, names with a leading underscore
    3_reports   public views
    3_shown     private views, what the answer, pages and files for other viewers show: made small
    3_findings  rules of the view finding: the file's name is the rule, its second paragraph the advice; a third, if it
                begins with `Without torch:`, is the advice for a program in which nothing shows torch
    3_memory_findings   rules of the view memory_finding, in the same form
    3_validations   rules of the view validation, in the same form
    4_checks    views that must be empty

A table's file is its header alone: the statement is made from the columns. A header is a comment block: a sentence
saying what a row is, an empty line, method and caveats, then

    -- columns:
    --   name   type   what it means

A column of the type `enum` holds no other texts than those that its sentence quotes; DuckDB stores and compares them as
numbers.
"""

import csv
import hashlib
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from ..errors import UsageError

TABLES, ROWS, STAGING, MACROS = "0_tables", "0_rows", "1_staging", "2_macros"
DEFINITIONS, MODEL = "2_definitions", "2_model"
REPORTS, SHOWN, FINDINGS, MEMORY_FINDINGS = "3_reports", "3_shown", "3_findings", "3_memory_findings"
VALIDATIONS, CHECKS = "3_validations", "4_checks"
FOLDERS = (
    TABLES,
    ROWS,
    STAGING,
    MACROS,
    DEFINITIONS,
    MODEL,
    REPORTS,
    SHOWN,
    FINDINGS,
    MEMORY_FINDINGS,
    VALIDATIONS,
    CHECKS,
)

_COLUMN = re.compile(r"(?P<name>[a-z_0-9]+)\s+(?P<type>[a-z]+)\s+(?P<doc>\S.*)")
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
    """A parsed SQL file: what a row is, how it is computed, its columns and its statement."""

    folder: str
    name: str
    row: str
    method: str
    columns: tuple[Column, ...]
    statement: str

    @property
    def is_public(self) -> bool:
        """True for the views that users query; private names begin with an underscore."""
        return self.folder == REPORTS and not self.name.startswith("_")


def parse(folder: str, name: str, text: str) -> SqlFile:
    """Split a file's text into its header and its statement.

    Raises ValueError when the header has no sentence saying what a row is.
    """
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    header = [line[2:].rstrip() for line in lines[:end]]
    split = next((i for i, line in enumerate(header) if line.strip() == "columns:"), len(header))
    paragraphs = re.split(r"\n\s*\n", "\n".join(header[:split]).strip())
    if not paragraphs[0]:
        raise ValueError(f"{folder}/{name}.sql begins without a sentence that says what a row is")
    prose = [" ".join(p.split()) for p in paragraphs]
    columns = _columns(header[split + 1 :])
    statement = "\n".join(lines[end:]).strip().rstrip(";")
    if folder == TABLES:
        statement = f"create table {name} ({', '.join(f'{c.name} {c.sql_type}' for c in columns)})"
    return SqlFile(folder, name, prose[0], "\n\n".join(prose[1:]), columns, statement)


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
        parse(folder, path.name.removesuffix(".sql"), path.read_text("utf-8"))
        for folder in FOLDERS
        for path in _in(folder)
        if path.name.endswith(".sql")
    )


def _in(folder: str) -> list[Traversable]:
    """What lies in a folder, in order of its names."""
    return sorted(files(__name__).joinpath(folder).iterdir(), key=lambda path: path.name)


@cache
def fingerprint() -> str:
    """A short text that changes with any SQL file; a database of another one is not used again."""
    content = hashlib.sha256()
    for folder in FOLDERS:
        for path in _in(folder):
            content.update(f"{folder}/{path.name}\0".encode())
            content.update(path.read_bytes() + b"\0")
    return content.hexdigest()[:16]


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


@cache
def csv_rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a CSV file of 0_rows."""
    return tuple(csv.DictReader(files(__name__).joinpath(ROWS, f"{name}.csv").read_text("utf-8").splitlines()))


def csv_names() -> tuple[str, ...]:
    """The tables whose rows lie in a CSV file."""
    return tuple(path.name.removesuffix(".csv") for path in _in(ROWS) if path.name.endswith(".csv"))


def in_folder(folder: str) -> tuple[SqlFile, ...]:
    """The files of one folder."""
    return tuple(f for f in load() if f.folder == folder)


def staging(name: str, **given: str) -> str:
    """The statement of one staging file, with SQL in the place of its $parameters; KeyError for an unknown name."""
    statement = {f.name: f.statement for f in in_folder(STAGING)}[name]
    for parameter, text in given.items():
        statement = statement.replace(f"${parameter}", text)
    return statement


def staging_macro(function: str, parameters: str, name: str) -> str:
    """A statement that makes a temporary function of a staging file, for others to call."""
    return f"create or replace temp macro {function}({parameters}) as {staging(name)}"


def quoted(identifier: str) -> str:
    """A SQL identifier in double quotes."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A SQL string in single quotes."""
    return "'" + text.replace("'", "''") + "'"
