"""The commands about the machine: the cache, and what is there or missing."""

from typing import Annotated

import typer

from . import cli_help, cli_runs, console
from .cli_options import AsCsv, AsJson
from .errors import UsageError
from .reports import outputs


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for function in (cache, doctor):
        app.command(cls=cli_help.Command, epilog=cli_help.examples(function.__name__))(function)


def cache(
    action: Annotated[str, typer.Argument(metavar="[list|clear]", help="What to do.")] = "list",
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """List or clear the databases cached for inputs.

    They are made again when needed.
    """
    from .analyze.store import cache as kept

    form = outputs.chosen_format(as_csv, as_json)
    if action not in ("list", "clear"):
        raise UsageError(f"no such action: {action!r}; choose list or clear")
    if action == "clear":
        count, size = kept.clear()
        console.put(f"removed {count} databases, {size / 1e6:,.1f} MB, from {kept.folder()}")
        return
    outputs.print_cache(kept.entries(), kept.folder(), form)


def doctor(kind: cli_runs.KindToExamine = None, as_csv: AsCsv = False, as_json: AsJson = False) -> None:
    """Check what this machine supports and how to fix what is missing.

    With --kind: what such a base model needs, and the commands that make an environment for it.
    """
    import dataclasses

    from .collect.run import doctor as machine
    from .collect.run import environments

    form = outputs.chosen_format(as_csv, as_json)
    found = machine.examine() if kind is None else environments.examine(cli_runs.known_kind(kind))
    rows = [dataclasses.asdict(finding) for finding in found]
    outputs.print_dicts(rows, ("what", "state", "found", "advice"), form)
