"""The command that draws the page: report."""

from pathlib import Path
from typing import Annotated

import typer

from . import cli_progress as bar
from . import console, rundir
from .cli_compare import write_page
from .cli_help import Command, examples
from .cli_options import Inputs, KernelClasses, OfRank, Quiet, Reread, Threshold
from .errors import UsageError
from .reports import losses, outputs

_Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE.html", help="Where the page goes [default: report.html].")
]
_Perfetto = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json.gz", help="Write a trace for ui.perfetto.dev; without -o the page is left out."),
]
_Window = Annotated[
    str | None,
    typer.Option(
        metavar="A..B",
        help="Show every operation between two times of the timeline, in ms or with a unit: 1.2s..1.4s, ..20.",
    ),
]
_Png = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write each figure as a PNG file, too (needs choreographer and a browser)."),
]
_Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("report", cls=Command, epilog=examples("report"), no_args_is_help=True)(report)


def report(
    inputs: Inputs,
    output: _Output = None,
    perfetto: _Perfetto = None,
    window: _Window = None,
    png: _Png = None,
    open_it: _Open = False,
    force: Reread = False,
    rank: OfRank = None,
    threshold: Threshold = None,
    kernel_classes: KernelClasses = None,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page: where time and memory go, what to do first.

    It is self-contained and works offline.

    Several run directories are compared side by side, as `lorabench compare -o FILE.html` does.
    """
    from .analyze.job.folder import Wanted
    from .analyze.pipeline import analyze
    from .analyze.store import settings
    from .reports import perfetto as traces
    from .reports.page import page, pictures
    from .reports.page import window as windows

    wants_page = perfetto is None or output is not None or png is not None or open_it
    output = output or Path("report.html")
    _check_page(inputs, output)
    shown = None if window is None else windows.parse(window)
    if not wants_page and (shown is not None or rank is not None):
        option = "--window" if shown is not None else "--rank"
        raise UsageError(f"{option} is about the page: name it with -o, too")
    are_runs = len(inputs) > 1 and all((path / rundir.SUMMARY).is_file() for path in inputs)
    if perfetto is not None:
        _check_perfetto(inputs, perfetto, are_runs)
    if are_runs:
        _check_of_runs(rank, png, window)
        write_page(inputs, output, quiet)
        _launch(output, open_it)
        return
    chosen = settings.parse(threshold or [], kernel_classes)
    with bar.shown(quiet) as progress:
        made = analyze(inputs, force=force, progress=progress, settings=chosen, wanted=Wanted(rank, is_first=True))
    with made as database:
        losses.tell_losses(database)
        if perfetto is not None:
            traces.write(database, perfetto)
            console.put(f"wrote {perfetto}; ui.perfetto.dev opens it")
        if wants_page:
            page.write(database, output, inputs, shown, rank)
            console.put(f"wrote {output}")
        if png is not None:
            console.put(f"wrote {len(pictures.write(output, png))} pictures to {png}")
        _launch(output, open_it)
        losses.require_all(database)


def _check_page(inputs: list[Path], page: Path) -> None:
    """Raise UsageError for a file that is no place for a page."""
    from .analyze.read.inputs import spare

    outputs.refuse_dash(page)
    spare(inputs, page)
    if page.suffix.lower() not in ("", ".html", ".htm"):
        table = page.with_suffix(".csv").name
        raise UsageError(f"{page}: this is a page, name it .html; tables: `lorabench analyze INPUT -o {table}`")


def _check_perfetto(inputs: list[Path], perfetto: Path, are_runs: bool) -> None:
    """Raise UsageError for a file that is no place for a recording, and for several of them."""
    from .analyze.read.inputs import spare
    from .reports import perfetto as traces

    traces.check(perfetto)
    spare(inputs, perfetto)
    if are_runs:
        raise UsageError("--perfetto shows one recording: give one run directory, or traces of one job")


def _check_of_runs(rank: int | None, png: Path | None, window: str | None) -> None:
    """Raise UsageError for what a page of several runs has not."""
    if rank is not None:
        raise UsageError("--rank is for one run or job; where runs are compared there is none to choose")
    if png is not None or window is not None:
        option = "--png draws" if png is not None else "--window is about"
        raise UsageError(f"{option} the page of one input; give one run directory")


def _launch(page: Path, is_asked: bool) -> None:
    if is_asked:
        typer.launch(str(page.absolute()))
