"""The command that tries advice: improve."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from . import cli_progress as bar
from . import console
from .cli_help import Command, examples
from .cli_options import AsCsv, AsJson, Quiet
from .errors import leaving

_ROUNDS = 6


_Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory of `lorabench collect`.")]
_Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="The folder for what is measured [default: RUN-improved]."),
]
_Rounds = Annotated[
    int | None, typer.Option("--rounds", metavar="N", min=1, help=f"Changes to measure at most [default: {_ROUNDS}].")
]
_Goal = Annotated[
    str,
    typer.Option(
        metavar="time|memory|adapters", help="What to improve: time of a step, peak memory, number of adapters."
    ),
]
_Budget = Annotated[float | None, typer.Option(metavar="MINUTES", min=0, help="Minutes of measuring at most.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="List the changes with predictions, run nothing.")]
_AllowNumerics = Annotated[bool, typer.Option("--allow-numerics", help="Also try changes that alter what is trained.")]
_PricePerHour = Annotated[
    float | None, typer.Option(metavar="X", min=0, help="Price per hour; adds the cost of a million tokens.")
]
_Memory = Annotated[
    float | None,
    typer.Option(
        metavar="GIB", min=0, help="--goal adapters: memory to fill [default: what the run takes at its start]."
    ),
]
_After = Annotated[
    Path | None, typer.Option(metavar="RUN2", help="A later run: say which predictions held. Runs nothing.")
]
_Force = Annotated[
    bool, typer.Option("--force", help="Measure all of it again, and replace another improvement in DIR.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(cls=Command, epilog=examples("improve"), no_args_is_help=True)(improve)


def improve(
    run: _Run,
    output: _Output = None,
    rounds_: _Rounds = None,
    goal: _Goal = "time",
    budget: _Budget = None,
    dry_run: _DryRun = False,
    allow_numerics: _AllowNumerics = False,
    price_per_hour: _PricePerHour = None,
    memory: _Memory = None,
    after: _After = None,
    force: _Force = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Try changes to a run's settings, keep what gains.

    Each is predicted, the best is measured. Every run does the same seeded work; a gain within the spread of the steps
    is dropped. What was measured is in DIR, and the same command resumes an interrupted improvement. For a run of your
    own script (`collect -- …`) it lists edits to make by hand; --after a second run of it says which were made and what
    they gained.
    """
    from . import improving
    from .collect.improve.candidates import ADAPTERS, GOALS, TIME
    from .collect.improve.rounds import Asked
    from .errors import UsageError
    from .reports import outputs

    form = outputs.chosen_format(as_csv, as_json)
    if goal not in GOALS:
        raise UsageError(f"--goal is {goal!r}; it must be one of {', '.join(GOALS)}")
    measuring = {
        "-o": output is not None, "--rounds": rounds_ is not None, "--budget": budget is not None,
        "--allow-numerics": allow_numerics, "--price-per-hour": price_per_hour is not None,
        "--memory": memory is not None, "--force": force,
    }  # fmt: skip
    if improving.is_command(run):
        _refuse_goal(goal)
        _refuse(measuring, f"{run} is a run of a script, for which improve lists edits and measures nothing")
        _edits(run, after, form, quiet)
        return
    if memory is not None and goal != ADAPTERS:
        raise UsageError("--memory is what adapters must fit into: add --goal adapters")
    if after is not None:
        _refuse(measuring | {"--goal": goal != TIME, "--dry-run": dry_run}, "--after reads two runs and measures none")
    plan = improving.Plan(
        run, output or run.with_name(f"{run.name}-improved"), Asked(goal, rounds_ or _ROUNDS, allow_numerics),
        None if budget is None else budget * 60, None if memory is None else memory * 2**30, is_forced=force,
    )  # fmt: skip
    if after is not None or dry_run:
        _look(plan, after, form, quiet)
    else:
        _improve(plan, price_per_hour, form, quiet)


