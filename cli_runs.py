"""The commands that train: collect and sweep. Their options are their own and one for each field of RunSpec."""

import inspect
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from . import cli_help, console, rundir
from . import cli_progress as bar
from .errors import Interrupted, LorabenchError, RunError, UsageError, leaving

_Config = Annotated[
    Path | None, typer.Option(metavar="FILE.toml", help="Settings from a file; command-line options take precedence.")
]

_Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- COMMAND…]", help="Profile this command instead: -- python train.py …"),
]
_Run = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="The run directory [default: lorabench-runs/TIME-WHAT]."),
]
_Check = Annotated[
    bool,
    typer.Option("--dry-run", help="Check settings, packages, model and first records, or the command; run nothing."),
]
_ReplaceRun = Annotated[bool, typer.Option("--force", help="Replace the run directory if it exists.")]
_NoReport = Annotated[bool, typer.Option("--no-report", help="Leave out the page RUN/report.html.")]
_Profile = Annotated[
    bool, typer.Option("--profile", help="torch.profiler in cycles of 10 steps: skips 7, warms up in 2, keeps 1.")
]
_Timeline = Annotated[
    bool, typer.Option("--export-memory-timeline", help="With --profile: a page of memory for each cycle, too.")
]
_Trace = Annotated[bool, typer.Option("--export-trace", hidden=True)]
_MaxSteps = Annotated[str | None, typer.Option("--max-steps", hidden=True)]
_ProfilingOutputs = Annotated[Path | None, typer.Option("--profiling-outputs", hidden=True)]

_Sweep = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="The folder of the runs, the CSV and the page.")
]
_Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Start from a named sweep; options take precedence. paper (tinyllama-1.1b): a task-step against the "
        "number of adapters, as in the BatchLoRA paper; memory (qwen2.5-1.5b): peaks of full fine-tuning and LoRA by "
        "rank and checkpointing; paper-scale (tinyllama-1.1b): tokens on several devices by kind of parallelism, "
        "adapters, overlap, devices and rank, as in mLoRA's paper.",
    ),
]
_UntilOom = Annotated[
    str | None,
    typer.Option(
        metavar="SETTING",
        help="Search for the largest value of this setting (lora_cnt) that fits; --lora-cnt 2..16 bounds it.",
    ),
]
_List = Annotated[bool, typer.Option("--dry-run", help="List the runs, start none.")]
_ReplaceSweep = Annotated[bool, typer.Option("--force", help="Replace another sweep in the folder.")]

_NO_TIMELINES = (
    "--export-memory-timeline writes pages of lorabench's own training; for a command, give --profiler torch,memory, "
    "and `lorabench report RUN/memory.json.gz -o memory.html` is the page"
)
_KINDS = "torchao|quanto|gptq|gptq-triton|unsloth-bnb|unsloth-gptq-triton"
_KindToTrain = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar=_KINDS,
        help="Train a base model of this kind; `lorabench doctor --kind …` says what it needs.",
    ),
]
KindToExamine = Annotated[
    str | None, typer.Option("--kind", metavar=_KINDS, help="A kind of base model that needs packages of its own.")
]


def register(app: typer.Typer) -> None:
    """Add both commands to the command line, which lack options until give_options()."""
    for name, function in COMMANDS.items():
        app.command(name, cls=cli_help.Command, epilog=cli_help.examples(name))(function)


@cache
def give_options() -> None:
    """Give both commands an option for each field of RunSpec, which who only analyzes need not load."""
    from .collect.settings import options

    for name, function in COMMANDS.items():
        own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        of_runs = options.parameters(typer.Option, options.SWEEP_DEFAULTS if name == "sweep" else {})
        every = [*own[:1], *(p.replace(kind=p.KEYWORD_ONLY) for p in own[1:]), *of_runs]
        command: Any = function
        command.__signature__ = inspect.Signature(every)
        command.__annotations__ = {p.name: p.annotation for p in every}


