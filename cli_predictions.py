"""The command that predicts: what-if."""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import cli_progress as bar
from . import console
from .cli_help import Command, examples
from .cli_options import AsCsv, AsJson, Limit, OnlyRank, OutFile, Quiet, form_of_rows


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("what-if", cls=Command, epilog=examples("what-if"), no_args_is_help=True)(what_if)


def what_if(
    inputs: Annotated[
        list[Path] | None, typer.Argument(metavar="INPUT...", help="What `lorabench analyze` reads.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND=WHERE", help="Predict this change; repeat to combine several. --list shows all."),
    ] = None,
    list_kinds: Annotated[bool, typer.Option("--list", help="List the kinds of changes.")] = False,
    rank: OnlyRank = None,
    limit: Limit = None,
    output: OutFile = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict what changes would save, by replaying the trace.

    Largest saving first. Without --change it tries the standard changes: input in time, copies pinned, waits dropped,
    CUDA graphs, an optimizer in one kernel, faster kernels, steps batched. A path is one of `--report range_summary`,
    or its end; * is everything.
    """
    import polars

    from .analyze.pipeline import analyze
    from .analyze.predict import changes, predictions
    from .errors import UsageError
    from .reports import losses, outputs
    from .reports.answer.what_if_text import NOTHING
    from .reports.tables import narrowing, sources

    form = form_of_rows(output, inputs or [], as_csv, as_json)
    if list_kinds:
        kinds = [{"change": f"{kind}={where}", "what": note} for kind, (where, note) in changes.FORMS.items()]
        outputs.print_rows(polars.DataFrame(kinds), form, output=output)
        return
    if not inputs:
        raise UsageError("what-if replays traces: give an INPUT, or --list for the kinds of changes")
    with bar.shown(quiet) as progress:
        database = analyze(inputs, progress=progress)
    with database:
        losses.tell_losses(database)
        frame = predictions.what_if(database, change or ())
        if rank is not None:
            frame = frame.filter(polars.col("source_id") == sources.shown(database, rank))
        frame = frame.head(min(limit or narrowing.MOST_ROWS, narrowing.MOST_ROWS))
        if change and frame.is_empty():
            raise UsageError(f"--change {change[0]}: {NOTHING}")
        if form is None:
            _tell_ranks(database)
            outputs.print_predictions(frame, database)
        else:
            outputs.print_rows(frame, form, output=output)
        losses.require_all(database)


def _tell_ranks(database: Any) -> None:
    """Say of ranks that wait for each other how to read what each of them would save."""
    from .reports.answer import what_if_text

    for (kind,) in database.rows("select kind from _planned_cycle group by kind having count(distinct source_id) > 1"):
        slowest = (row for row in database.dicts("from _slowest_rank") if row["kind"] == kind)
        for line in what_if_text.of_ranks(next(slowest, None)):
            console.put(line)
