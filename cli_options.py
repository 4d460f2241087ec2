"""Options that commands share: which inputs they read, which rows they print and as what."""

from pathlib import Path
from typing import Annotated

import typer

from .errors import UsageError
from .reports.outputs import ROW_FILES, ROW_SUFFIXES, Format, chosen_format, refuse_dash

Inputs = Annotated[list[Path], typer.Argument(metavar="INPUT...", help="What `lorabench analyze` reads.")]
Reread = Annotated[bool, typer.Option("--force", help="Re-read the inputs even if unchanged.")]
Columns = Annotated[str | None, typer.Option(metavar="A,B,C", help="Only these columns, in this order.")]
Sort = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Sort by a column: largest numbers first; with + before it, smallest first."),
]
Limit = Annotated[int | None, typer.Option(metavar="N", min=1, help="The first N rows.")]
OnlyStep = Annotated[int | None, typer.Option(metavar="N", help="Only rows of this step.")]
OnlyRank = Annotated[int | None, typer.Option(metavar="N", help="Only rows of this rank, or its answer.")]
OnlyDevice = Annotated[int | None, typer.Option(metavar="N", help="Only rows of this device.")]
OnlyRange = Annotated[
    str | None, typer.Option("--range", metavar="REGEX", help="Only rows whose path (or name) matches.")
]
Threshold = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Set a threshold; `lorabench query DB threshold` lists them."),
]
KernelClasses = Annotated[
    Path | None,
    typer.Option(metavar="FILE.csv", help="Your own rules for kernel_class: subject,pattern,class."),
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV: raw numbers, all columns.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON array: raw numbers, all columns.")]
OutFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write .csv, .json or .parquet: raw numbers, all columns."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Leave out the progress.")]
OfRank = Annotated[
    int | None,
    typer.Option("--rank", metavar="N", help="Which of several ranks to show [default: the lowest with GPU work]."),
]


def one_format(named: Format | None, as_csv: bool, as_json: bool) -> Format | None:
    """The format that --format, --csv and --json name together. Raises UsageError where they differ."""
    short = chosen_format(as_csv, as_json)
    if named is not None and short is not None and named != short:
        raise UsageError(f"choose one of --format {named} and --{short}")
    return named or short


def form_of_rows(output: Path | None, inputs: list[Path], as_csv: bool, as_json: bool) -> Format | None:
    """The format of rows that are printed or written. Raises UsageError for an output that is none of the files that
    rows are written to, that would replace an input, or that --csv or --json contradict.
    """
    if output is None:
        return chosen_format(as_csv, as_json)
    from .analyze.read.inputs import spare

    refuse_dash(output)
    if output.suffix not in ROW_SUFFIXES:
        raise UsageError(f"-o {output}: write to {ROW_FILES}")
    spare(inputs, output)
    named = Format(output.suffix[1:])
    if (short := chosen_format(as_csv, as_json)) not in (None, named):
        raise UsageError(f"choose one of -o {output} and --{short}")
    return named