def collect(
    command: _Command = None,
    output: _Run = None,
    config: _Config = None,
    dry_run: _Check = False,
    force: _ReplaceRun = False,
    no_report: _NoReport = False,
    profile: _Profile = False,
    export_memory_timeline: _Timeline = False,
    kind: _KindToTrain = None,
    export_trace: _Trace = False,
    max_steps: _MaxSteps = None,
    profiling_outputs: _ProfilingOutputs = None,
    **settings: Any,
) -> None:
    """Run and profile LoRA fine-tuning, or your own script.

    Leaves a run directory for `lorabench analyze`.

    Without a GPU, nsys or network it trains a small Llama with random weights on the CPU: the same code path. Lists
    take one value for all adapters, or one for each: --rank 8,16,32,64.

    With -- COMMAND, the command runs once for each pass, unedited, its processes profiled whatever starts them. Only
    --profiler, --range-depth, --timeout-s and the options of torch.profiler apply, in optimizer steps.
    """
    from .collect.run import epoch_report, preflight
    from .collect.settings import options, profiling
    from .collect.settings.spec import from_dict, read_config

    if not command and sys.argv[-1] == "--":
        raise UsageError("collect --: the command is missing; append it, like lorabench collect -- python train.py")
    spelt = {
        "profile": profile, "export_trace": export_trace, "export_memory_timeline": export_memory_timeline,
        "max_steps": max_steps, "profiling_outputs": profiling_outputs,
    }  # fmt: skip
    given = _settings_of(kind) | {name: value for name, value in spelt.items() if value} | options.given(settings)
    asked = profiling.of((read_config(config) if config else {}) | given)
    values, output = asked.settings, output or asked.outputs
    if command:
        if asked.has_memory_timeline:
            raise UsageError(_NO_TIMELINES)
        _collect_command(command, values, output, dry_run, force, no_report)
        return
    spec = from_dict(values)
    preflight.check([spec])
    if dry_run:
        preflight.check_targets(spec)
        _print_settings(spec.as_dict())
        return
    path = _collected(spec, output, force)
    if not no_report:
        _write_page(path)
    if asked.has_memory_timeline:
        _write_memory_timelines(path)
    if spec.epochs:
        console.tell(f"reports of this run: {epoch_report.folder_of(spec, path)}")
    console.put(f"wrote {path}")


def _collected(spec: Any, output: Path | None, force: bool) -> Path:
    """The directory of a run that has ended, which was said of it."""
    from .collect.run import session

    with bar.shown() as progress:
        path = output or session.default_path(spec.title)
        if (cycle := spec.with_whole_cycle()) != spec:
            console.tell_sentence(f"--steps raised from {spec.steps} to {cycle.steps}, one cycle of the profiler")
        for note in spec.notes():
            console.tell_sentence(note)
        manifest = session.collect(spec, path, force, progress)
    _tell_outcome(manifest, path)
    return path


def _collect_command(
    command: list[str], values: dict[str, Any], output: Path | None, dry_run: bool, force: bool, no_report: bool
) -> None:
    """Profile a command of the user's: its output is seen as it comes, no bar is in its way."""
    from .collect.run import preflight, session
    from .collect.scripts import command as commands
    from .collect.settings.spec import from_dict

    commands.check(values)
    spec = from_dict(values)
    commands.check_passes(spec, values)
    if dry_run:
        preflight.check_command(command)
        _print_settings({"command": command} | {name: getattr(spec, name) for name in commands.SETTINGS})
        return
    path = output or session.default_path(commands.title(command))
    teller = commands.Teller(console.tell, console.pass_on)
    manifest = commands.collect_command(command, spec, values, path, force, teller)
    _tell_outcome(manifest, path)
    is_recorded = any(s["status"] == rundir.OK for name, s in manifest["passes"].items() if name != "timing")
    has_traces, has_steps = is_recorded and rundir.traces(path), rundir.read_summary(path).get("step_wall_ns")
    if has_traces:
        console.tell(f"next: lorabench summary {shlex.quote(str(path))}")
    elif has_steps:
        console.tell("only times of steps; what takes them: --profiler timing,torch")
    if not no_report:
        _write_page(path)
    console.put(f"wrote {path}")
    if not has_traces and not has_steps:
        raise RunError("nothing was recorded: no step, no trace")


def _tell_outcome(manifest: dict[str, Any], path: Path) -> None:
    from .reports.run import outcome_text

    for line in outcome_text.lines(manifest, path):
        console.tell_sentence(line)


