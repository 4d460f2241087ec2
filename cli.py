"""The command line: parse, call, print; nothing else. Heavy imports happen inside the command that needs them."""

import copy
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command_name

from . import (
    allocators,
    cli_baselines,
    cli_compare,
    cli_help,
    cli_improve,
    cli_jobs,
    cli_machine,
    cli_options,
    cli_predictions,
    cli_report,
    cli_runs,
    cli_values,
    console,
    sql,
)
from . import cli_progress as bar
from .errors import InputError, UsageError, ValidationError
from .paths import written
from .reports import losses, outputs
from .reports.tables.narrowing import Narrowing

app = typer.Typer(
    name="lorabench",
    help="Where a LoRA fine-tuning run spends its time and memory: exact answers from nsys and torch.profiler traces.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        console.put(f"lorabench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand not in cli_runs.COMMANDS:  # what trains must be as it is without lorabench
        allocators.tune()


def run() -> None:
    """Run what the command line asks for.

    Of a command that it begins with only that one is made: for all of them typer takes as long as a small trace.
    """
    named = [one for one in app.registered_commands if sys.argv[1:2] == [one.name or get_command_name(_function(one))]]
    asked = copy.copy(app)
    if named:
        asked.registered_commands, asked.registered_groups = named, []
    if not named or _function(named[0]) in cli_runs.COMMANDS:
        cli_runs.give_options()
    cli_values.without_schemas()
    asked()


def whole() -> typer.Typer:
    """The command line with all commands, each with all of its options."""
    cli_runs.give_options()
    return app


def _function(command: Any) -> str:
    return str(command.callback.__name__)


cli_runs.register(app)
cli_compare.register(app)
cli_baselines.register(app)


_Named = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help="nsys .sqlite or .nsys-rep, torch.profiler .json or .json.gz, a run directory, "
        "a .duckdb or job folder made earlier, or URLs of traces, with wildcards.",
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="OUT", parser=written,
        help="report.csv, .parquet or .json for one report; DIR/ for every view; report.html for the page; "
        ".duckdb for the database; JOB/ with --workers, --shard or --dask. "
        "Without it and without --report or --format only the answer is printed.",
    ),
]  # fmt: skip
_Report = Annotated[
    str | None,
    typer.Option(metavar="VIEW", help="The view to write; `lorabench views` lists them [default: range_summary]."),
]
_Format = Annotated[
    outputs.Format | None,
    typer.Option(metavar="|".join(outputs.Format), help="Format of the output [default: what its suffix says]."),
]
_Database = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Where to keep the database [default: the user's cache].")
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Leave out the answer and the progress.")]
_EscapeFormulas = Annotated[
    bool, typer.Option("--escape-formulas", help="Put ' before text a spreadsheet would evaluate as a formula.")
]


@app.command(cls=cli_help.Command, epilog=cli_help.examples("analyze"), no_args_is_help=True)
def analyze(
    named: _Named,
    output: _Output = None,
    report: _Report = None,
    format: _Format = None,
    db: _Database = None,
    force: cli_options.Reread = False,
    threshold: cli_options.Threshold = None,
    kernel_classes: cli_options.KernelClasses = None,
    quiet: _Quiet = False,
    columns: cli_options.Columns = None,
    sort: cli_options.Sort = None,
    limit: cli_options.Limit = None,
    step: cli_options.OnlyStep = None,
    rank: cli_options.OnlyRank = None,
    device: cli_options.OnlyDevice = None,
    range_: cli_options.OnlyRange = None,
    as_csv: cli_options.AsCsv = False,
    as_json: cli_options.AsJson = False,
    escape_formulas: _EscapeFormulas = False,
    workers: cli_jobs.Workers = None,
    shard: cli_jobs.Shard = None,
    dask: cli_jobs.Dask = None,
) -> None:
    """Read traces, say where the time goes, and write reports.

    The main report is range_summary: for each NVTX or record_function range what it cost the CPU, what its kernel
    launches cost, and what GPU work it accounts for. With -o the answer goes to stderr.
    """
    from .analyze.store import settings

    format = cli_options.one_format(format, as_csv, as_json)
    narrowing = Narrowing(columns, sort, limit, step, rank, device, range_)
    chosen = settings.parse(threshold or [], kernel_classes)
    is_plain = format is not None or report is not None or db is not None or bool(narrowing) or escape_formulas
    executor = cli_jobs.executor_of(named, output, workers, shard, dask, is_plain)
    if executor is not None and output is not None:
        cli_jobs.read(named, output, executor, force, chosen, quiet)
        return
    inputs = [Path(name) for name in named]
    is_narrow = narrowing not in (Narrowing(), Narrowing(rank=rank))
    is_answer = output is None and report is None and format is None and not is_narrow
    target = _target(inputs, output, format, report, narrowing, escape_formulas)
    report = report or outputs.MAIN_REPORT
    wanted = _wanted(report, rank, target)
    with _analyzed(inputs, target.database(db), force, chosen, target.folder, quiet, wanted) as database:
        losses.tell_losses(database)
        if not quiet and (is_answer or output is not None):
            outputs.print_answer(database, inputs, rank=rank, to_stderr=not is_answer)
        if not is_answer:
            outputs.tell_left_out(database, target)
            target.write(database, report, escape_formulas, narrowing, inputs)
            outputs.tell_pages(inputs)
        losses.require_all(database)


def _target(
    inputs: list[Path],
    output: Path | None,
    format: outputs.Format | None,
    report: str | None,
    narrowing: Narrowing,
    escape_formulas: bool,
) -> outputs.Target:
    """Where a report goes. Raises UsageError for what makes no sense, and where it would replace an input."""
    from .analyze.read.inputs import spare

    if report is not None:
        sql.public_view(report)
    spare(inputs, *([output] if output else []))
    target = outputs.Target.of(output, format)
    target.check(report, narrowing)
    if escape_formulas:
        target.check_text()
    spare(inputs, *target.files())
    return target


@app.command(cls=cli_help.Command, epilog=cli_help.examples("summary"), no_args_is_help=True)
def summary(
    inputs: cli_options.Inputs,
    threshold: cli_options.Threshold = None,
    kernel_classes: cli_options.KernelClasses = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
    rank: cli_options.OfRank = None,
    quiet: cli_options.Quiet = False,
) -> None:
    """Say where the time goes and what to do first."""
    from .analyze.store import settings

    with _analyzed(inputs, settings=settings.parse(threshold or [], kernel_classes), quiet=quiet) as database:
        losses.tell_losses(database)
        outputs.print_answer(database, inputs, rank=rank, as_json=as_json)
        losses.require_all(database)


cli_jobs.register(app)
cli_predictions.register(app)
cli_improve.register(app)


def _analyzed(
    inputs: list[Path],
    place: Path | None = None,
    force: bool = False,
    settings: Any = None,
    writes_into: Path | None = None,
    quiet: bool = False,
    wanted: Any = None,
) -> Any:
    """The inputs' database, made with a progress bar."""
    from .analyze.pipeline import analyze as run

    with bar.shown(quiet) as progress:
        return run(
            inputs, place, force=force, progress=progress, settings=settings, writes_into=writes_into, wanted=wanted,
            is_kept=place is not None,
        )  # fmt: skip


def _wanted(report: str, rank: int | None, target: outputs.Target) -> Any:
    """The part that a report needs of a job: that of a rank, or for the page of the one to look at first."""
    from .analyze.job.folder import Wanted
    from .analyze.job.handed import ROW_LEVEL

    is_page = target.format is outputs.Format.html
    return Wanted(rank if is_page or report in ROW_LEVEL else None, is_first=is_page)


@app.command(cls=cli_help.Command, epilog=cli_help.examples("views"))
def views(
    name: Annotated[str | None, typer.Argument(metavar="[VIEW]", help="Show one view with its columns.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, as sql/SCHEMA.md has it.")] = False,
) -> None:
    """List the views, what a row of each is, and every column."""
    from .reports.tables import schema

    if markdown and name is None:
        console.put_lines(schema.markdown().removesuffix("\n"))
        return
    chosen = sql.public() if name is None else [sql.public_view(name)]
    said = schema.section if markdown else schema.plain
    console.put_lines("\n\n".join(said(view).removesuffix("\n") for view in chosen))


@app.command(cls=cli_help.Command, epilog=cli_help.examples("query"), no_args_is_help=True)
def query(
    db: Annotated[Path, typer.Argument(metavar="DB", help="A .duckdb made by analyze, or any input of it.")],
    statement: Annotated[
        str,
        typer.Argument(metavar="SQL", help='A view, or for example "select * from kernel_summary limit 5".'),
    ],
    columns: cli_options.Columns = None,
    sort: cli_options.Sort = None,
    limit: cli_options.Limit = None,
    step: cli_options.OnlyStep = None,
    rank: Annotated[
        int | None,
        typer.Option(metavar="N", help="Only rows of this rank; in a job folder also its per-event views."),
    ] = None,
    device: cli_options.OnlyDevice = None,
    range_: cli_options.OnlyRange = None,
    output: cli_options.OutFile = None,
    as_csv: cli_options.AsCsv = False,
    as_json: cli_options.AsJson = False,
    quiet: cli_options.Quiet = False,
) -> None:
    """Run SQL on a database. It is read-only; queries cannot access other files."""
    from .analyze.job.folder import Wanted, is_job

    form = cli_options.form_of_rows(output, [db], as_csv, as_json)
    view = next((known for known in sql.public() if known.name == statement.strip()), None)
    has_ranks = view is not None and "rank" in [column.name for column in view.columns]
    if rank is not None and not has_ranks and not is_job(db):
        raise UsageError("--rank chooses rows of a view that has ranks; in a statement write `where rank = …`")
    rows = Narrowing(step=step, rank=rank if has_ranks else None, device=device, path=range_)
    if rows and view is None:
        raise UsageError(f"{rows.filters[0]} chooses rows of a view; in a statement write `where …`")
    select = statement
    if statement.strip().isidentifier():
        select = f"from {sql.relation(statement.strip())}"
    if rows and view is not None:
        select = rows.statement(view)
    with _analyzed([db], wanted=Wanted(rank), quiet=quiet) as database:
        if not quiet:
            losses.tell_notes(database)
        outputs.print_query(database, select, form, Narrowing(columns, sort, limit), rows.filters, output)


cli_report.register(app)


@app.command(cls=cli_help.Command, epilog=cli_help.examples("validate"), no_args_is_help=True)
def validate(
    inputs: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="What `lorabench analyze` reads.")],
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    definitions: Annotated[
        bool,
        typer.Option(
            "--definitions", help="Compare tables that are kept for speed with the SQL that defines them (slow)."
        ),
    ] = False,
    output: cli_options.OutFile = None,
    as_csv: cli_options.AsCsv = False,
    as_json: cli_options.AsJson = False,
    quiet: cli_options.Quiet = False,
) -> None:
    """Check whether traces are sound and what is missing.

    Checks the rules of torch's own validator, what is lost or missing, the arithmetic identities, and that no finding
    saves more than the time it is about.
    """
    from .analyze.store import checks

    form = cli_options.form_of_rows(output, inputs, as_csv, as_json)
    with _analyzed(inputs, quiet=quiet) as database:
        frame = database.view("validation")
        names = [rule.name for rule in sql.in_folder(sql.VALIDATIONS)]
        defined = checks.definitions(database) if definitions else {}
        laws = checks.broken_laws(database)
        lost = losses.lost(database)
        losses.tell_notes(database)
    unlike = {table: found for table, found in defined.items() if found[0]}
    frame = outputs.with_unlike(frame, unlike)
    if len(frame) or form:
        outputs.print_rows(frame, form, output=output)
    found = frame.to_dicts()
    broken = {row["rule"] for row in found if strict or row["severity"] == "error"}
    kept = [name for name in names if name not in {row["rule"] for row in found}]
    console.tell_sentence(f"no problem: {', '.join(kept)}, arithmetic identities")
    if laws:
        said = "; ".join(f"{law} ({cnt}, as {example})" for law, (cnt, example) in laws.items())
        raise ValidationError(
            f"findings save more than is possible: {said}; please report it with the trace if you can"
        )
    console.tell_sentence("no finding saves more than the part of the time that it is about")
    if equal := [table for table in defined if table not in unlike]:
        console.tell_sentence(f"equal to their definitions: {', '.join(equal)}")
    if unlike:
        wrong = ", ".join(f"{table} ({cnt} rows)" for table, (cnt, _) in unlike.items())
        raise ValidationError(f"not equal to their definitions: {wrong}; please report it with the trace if you can")
    if broken:
        raise ValidationError(f"{len(broken)} of {len(names)} rules are broken: {', '.join(sorted(broken))}")
    if lost:
        raise InputError(f"{lost}; the rest was checked")


cli_machine.register(app)  # last in the help
