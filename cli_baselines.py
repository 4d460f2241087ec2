"""The commands for baselines: save, list, remove."""

from pathlib import Path
from typing import Annotated

import typer

from . import cli_help, console
from . import cli_progress as bar
from .cli_options import AsCsv, AsJson, Quiet
from .reports import outputs

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, '.', '_' and '-'.")]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(
        name="baseline", help="Keep an input under a name, for `lorabench compare @NAME RUN`.", no_args_is_help=True,
        epilog=cli_help.examples("baseline"), rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    for name, function in (("save", save), ("list", list_), ("remove", remove)):
        group.command(
            name, no_args_is_help=name != "list", cls=cli_help.Command, epilog=cli_help.examples(f"baseline {name}")
        )(function)
    app.add_typer(group)


def save(
    name: _Name,
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="A run directory, trace, database or @NAME.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a baseline of this name.")] = False,
    quiet: Quiet = False,
) -> None:
    """Keep what compare needs of an input under a name."""
    from .reports.comparison import baselines

    with bar.shown(quiet) as progress:
        baselines.save(name, source, force, progress)
    console.put(f"saved {baselines.MARK}{baselines.plain(name)}")


def list_(as_csv: AsCsv = False, as_json: AsJson = False) -> None:
    """List the baselines."""
    import dataclasses

    from .reports.comparison import baselines

    form = outputs.chosen_format(as_csv, as_json)
    rows = [dataclasses.asdict(found) for found in baselines.listed()]
    outputs.print_dicts(rows, [field.name for field in dataclasses.fields(baselines.Baseline)], form)
    if not rows and form is None:
        console.tell("no baselines; keep one with `lorabench baseline save NAME INPUT`")


def remove(name: _Name) -> None:
    """Remove a baseline."""
    from .reports.comparison import baselines

    baselines.remove(name)
    console.put(f"removed {baselines.MARK}{baselines.plain(name)}")
