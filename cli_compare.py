"""The commands that set runs and traces side by side: compare."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import cli_help, console, rundir
from . import cli_progress as bar
from .cli_options import Columns, OnlyDevice, OnlyStep, Quiet, Sort
from .errors import UsageError
from .reports.outputs import ROW_FILES, ROW_SUFFIXES

if TYPE_CHECKING:
    from .reports.comparison.compared import Compared

_SCREEN_ROWS = 20

_Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="A B [C…]", help="Run directories, traces, databases, @NAME of a baseline; changes are against A."
    ),
]
_By = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="summary (what runs measured), range, operator, kernel, class, lora, adapter, api, idle, device, "
        "step, finding or memory [default: summary for run directories; else range, kernel where ranges "
        "hold less than half of the GPU time, operator where there is neither].",
    ),
]
_Measure = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the view to compare, as wall_ns [default: GPU time].")
]
_Only = Annotated[str | None, typer.Option("--only", "--range", metavar="REGEX", help="Only rows whose name matches.")]
_OnlyRank = Annotated[
    int | None, typer.Option("--rank", metavar="N", help="Compare only this rank of multi-rank folders.")
]
_Totals = Annotated[bool, typer.Option("--totals", help="Compare totals instead of per-step values.")]
_Limit = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="The first N rows [default: 20 in a terminal and Markdown, else all]."),
]
_FailAbove = Annotated[
    str | None,
    typer.Option(
        metavar="5%",
        help="Exit with 8 when the first row (without --by: the steps; of runs: time, launches, memory) grew by more "
        "than this, and by more than the spread of the steps where it is known.",
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write .csv, .json or .parquet, or a page with everything: .html."
    ),
]
_AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV: raw numbers, times in ns.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON array of raw numbers.")]
_AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown for a pull request.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(cls=cli_help.Command, epilog=cli_help.examples("compare"), no_args_is_help=True)(compare)


def compare(
    inputs: _Inputs,
    by: _By = None,
    measure: _Measure = None,
    only: _Only = None,
    step: OnlyStep = None,
    rank: _OnlyRank = None,
    device: OnlyDevice = None,
    totals: _Totals = False,
    columns: Columns = None,
    sort: Sort = None,
    limit: _Limit = None,
    fail_above: _FailAbove = None,
    output: _Output = None,
    as_csv: _AsCsv = False,
    as_json: _AsJson = False,
    as_markdown: _AsMarkdown = False,
    quiet: Quiet = False,
) -> None:
    """Compare runs or traces: what changed, appeared, vanished.

    The first line is the verdict. A difference within the noise counts as none. With --fail-above it is
    a gate for CI.
    """
    from .analyze.read.inputs import spare
    from .reports import outputs
    from .reports.comparison import baselines, changes, narrowed, runs
    from .reports.tables.narrowing import Narrowing

    _check_forms(output, as_csv, as_json, as_markdown)
    wanted = Narrowing(columns, sort, limit, step, rank, device)
    if len(inputs) < 2:
        raise UsageError("compare needs two inputs or more")
    _check(output)
    inputs = [baselines.resolved(path) for path in inputs]
    if output is not None:
        spare(inputs, output)
    if output is not None and output.suffix == ".html":
        if by or measure or only or totals or fail_above or wanted:
            raise UsageError(f"-o {output}: the page has every kind of row; options like --by are for a table")
        write_page(inputs, output, quiet)
        return
    allowed = _fraction(fail_above)
    by = narrowed.kind_of(by, wanted)
    if (by or rank is None) and _is_of_runs(inputs, by):  # what a run measured is of all its ranks
        if measure or only or totals or rank is not None:
            raise UsageError("--measure, --only, --rank and --totals go with a view; name it with --by")
        compared, gate = runs.compare(inputs), runs.check
    else:
        with bar.shown(quiet) as progress:
            compared = changes.compare_inputs(inputs, by, measure, only, totals, progress, rank, device)
        gate = changes.check
    form = "markdown" if as_markdown else outputs.chosen_format(as_csv, as_json)
    _put(narrowed.narrowed(compared, wanted), limit, output, form)
    if compared.measure == runs.ABOUT and output is None and form is None and all(map(rundir.traces, inputs)):
        given = shlex.join(map(str, inputs))
        console.tell(f"what their traces say: lorabench compare {given} --by range (kernel, lora, memory, …)")
    if allowed is not None:
        _check_growth(compared, gate, allowed)


def _is_of_runs(inputs: list[Path], by: str | None) -> bool:
    """Whether what runs measured is compared, and not their traces. Raises UsageError where inputs are no runs."""
    from .reports.comparison import runs

    other = next((path for path in inputs if not (path / rundir.SUMMARY).is_file()), None)
    if by == "summary" and other is not None:
        raise UsageError(
            f"--by summary compares run directories of `lorabench collect`, and {other} is none; "
            "for traces compare range, kernel, class, step, …"
        )
    return by == "summary" or (by is None and other is None and runs.have_measures(inputs))


def _check_growth(compared: "Compared", gate: Callable[["Compared", float], list[str]], allowed: float) -> None:
    """Say what grew and is not counted. Raises RegressionError, by the gate, for what grew by more than is allowed."""
    from .reports.comparison import runs

    notes = gate(compared, allowed)
    for note in notes:
        console.tell_sentence(note)
    judged = "time, launches, memory" if compared.measure == runs.ABOUT else "steps, the first row"
    console.tell(f"nothing{' else' if notes else ''} that is judged ({judged}) grew by more than {allowed:.1%}")


def _check_forms(output: Path | None, as_csv: bool, as_json: bool, as_markdown: bool) -> None:
    """Raise UsageError for several forms of the rows, or one beside a file that has another."""
    if as_markdown + as_csv + as_json > 1:
        raise UsageError("choose one of --csv, --json and --markdown")
    form = "csv" if as_csv else "json" if as_json else "markdown" if as_markdown else None
    if output is not None and form is not None and output.suffix != f".{form}":
        raise UsageError(f"choose one of -o {output} and --{form}")


def _check(output: Path | None) -> None:
    """Raise UsageError for a file that is none of those that compare writes."""
    if output is not None and output.suffix not in (*ROW_SUFFIXES, ".html"):
        raise UsageError(f"-o {output}: write to {ROW_FILES}, or a page: .html")


def _put(compared: "Compared", limit: int | None, output: Path | None, form: str | None) -> None:
    """Where the rows go: raw numbers to files and programs, with the verdict on stderr, else all of it to a person."""
    import sys

    import polars

    from .reports import outputs
    from .reports.comparison import shown
    from .reports.tables import files

    if output is None and form is None:
        shown.show(compared, limit or (_SCREEN_ROWS if sys.stdout.isatty() else None))
        return
    if output is None and form == "markdown":
        console.put_lines(shown.markdown(compared, limit or _SCREEN_ROWS))
        return
    for line in compared.verdict:
        console.tell_sentence(line)
    rows = compared.rows[:limit]
    frame = polars.DataFrame(rows, schema=list(rows[0]), infer_schema_length=None)
    frame = frame.select(compared.columns or frame.columns)
    if output is None:
        outputs.print_rows(frame, outputs.Format(form or "csv"))
    else:
        files.write_frame(frame, output)
        console.put(f"wrote {output}")


def write_page(inputs: list[Path], output: Path, quiet: bool = False) -> None:
    """Write the page that compares everything."""
    from .reports.comparison import comparison_page

    with bar.shown(quiet) as progress:
        comparison_page.write(inputs, output, progress)
    console.put(f"wrote {output}")


def _fraction(text: str | None) -> float | None:
    """A share: 5%, 5 or 0.05. A bare number from 1 on is in per cent."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if text.endswith("%") or value >= 1:
        value /= 100
    if not 0 <= value < float("inf"):
        raise UsageError(f"--fail-above {text}: write a share, like 5%, 5 or 0.05")
    return value
