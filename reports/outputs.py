"""Where a command's rows go: stdout, a file, a folder."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from .. import rundir, sql
from ..console import HIDDEN_IN_TEXT, put, put_json, put_lines, tell, tell_sentence, visible
from ..errors import UsageError
from ..paths import names_folder
from .tables.column_order import ordered, telling, view_of
from .tables.narrowing import Narrowing
from .tables.why_empty import why_nothing


class Format(StrEnum):
    """What a report can be written as."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    html = "html"
    mlora = "mlora"


ROW_SUFFIXES = (".csv", ".json", ".parquet")  # of files for rows that are no whole view
ROW_FILES = "a .csv, .json or .parquet file"
_SCREEN_ROWS = 40
_DATABASE = ".duckdb"
MAIN_REPORT = "range_summary"
_SUFFIXES = {f".{form}": form for form in (Format.csv, Format.parquet, Format.json, Format.html)}


@dataclass(frozen=True)
class Target:
    """Where the output of `analyze` goes, and in which format; without a path to stdout."""

    path: Path | None
    format: Format
    is_folder: bool = False
    is_as_suits: bool = False  # no format was named for a folder: large views are Parquet
    is_raw: bool = False  # CSV was asked for: on a terminal, too

    @classmethod
    def of(cls, path: Path | None, format: Format | None) -> "Target":
        """Check the pair. Raises UsageError when it makes no sense."""
        if path is None:
            if format not in (None, Format.csv, Format.json):
                raise UsageError(f"--format {format} goes to a file; name it with -o")
            return cls(None, format or Format.csv, is_raw=format is not None)
        refuse_dash(path)
        if names_folder(path):
            if format in (Format.mlora, Format.html):
                raise UsageError(f"--format {format} writes one file; give -o a file name")
            return cls(Path(path), format or Format.csv, True, is_as_suits=format is None)
        if format is not None and path.suffix == _DATABASE:
            raise UsageError(f"-o {path} is the database, which has no --format {format}")
        if format is None and path.suffix not in (_DATABASE, *_SUFFIXES):
            raise UsageError(
                f"-o {path}: write .csv, .parquet, .json, .html or .duckdb, or name the --format; "
                f"for a folder write {path}/"
            )
        if format not in (None, Format.mlora) and _SUFFIXES.get(path.suffix, format) != format:
            raise UsageError(f"choose one of -o {path} and --format {format}")
        return cls(path, format or _SUFFIXES.get(path.suffix, Format.csv))

    def database(self, chosen: Path | None) -> Path | None:
        """Where the database goes: to the place that was chosen, or to the output; None for the cache.

        Raises UsageError when both are named.
        """
        if self.is_database and chosen is not None and chosen != self.path:
            raise UsageError(f"-o {self.path} and --db {chosen} both name the database; choose one")
        return self.path if self.is_database else chosen

    @property
    def is_database(self) -> bool:
        """Whether the output is the database itself."""
        return self.path is not None and self.path.suffix == _DATABASE and not self.is_folder

    def files(self) -> list[Path]:
        """All files that are written."""
        if self.path is None:
            return []
        if not self.is_folder:
            return [self.path]
        forms = (Format.csv, Format.parquet) if self.is_as_suits else (self.format,)
        return [self.path / f"{view.name}.{form}" for view in sql.public() for form in forms]

    @property
    def folder(self) -> Path | None:
        """Where files are written; None without an output."""
        return self.path if self.path is None or self.is_folder else self.path.parent

    def check(self, report: str | None, narrowing: Narrowing) -> None:
        """Raise UsageError where what is wanted of a report goes with no report, or the report lacks it."""
        is_of_report = not (self.is_folder or self.format is Format.html or self.is_database)
        if report is not None and not is_of_report:
            raise UsageError(
                f"--report {report} goes to one table: a terminal, .csv, .parquet or .json, not {self.path}"
            )
        if not narrowing:
            return
        if not is_of_report or self.format is Format.mlora:
            raise UsageError(
                "--columns, --sort, --limit and filters go with one report: a table, .csv, .parquet or .json"
            )
        narrowing.statement(sql.public_view(report or MAIN_REPORT))

    def check_text(self) -> None:
        """Raise UsageError for --escape-formulas where no file is written that a spreadsheet reads."""
        if self.path is None or self.is_database or self.format in (Format.html, Format.mlora):
            raise UsageError("--escape-formulas is for report files: name one, like -o report.csv, or -o DIR/")

    def write(
        self, database: Any, report: str, escape_formulas: bool, narrowing: Narrowing, inputs: Sequence[Path] = ()
    ) -> None:
        """Write the report, or every view, and print the last line that stdout carries: `wrote PATH`."""
        from .tables import files

        if self.path is None:
            frame = database.query(narrowing.statement(sql.public_view(report))) if narrowing else database.view(report)
            self._print(frame, database, report, narrowing)
            return
        if self.is_folder:
            written = files.write_all(database, self.path, None if self.is_as_suits else self.format, escape_formulas)
            large = [path.stem for path in written if self.is_as_suits and path.suffix == ".parquet"]
            if large:
                tell_sentence(
                    f"{', '.join(large)}: over {files.MOST_CSV_ROWS:,} rows, so as Parquet; --format csv writes text"
                )
        elif self.format is Format.html:
            from .page import page

            page.write(database, self.path, inputs)
        elif self.path.suffix != _DATABASE:
            files.write(database, report, self.path, self.format, escape_formulas, narrowing)
        put(f"wrote {self.path}")

    def _print(self, frame: Any, database: Any, report: str, narrowing: Narrowing) -> None:
        """JSON where it was asked for, else a table on a terminal and CSV in a pipe."""
        if frame.is_empty():
            tell_sentence(why_nothing(database, report, narrowing.filters))
        if self.format is Format.json or not sys.stdout.isatty() or self.is_raw:
            print_rows(frame, self.format)
            return
        if len(frame) > _SCREEN_ROWS and narrowing.limit is None:
            tell(f"the first {_SCREEN_ROWS} of {len(frame)} rows; --limit N shows more, -o FILE has all")
            frame = frame.head(_SCREEN_ROWS)
        print_rows(frame, None, more="--columns a,b,c, --csv, or -o FILE")


