"""The command line: parse, call, print; nothing else. Heavy imports happen inside the command that needs them."""

import inspect
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__, rundir, sql
from .collect import options
from .errors import InputError, UsageError, ValidationError

app = typer.Typer(
    name="lorabench",
    help="Where a LoRA fine-tuning run spends its time and memory: exact answers from nsys and torch.profiler traces.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Format(StrEnum):
    """What a report can be written as."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    mlora = "mlora"


_SCREEN_ROWS = 40
_PAGE = ".html"
_SUFFIXES = {".csv": Format.csv, ".parquet": Format.parquet, ".json": Format.json}


def _version(wanted: bool) -> None:
    if wanted:
        print(f"lorabench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(no_args_is_help=True)
def analyze(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...",
            help="nsys .sqlite or .nsys-rep, torch.profiler .json or .json.gz, a run directory, "
            "or a .duckdb made earlier.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT",
            help="report.csv, .parquet or .json for one report; DIR/ for every view; report.html for the page; "
            ".duckdb for the database alone. "
            "Without it the report goes to stdout.",
        ),
    ] = None,
    report: Annotated[
        str, typer.Option(metavar="VIEW", help="The view to write; `lorabench views` lists them.")
    ] = "range_summary",
    format: Annotated[Format | None, typer.Option(help="Format of the output [default: what its suffix says].")] = None,
    db: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where to keep the database [default: next to OUT].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Read the inputs again although they are unchanged.")] = False,
    threshold: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Set a threshold; `lorabench query DB \"from threshold\"` lists them."),
    ] = None,
    kernel_classes: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Rules of your own for kernel_class: subject,pattern,class."),
    ] = None,
    escape_formulas: Annotated[
        bool, typer.Option("--escape-formulas", help="Put ' before texts that a spreadsheet would run as a formula.")
    ] = False,
) -> None:  # fmt: skip
    """Read traces and write reports.

    The main report is range_summary: for each NVTX or record_function range what it cost the CPU, what its kernel
    launches cost, and what GPU work it accounts for.
    """
    from .analyze import settings
    from .analyze.database import cache_path
    from .analyze.pipeline import analyze as run
    from .reports.terminal import Bar

    known = [view.name for view in sql.load() if view.is_public]
    if report not in known:
        raise UsageError(f"there is no view {report!r}; the views are: {', '.join(known)}")
    target = _Target.of(output, format)
    with Bar() as bar:
        chosen = settings.parse(threshold or [], kernel_classes)
        place = db or target.database() or cache_path(inputs)
        database = run(inputs, place, force=force, progress=bar, settings=chosen)
    with database:
        _tell_losses(database)
        target.write(database, report, escape_formulas)
        _require_all(database)


def _tell_losses(database: Any) -> None:
    """Say on stderr what was lost while reading, and what the inputs lack."""
    losses = database.rows(
        """select source.name, section, item, value, note from source_fact join source using (source_id)
        where section in ('lost', 'missing') order by source_id, section, item"""
    )
    for name, section, item, value, note in losses:
        print(f"{name}: {section}: {item}: {value}" + (f" ({note})" if note else ""), file=sys.stderr)


def _require_all(database: Any) -> None:
    """Raise InputError when an input could not be read: what was written holds the others alone."""
    from .analyze.pipeline import WHOLE_FILE

    lost = [str(n) for (n,) in database.rows(
        "select name from source join source_fact using (source_id) where section = 'lost' and item = ?", WHOLE_FILE
    )]  # fmt: skip
    if lost:
        ((count,),) = database.rows("select count(*) from source")
        raise InputError(f"{len(lost)} of {count} inputs cannot be read ({', '.join(lost)}); the reports hold the rest")


class _Target:
    """Where the output goes and in which format."""

    def __init__(self, path: Path | None, format: Format, is_folder: bool):
        self.path, self.format, self.is_folder = path, format, is_folder

    @classmethod
    def of(cls, path: Path | None, format: Format | None) -> "_Target":
        """Check the pair. Raises UsageError when it makes no sense."""
        if path is None:
            if format in (Format.parquet, Format.mlora):
                raise UsageError(f"--format {format.value} goes to a file; name it with -o")
            return cls(None, format or Format.csv, False)
        if path.is_dir() or not path.suffix:
            if format is Format.mlora:
                raise UsageError("--format mlora writes one file; give -o a file name")
            return cls(path, format or Format.csv, True)
        if format is None and path.suffix not in (".duckdb", _PAGE, *_SUFFIXES):
            raise UsageError(f"-o {path}: write .csv, .parquet, .json, .html or .duckdb, or name the --format")
        return cls(path, format or _SUFFIXES.get(path.suffix, Format.csv), False)

    def database(self) -> Path | None:
        """Where the database belongs by default; None without an output."""
        if self.path is None:
            return None
        return self.path / "lorabench.duckdb" if self.is_folder else self.path.with_suffix(".duckdb")

    def write(self, database: Any, report: str, escape_formulas: bool) -> None:
        """Write the report, or every view, and print the last line that stdout carries: `wrote PATH`."""
        from .reports import tables

        if self.path is None:
            as_json = self.format is Format.json
            is_terminal = sys.stdout.isatty()
            rows = database.view(report)
            if is_terminal and not as_json and len(rows) > _SCREEN_ROWS:
                print(f"the first {_SCREEN_ROWS} of {len(rows)} rows; all of them with -o FILE", file=sys.stderr)
                rows = rows.head(_SCREEN_ROWS)
            _print_rows(rows, as_csv=not as_json and not is_terminal, as_json=as_json)
            return
        if self.is_folder:
            tables.write_all(database, self.path, self.format.value, escape_formulas)
        elif self.path.suffix == _PAGE:
            from .reports import page  # plotly takes half a second

            page.write(database, self.path)
        elif self.path.suffix != ".duckdb":
            tables.write(database, report, self.path, self.format.value, escape_formulas)
        print(f"wrote {self.path}")


@app.command()
def views(
    name: Annotated[str | None, typer.Argument(metavar="[VIEW]", help="Show one view with its columns.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all views as Markdown (sql/SCHEMA.md).")] = False,
) -> None:
    """List the public views: what a row is, and every column with its meaning."""
    from .reports import schema

    public = [view for view in sql.load() if view.is_public]
    if markdown:
        print(schema.markdown(), end="")
        return
    chosen = [view for view in public if name in (None, view.name)]
    if not chosen:
        raise UsageError(f"there is no view {name!r}; the views are: {', '.join(v.name for v in public)}")
    print("\n\n".join(schema.plain(view) for view in chosen))


@app.command(no_args_is_help=True)
def query(
    db: Annotated[Path, typer.Argument(metavar="DB", help="A .duckdb made by analyze, or any input of it.")],
    statement: Annotated[
        str, typer.Argument(metavar="SQL", help='For example "select * from kernel_summary limit 5".')
    ],
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
) -> None:
    """Run SQL on a database."""
    from . import open as open_inputs

    if as_csv and as_json:
        raise UsageError("choose one of --csv and --json")
    with open_inputs(db) as database:
        _print_rows(database.query(statement), as_csv, as_json)


def _print_rows(frame: Any, as_csv: bool, as_json: bool) -> None:
    from .reports.terminal import show

    if as_csv:
        print(frame.write_csv(), end="")
    elif as_json:
        print(frame.write_json())
    else:
        show(frame.to_dicts(), frame.columns)


def _collect(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND…]", help="Profile this command instead: -- python train.py …"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The run directory [lorabench-runs/TIME-WHAT]."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Settings from a file; options given here win.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and print the settings, run nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run directory if it exists.")] = False,
    **settings: Any,
) -> None:
    """Run an instrumented LoRA fine-tuning and leave a run directory for `lorabench analyze`.

    Without a GPU, nsys or network it trains a small Llama with random weights on the CPU: the same code path. Lists
    take one value for all adapters, or one for each: --rank 8,16,32,64.
    """
    from .collect import session
    from .collect.spec import from_dict, read_config
    from .reports.terminal import Bar, describe_run

    values = (read_config(config) if config else {}) | options.given(settings)
    spec = from_dict(values)
    if dry_run:
        _print_settings(command, spec)
        return
    with Bar() as bar:
        if command:
            from .collect.command import collect_command

            path = output or session.default_path(Path(command[-1]).stem)
            manifest = collect_command(command, spec.profiler, path, spec.timeout_s, force, bar)
        else:
            path = output or session.default_path(spec.title)
            if (cycle := spec.with_whole_cycle()) != spec:
                print(f"--steps raised from {spec.steps} to {cycle.steps}, one cycle of the profiler", file=sys.stderr)
            for note in spec.notes():
                print(note, file=sys.stderr)
            manifest = session.collect(spec, path, force, bar)
    describe_run(manifest, path)
    print(f"wrote {path}")


def _print_settings(command: list[str] | None, spec: Any) -> None:
    import json

    print(json.dumps({"command": command, "profiler": spec.profiler} if command else spec.as_dict(), indent=2))


def _register_collect() -> None:
    """Give `collect` an option for each field of RunSpec."""
    own = [p for p in inspect.signature(_collect).parameters.values() if p.name != "settings"]
    every = [*own[:1], *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own[1:])]
    every += options.parameters(typer.Option)
    function: Any = _collect
    function.__signature__ = inspect.Signature(every)
    function.__annotations__ = {p.name: p.annotation for p in every}
    app.command("collect", no_args_is_help=False)(function)


_register_collect()


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what this machine can do, and what to do about what is missing."""
    import dataclasses
    import json

    from .collect.doctor import examine
    from .reports.terminal import show

    rows = [dataclasses.asdict(finding) for finding in examine()]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows, ["what", "state", "found", "advice"])


