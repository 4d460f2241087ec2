"""The command that draws the page: report."""

from pathlib import Path
from typing import Annotated

import typer

from . import cli_progress as bar
from . import console, rundir
from .cli_compare import write_page
from .cli_runs import examples
from .cli_tables import KernelClasses, OfRank, Threshold
from .errors import UsageError
from .reports import outputs


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("report", epilog=examples("report"), no_args_is_help=True)(report)


def report(
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...", help="What `lorabench analyze` reads.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.html", help="Where the page goes [report.html].")
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json.gz", help="Write what ui.perfetto.dev opens; without -o the page is left out."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="A..B",
            help="Show every operation between two times of the timeline, in ms or with a unit: 1.2s..1.4s, ..20.",
        ),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write each figure as a PNG file, too (needs choreographer and a browser)."),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Re-read the inputs even if unchanged.")] = False,
    rank: OfRank = None,
    threshold: Threshold = None,
    kernel_classes: KernelClasses = None,
) -> None:
    """Write one HTML page: where time and memory go, what to do first.

    It is self-contained and works offline.

    Several run directories are set side by side, as `lorabench compare -o FILE.html` does.
    """
    from .analyze.read.inputs import spare
    from .analyze.store import settings
    from .reports import perfetto as traces
    from .reports.page import page, pictures
    from .reports.page import window as windows

    wants_page = perfetto is None or output is not None or png is not None or open_it
    output = output or Path("report.html")
    outputs.refuse_dash(output)
    spare(inputs, output)
    if output.suffix.lower() not in ("", ".html", ".htm"):
        table = output.with_suffix(".csv").name
        raise UsageError(f"{output}: this is a page, name it .html; tables: `lorabench analyze INPUT -o {table}`")
    shown = None if window is None else windows.parse(window)
    if shown is not None and not wants_page:
        raise UsageError("--window is about the page: name it with -o, too")
    are_runs = len(inputs) > 1 and all((path / rundir.SUMMARY).is_file() for path in inputs)
    if perfetto is not None:
        traces.check(perfetto)
        spare(inputs, perfetto)
        if are_runs:
            raise UsageError("--perfetto shows one recording: give one run directory, or traces of one job")
    if are_runs:
        if rank is not None:
            raise UsageError("--rank is of one run or job; of two runs that are compared there is none to choose")
        if png is not None or shown is not None:
            option = "--png draws" if png is not None else "--window is about"
            raise UsageError(f"{option} the page of one input; give one run directory")
        write_page(inputs, output)
        if open_it:
            typer.launch(str(output.absolute()))
        return
    from .analyze.job.folder import Wanted
    from .analyze.pipeline import analyze

    chosen = settings.parse(threshold or [], kernel_classes)
    with bar.shown() as progress:
        made = analyze(inputs, force=force, progress=progress, settings=chosen, wanted=Wanted(rank, is_first=True))
    with made as database:
        outputs.tell_losses(database)
        if perfetto is not None:
            traces.write(database, perfetto)
            console.put(f"wrote {perfetto}; ui.perfetto.dev opens it")
        if wants_page:
            page.write(database, output, inputs, shown, rank)
            console.put(f"wrote {output}")
        if png is not None:
            console.put(f"wrote {len(pictures.write(output, png))} pictures to {png}")
        if open_it:
            typer.launch(str(output.absolute()))
        outputs.require_all(database)