def refuse_dash(path: Path) -> None:
    """Raise UsageError for what other programs take for stdout: a folder of that name would be made."""
    if str(path) == "-":
        raise UsageError(
            "-o -: without -o `lorabench analyze INPUT --report VIEW` and `lorabench query` print to stdout"
        )


def chosen_format(as_csv: bool, as_json: bool) -> Format | None:
    """The format that --csv and --json ask for, None for a table. Raises UsageError for both."""
    if as_csv and as_json:
        raise UsageError("choose one of --csv and --json")
    return Format.csv if as_csv else Format.json if as_json else None


def with_unlike(rules: Any, unlike: Mapping[str, tuple[int, str]]) -> Any:
    """The rows of `validation`, and one for each table that is not what SQL defines: how many rows differ, and one."""
    import polars

    rows = [
        {"rule": f"definition of {table}", "severity": "error", "problem_cnt": count, "example": example,
         "advice": "a bug of lorabench: please report it, with the trace if you can"}
        for table, (count, example) in unlike.items()
    ]  # fmt: skip
    return (
        polars.concat([rules, polars.DataFrame(rows, schema_overrides=rules.schema)], how="diagonal") if rows else rules
    )


def print_rows(frame: Any, format: Format | None, more: str = "--csv", output: Path | None = None) -> None:
    """Print a polars DataFrame on stdout, as a table unless a format is named, or write it to a file of ROW_SUFFIXES.

    Of a whole view those columns stand first that answer; `more` says how to see what does not fit. Control characters
    in texts are escaped, in CSV too: what is piped ends in a terminal more often than not. Files keep them.
    """
    if output is not None:
        from .tables import files

        is_parquet = output.suffix == ".parquet"
        files.write_frame(frame if is_parquet else _flat(frame, keeps_nested=output.suffix == ".json"), output)
        put(f"wrote {output}")
        return
    frame = _plain(frame, keeps_nested=format is Format.json)
    if format is Format.csv:
        put_lines(frame.write_csv().removesuffix("\n"))
    elif format is Format.json:
        put_json(frame.write_json())
    else:
        from .terminal.table import show

        if len(frame):
            rows = frame.to_dicts()
            show(rows, telling(ordered(frame.columns), rows), more)


def _plain(frame: Any, keeps_nested: bool) -> Any:
    """The frame with texts in the place of what CSV and terminals do not know, in a form that a terminal does not obey.

    JSON knows more, and escapes by itself.
    """
    flat = _flat(frame, keeps_nested)
    if keeps_nested:
        return flat
    import polars

    def column(series: Any) -> Any:
        is_text = series.dtype in (polars.String, polars.Categorical, polars.Enum)
        if is_text and series.cast(polars.String).str.contains(HIDDEN_IN_TEXT).any():
            return polars.Series(series.name, [v and visible(v) for v in series.to_list()], polars.String)
        return series

    plain = flat.select(column(flat[name]) for name in flat.columns)
    return plain.rename(dict(zip(flat.columns, map(visible, flat.columns), strict=True)))