@app.command(no_args_is_help=True)
def report(
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...", help="What `lorabench analyze` reads.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html", help="Where the page goes.")] = Path(
        "report.html"
    ),
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Read the inputs again although they are unchanged.")] = False,
) -> None:
    """Write one self-contained page: where the time goes, and what to do first. It needs no network."""
    from .analyze.database import cache_path
    from .analyze.pipeline import analyze as run
    from .reports import page
    from .reports.terminal import Bar

    with Bar() as bar:
        database = run(inputs, cache_path(inputs), force=force, progress=bar)
    with database:
        _tell_losses(database)
        page.write(database, output)
    print(f"wrote {output}")
    if open_it:
        typer.launch(str(output.absolute()))


@app.command(no_args_is_help=True)
def validate(
    inputs: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="What `lorabench analyze` reads.")],
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors, too.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
) -> None:
    """Check traces: the rules of torch's own validator, what is lost or missing, and the arithmetic identities."""
    from .analyze.database import cache_path
    from .analyze.pipeline import analyze as run
    from .reports.terminal import Bar

    if as_csv and as_json:
        raise UsageError("choose one of --csv and --json")
    with Bar() as bar:
        database = run(inputs, cache_path(inputs), progress=bar)
    with database:
        frame = database.view("validation")
        names = [rule.name for rule in sql.in_folder(sql.VALIDATIONS)]
    if len(frame) or as_csv or as_json:
        _print_rows(frame, as_csv, as_json)
    found = frame.to_dicts()
    broken = {row["rule"] for row in found if strict or row["severity"] == "error"}
    kept = [name for name in names if name not in {row["rule"] for row in found}]
    print(f"no problem: {', '.join(kept)}, arithmetic identities", file=sys.stderr)
    if broken:
        raise ValidationError(f"{len(broken)} of {len(names)} rules are broken: {', '.join(sorted(broken))}")


