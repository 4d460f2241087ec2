"""Where a command's rows go (stdout, a file, a folder), and what must be said of inputs that are not whole."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..errors import InputError, UsageError


class Format(StrEnum):
    """What a report can be written as."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    html = "html"
    mlora = "mlora"


_SCREEN_ROWS = 40
_DATABASE = ".duckdb"
_SUFFIXES = {f".{form}": form for form in (Format.csv, Format.parquet, Format.json, Format.html)}


@dataclass(frozen=True)
class Target:
    """Where the output of `analyze` goes, and in which format; without a path to stdout."""

    path: Path | None
    format: Format
    is_folder: bool = False

    @classmethod
    def of(cls, path: Path | None, format: Format | None) -> "Target":
        """Check the pair. Raises UsageError when it makes no sense."""
        if path is None:
            if format not in (None, Format.csv, Format.json):
                raise UsageError(f"--format {format} goes to a file; name it with -o")
            return cls(None, format or Format.csv)
        if path.is_dir() or not path.suffix:
            if format in (Format.mlora, Format.html):
                raise UsageError(f"--format {format} writes one file; give -o a file name")
            return cls(path, format or Format.csv, True)
        if format is None and path.suffix not in (_DATABASE, *_SUFFIXES):
            raise UsageError(f"-o {path}: write .csv, .parquet, .json, .html or .duckdb, or name the --format")
        return cls(path, format or _SUFFIXES.get(path.suffix, Format.csv))

    def database(self) -> Path | None:
        """Where the database belongs by default; None without an output."""
        if self.path is None:
            return None
        return self.path / "lorabench.duckdb" if self.is_folder else self.path.with_suffix(_DATABASE)

    @property
    def folder(self) -> Path | None:
        """Where files are written; None without an output."""
        return self.path if self.path is None or self.is_folder else self.path.parent

    def write(self, database: Any, report: str, escape_formulas: bool) -> None:
        """Write the report, or every view, and print the last line that stdout carries: `wrote PATH`."""
        from . import tables

        if self.path is None:
            self._print(database.view(report))
            return
        if self.is_folder:
            tables.write_all(database, self.path, self.format, escape_formulas)
        elif self.format is Format.html:
            from . import page  # plotly takes half a second

            page.write(database, self.path)
        elif self.path.suffix != _DATABASE:
            tables.write(database, report, self.path, self.format, escape_formulas)
        print(f"wrote {self.path}")

    def _print(self, rows: Any) -> None:
        """JSON where it was asked for, else a table on a terminal and CSV in a pipe."""
        if self.format is Format.json or not sys.stdout.isatty():
            print_rows(rows, self.format)
            return
        if len(rows) > _SCREEN_ROWS:
            print(f"the first {_SCREEN_ROWS} of {len(rows)} rows; all of them with -o FILE", file=sys.stderr)
        print_rows(rows.head(_SCREEN_ROWS), None)


def chosen_format(as_csv: bool, as_json: bool) -> Format | None:
    """The format that --csv and --json ask for, None for a table. Raises UsageError for both."""
    if as_csv and as_json:
        raise UsageError("choose one of --csv and --json")
    return Format.csv if as_csv else Format.json if as_json else None


def print_rows(frame: Any, format: Format | None) -> None:
    """Print a polars DataFrame on stdout, as a table unless a format is named."""
    if format is Format.csv:
        print(frame.write_csv(), end="")
    elif format is Format.json:
        print(frame.write_json())
    else:
        from .terminal import show

        show(frame.to_dicts(), frame.columns)


def tell_losses(database: Any) -> None:
    """Say on stderr what was lost while reading, and what the inputs lack."""
    losses = database.rows(
        """select source.name, section, item, value, note from source_fact join source using (source_id)
        where section in ('lost', 'missing') order by source_id, section, item"""
    )
    for name, section, item, value, note in losses:
        print(f"{name}: {section}: {item}: {value}" + (f" ({note})" if note else ""), file=sys.stderr)


def require_all(database: Any) -> None:
    """Raise InputError when an input could not be read: what was written holds the others alone."""
    from ..analyze.parts import WHOLE_FILE

    lost = [str(n) for (n,) in database.rows(
        "select name from source join source_fact using (source_id) where section = 'lost' and item = ?", WHOLE_FILE
    )]  # fmt: skip
    if lost:
        ((count,),) = database.rows("select count(*) from source")
        raise InputError(f"{len(lost)} of {count} inputs cannot be read ({', '.join(lost)}); the reports hold the rest")