def _flat(frame: Any, keeps_nested: bool) -> Any:
    """The frame with texts in the place of what CSV does not know; JSON knows what is nested."""
    import polars

    def text(value: Any) -> str | None:
        if isinstance(value, bytes):
            return value.decode("utf-8", "backslashreplace")
        return value if value is None or isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)

    def column(series: Any) -> Any:
        kind = series.dtype
        if keeps_nested and kind == polars.Decimal and series.dtype.scale:
            return series.cast(polars.Float64)  # JSON's writer makes texts of decimals
        is_known = kind in (polars.String, polars.Categorical, polars.Enum, polars.Boolean, polars.Null)
        if is_known or kind.is_numeric() or (keeps_nested and kind.is_nested()):
            return series
        return polars.Series(series.name, map(text, series.to_list()), polars.String)

    return frame.select(column(frame[name]) for name in frame.columns)


def print_answer(
    database: Any, inputs: Sequence[Path], *, rank: int | None = None, to_stderr: bool = False, as_json: bool = False
) -> None:
    """Print where the time of the input to show, or of a rank, goes and what to do first."""
    from .answer import answer, answer_text, next_text
    from .run import rank_text

    found = answer.answer(database, rank)
    run = rank_text.of_inputs(inputs)
    if as_json:
        put_lines(json.dumps(found | ({"run": run} if run else {}), indent=2, default=str))
        return
    say, place = (tell, sys.stderr) if to_stderr else (put, sys.stdout)
    ranks = rank_text.lines(run) if run else ()
    if run and run.get("bubble_frac"):  # measured without a profiler
        found = found | {"pipeline": None}
    height = max(answer_text.SCREEN_LINES, shutil.get_terminal_size().lines) if place.isatty() else None
    for line in [*answer_text.lines(found, height), *ranks, *next_text.lines(found, [*map(str, inputs)], rank)]:
        say(line)


def print_predictions(frame: Any, database: Any) -> None:
    """Print the rows of what_if for a person: the change, what the step becomes, what it saves, then what it is.

    First of the input that the answer is about.
    """
    from .answer import what_if_text
    from .tables import sources

    first = sources.shown(database, None)
    rows = sorted(frame.to_dicts(), key=lambda row: row["source_id"] != first)

    known = {
        row["source_id"]: row
        for row in database.dicts(
            "select replay.*, source.name from _answer_replay as replay join source using (source_id)"
        )
    }
    for line in what_if_text.lines(rows, known):
        put(line)


def tell_pages(inputs: Sequence[Path]) -> None:
    """Say on stderr where the page is that `collect` left in a run directory."""
    for path in inputs:
        if (path / rundir.PAGE).is_file():
            tell(f"the page of this run: {path / rundir.PAGE}")


def tell_left_out(database: Any, target: Target) -> None:
    """Say on stderr how many views a folder will not have, because their rows stay with the ranks of a job."""
    left_out = [view.name for view in sql.public() if not database.has(view.name)]
    if target.is_folder and left_out:
        tell_sentence(
            f"{len(left_out)} views have a row for each event and stay with their ranks: --report VIEW --rank N"
        )


def print_dicts(rows: list[dict[str, Any]], columns: Sequence[str], format: Format | None) -> None:
    """Print rows that are no view's: as a table, CSV or JSON."""
    if format is Format.json:
        put_lines(json.dumps(rows, indent=2))
        return
    import polars

    print_rows(polars.DataFrame(rows, schema=list(columns), infer_schema_length=None), format)


def print_query(
    database: Any,
    statement: str,
    format: Format | None,
    narrowing: Narrowing,
    filters: Sequence[str] = (),
    output: Path | None = None,
) -> None:
    """Print or write what a select of the user's returns; of nothing why. filters: options that the statement has."""
    frame = database.query(statement)
    if frame.is_empty():
        tell_sentence(why_nothing(database, view_of(frame.columns), filters))
    print_rows(narrowing.of_frame(frame), format, "--columns a,b,c, or --csv", output)


def print_cache(entries: list[Any], folder: Path, format: Format | None) -> None:
    """Print what the cache holds: the inputs of each database, its size and when it was used last."""
    from ..analyze.store.cache import inputs_of

    rows = [
        {
            "inputs": ", ".join(inputs_of(entry.path)),
            "size_bytes": entry.size_bytes,
            "used": datetime.fromtimestamp(entry.used_s).isoformat(" ", "seconds"),
            "database": str(entry.path),
        }
        for entry in entries
    ]
    print_dicts(rows, ("inputs", "size_bytes", "used", "database"), format)
    if format is not Format.json:
        tell(f"{len(rows)} databases, {sum(entry.size_bytes for entry in entries) / 1e6:,.1f} MB, in {folder}")