def _write_page(path: Path) -> None:
    """Leave the run's page in its directory and say where it is. A run without a recording has none.

    The run is whole without it: what goes wrong is said and ends nothing.
    """
    from .analyze.pipeline import analyze
    from .reports.page import page

    if not rundir.traces(path):
        return
    try:
        with bar.shown() as progress, analyze([path], progress=progress) as database:
            page.write(database, path / rundir.PAGE, [path])
    except LorabenchError as error:
        console.tell(f"no page: {error}")
    else:
        console.tell(f"the page of this run: {path / rundir.PAGE}")


def known_kind(kind: str) -> str:
    """A kind of base model. Raises UsageError for one that nobody knows."""
    if kind not in _KINDS.split("|"):
        raise UsageError(f"--kind is {kind!r}; it must be one of {', '.join(_KINDS.split('|'))}")
    return kind


def _settings_of(kind: str | None) -> dict[str, Any]:
    from .collect.run import environments

    return {} if kind is None else environments.settings_of(known_kind(kind))


def _write_memory_timelines(path: Path) -> None:
    """Leave a page of each cycle of the memory pass beside its trace."""
    from .analyze.pipeline import analyze
    from .reports.page import page

    for trace in sorted(path.glob(rundir.MEMORY_TRACES)):
        written = path / rundir.MEMORY_TIMELINE.format(trace.name.removeprefix("memory").removesuffix(".json.gz"))
        with bar.shown() as progress, analyze([trace], progress=progress) as database:
            page.write(database, written, [trace])
        console.tell(f"memory of this cycle: {written}")


def _print_settings(settings: dict[str, Any]) -> None:
    import json

    console.put_lines(json.dumps(settings, indent=2))


def sweep(
    output: _Sweep = Path("lorabench-sweep"),
    preset: _Preset = None,
    until_oom: _UntilOom = None,
    config: _Config = None,
    dry_run: _List = False,
    force: _ReplaceSweep = False,
    **settings: Any,
) -> None:
    """Run a grid of settings, or search for the most that fits.

    Writes one CSV and one HTML page.

    Every setting of `lorabench collect` takes several values: 4,8,16 or 1..12; with 8+16 one value is a list, for each
    adapter. Out-of-memory runs are recorded as rows. The same command resumes an interrupted sweep. Only the
    timing pass is run unless --profiler names others.
    """
    from .collect.run import preflight
    from .collect.run import sweep as sweeping
    from .collect.settings import options
    from .collect.settings.spec import read_config

    given = (read_config(config) if config else {}) | options.given(settings)
    what = sweeping.plan(given, until_oom and until_oom.replace("-", "_"), preset)
    for reason in what.impossible:
        console.tell_sentence(f"left out: {reason}")
    preflight.check(cell.spec for cell in what.cells)
    if dry_run:
        console.tell(f"every run: {sweeping.said_of_all(what)}")
        if what.searched:
            console.tell(sweeping.said_of_search(what))
        console.put_lines("\n".join(cell.name for cell in what.cells))
        return
    if force:
        (output / rundir.SWEEP).unlink(missing_ok=True)
    ended: LorabenchError | None = None
    goes_on = f"the runs that ended are in {output}, and the same command resumes with the others"
    try:
        with bar.shown() as progress, leaving(lambda: goes_on):
            sweeping.run(what, output, progress)
    except (RunError, Interrupted) as error:  # what was measured is still worth a table
        ended = error
    _report_sweep(output, is_of_memory=preset == "memory")
    if ended:
        raise ended


def _report_sweep(output: Path, is_of_memory: bool) -> None:
    """Leave the table and the page of what the sweep's runs measured in its folder, and show the table."""
    from .reports.sweeps import results as sweeps
    from .reports.sweeps import sweep_page, sweep_text
    from .reports.tables import files

    rows = sweeps.rows(output)
    files.write_rows(rows, output / sweeps.RESULTS)
    sweep_page.write(output, rows, output / sweeps.PAGE)
    sweep_text.show(rows, is_of_memory=is_of_memory, searched=rundir.read_sweep(output).get("searched"))
    console.put(f"wrote {output / sweeps.RESULTS} and {output / sweeps.PAGE}")


COMMANDS = {function.__name__: function for function in (collect, sweep)}