def _refuse_goal(goal: str) -> None:
    """Raise UsageError for a goal that improving a script has not."""
    from .collect.improve.candidates import TIME
    from .errors import UsageError

    if goal != TIME:
        raise UsageError(
            f"--goal {goal} is for runs that collect trained; for a script's memory: collect --profiler memory, "
            "then `lorabench query RUN memory_finding`"
        )


def _look(plan: Any, after: Path | None, form: Any, quiet: bool) -> None:
    """Show what each change would gain, or what became of it in a later run; nothing is measured."""
    from . import improving
    from .collect.improve.candidates import TIME
    from .reports.improvement import rows, text

    with bar.shown(quiet) as progress:
        now, left = improving.compared(plan.run, after) if after is not None else improving.outlook(plan, progress)
    found = [rows.of_start(now), *(rows.of_row(row, now) for row in left)]
    _put(found, rows.COLUMNS, form, text.table(found, plan.asked.goal != TIME))


def _refuse(given: dict[str, bool], why: str) -> None:
    """Raise UsageError for an option that would do nothing."""
    from .errors import UsageError

    if named := ", ".join(option for option, is_given in given.items() if is_given):
        raise UsageError(f"{named}: {why}")


def _improve(plan: Any, price_per_hour: float | None, form: Any, quiet: bool) -> None:
    """Measure, and leave what came of it on the screen and in the folder."""
    from . import improving
    from .collect.improve.candidates import TIME
    from .reports.improvement import rows, text
    from .reports.terminal import screen

    goes_on = f"what was measured is in {plan.folder}, and the same command resumes from it"
    with bar.shown(quiet) as progress, leaving(lambda: goes_on):
        course, shown = improving.improve(plan, progress)
    found = rows.of_course(course)
    ending = screen.wrapped(text.ending(course, shown, price_per_hour))
    _write(plan.folder, f"Improving {plan.run.name}", course, shown, found, price_per_hour)  # before a pipe may break
    _put(found, rows.COLUMNS, form, [*text.table(found, plan.asked.goal != TIME), *ending])
    (console.put if form is None else console.tell)(f"wrote {plan.folder}")


def _put(found: list[dict[str, Any]], columns: Sequence[str], form: Any, lines: Iterable[str]) -> None:
    """Rows for a program, lines for a person."""
    import polars

    from .reports import outputs

    if form is not None:
        outputs.print_rows(polars.DataFrame(found, schema=list(columns), infer_schema_length=None), form)
        return
    for line in lines:
        console.put(line)


def _write(
    folder: Path, title: str, course: Any, shown: Any, found: list[dict[str, Any]], price_per_hour: float | None
) -> None:
    """Leave the table, the page and the winning settings in the folder."""
    from .collect.settings import written
    from .reports.improvement import improvement_page
    from .reports.tables import files

    files.write_rows(found, folder / improvement_page.RESULTS)
    improvement_page.write(folder / "improve.html", title, course, found, shown, price_per_hour)
    with files.replacing(folder / "run.toml") as partial:
        partial.write_text(written.toml(course.spec), "utf-8")


def _edits(run: Path, after: Path | None, form: Any, quiet: bool) -> None:
    """What to change by hand in a script, and what came of it."""
    from . import edits_by_hand
    from .reports.improvement import edits_text
    from .reports.terminal import screen

    with bar.shown(quiet):
        found = edits_by_hand.edited(run, after)
    if found.scripts:
        console.tell(
            f"{run} ran {found.scripts[0]} and {after} ran {found.scripts[1]}: what follows holds only if they are the "
            "same program before and after an edit"
        )
    lines = list(edits_text.lines(found.rows, after is not None))
    if after is not None:
        lines += screen.wrapped([edits_text.held(found.rows, found.before_ns, found.after_ns, found.scripts)])
    _put(found.rows, edits_by_hand.COLUMNS, form, lines)