@app.command(no_args_is_help=True)
def compare(
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="A B [C…]", help="Run directories, traces or databases; changes are against A."),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="summary (what runs measured), range, operator, kernel, class, lora, adapter, api, idle, device, step "
            "or finding [default: summary for run directories, else range].",
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the view to compare, as wall_ns [default: GPU time]."),
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="REGEX", help="Only rows whose name matches.")] = None,
    totals: Annotated[bool, typer.Option("--totals", help="Whole traces, not values for each step.")] = False,
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="5%", help="Exit with 8 when the first row grew more (of runs: time, launches, memory)."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write .csv or .json instead of printing.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
) -> None:  # fmt: skip
    """Set runs or traces side by side: what changed, appeared and vanished; a gate for CI with --fail-above."""
    import polars

    from .reports import changes, runs, tables
    from .reports.terminal import Bar

    if as_csv and as_json:
        raise UsageError("choose one of --csv and --json")
    if len(inputs) < 2:
        raise UsageError("compare needs two inputs or more")
    limit = _fraction(fail_above)
    are_runs = all((path / rundir.SUMMARY).is_file() for path in inputs)
    if by == "summary" or (by is None and are_runs):
        if measure or only or totals:
            raise UsageError("--measure, --only and --totals go with a view; name it with --by")
        rows, columns = runs.compare(inputs)
        gate: Callable[[float], None] = partial(runs.check, inputs)
    else:
        with Bar() as bar:
            rows, gate = changes.compare_inputs(inputs, changes.choose(by or "range", measure), only, totals, bar)
        columns = list(rows[0])
    frame = polars.DataFrame(rows, schema=columns, infer_schema_length=None)
    if output is None:
        _print_rows(frame, as_csv, as_json)
    else:
        tables.write_frame(frame, output)
        print(f"wrote {output}")
    if limit is not None:
        gate(limit)


def _fraction(text: str | None) -> float | None:
    """5% or 0.05."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"--fail-above {text}: write a share, as 5% or 0.05")
    return value
