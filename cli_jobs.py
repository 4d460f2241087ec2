"""The commands about jobs: reading their inputs by many processes or machines, and putting the results together."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from . import cli_help, console
from . import cli_progress as bar
from .errors import InputError, UsageError, leaving
from .paths import names_folder

_MOST_LINES = 20

Workers = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Make OUT/ a job folder: a result for each input, read by N processes."),
]
Shard = Annotated[
    str | None, typer.Option(metavar="I/N", help="Like --workers, for inputs I, I+N, …: one shard for each machine.")
]
Dask = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Like --workers, on a Dask cluster.")]


def executor_of(
    inputs: Sequence[str], output: Path | None, workers: int | None, shard: str | None, dask: str | None, is_plain: bool
) -> Any:
    """Who reads the inputs of a job; None when the output is not one.

    It is one where an executor is named, where an input is a URL, and where the folder is one already. An output that
    `is_plain` has a format of its own: then LORABENCH_EXECUTOR does not count. Raises UsageError for what does not go
    together.
    """
    from .analyze.job import executors, folder, remote

    is_folder = output is not None and names_folder(output)
    named = executors.chosen(workers, shard, dask, environ=is_folder and not is_plain)
    urls = [name for name in inputs if remote.is_url(name)]
    is_job = output is not None and folder.is_job(output)
    if named is None and not urls and not is_job:
        return None
    why = f"{urls[0]} is a URL" if urls else "--workers, --shard and --dask"
    if output is not None and remote.is_url(str(output).replace(":/", "://", 1)):
        raise UsageError(f"-o {output}: a job folder must be local or shared; copy it when it is finished")
    if not is_folder:
        raise UsageError(f"{why}: the output is then a job folder; name one, like -o job/")
    if is_plain:
        raise UsageError(
            f"-o {output} is a job folder ({why if named or urls else 'it is one already'}); read it first, "
            f"then `lorabench analyze {output} --report VIEW`, `-o DIR/` and so on"
        )
    return named or executors.Executor()


def read(inputs: Sequence[str], job: Path, executor: Any, force: bool, settings: Any, quiet: bool) -> None:
    """Read the inputs of a job, put them together where all have been read, and say what became of them.

    Raises InputError when some could not be read: the job holds the rest.
    """
    from .analyze.job import job as jobs

    with bar.shown(quiet) as progress, leaving(lambda: _said_of_finished(job)):
        done = jobs.read(inputs, job, executor, force=force, progress=progress, settings=settings)
        is_share = executor.kind == "shard"
        if not is_share and len(done.lost) < done.input_cnt:
            jobs.merge(job, progress)
    _tell_lost([(task.name, text) for task, text in done.lost])
    told = f"{len(done.outcomes)} of {done.input_cnt} inputs" if is_share else f"{done.input_cnt} inputs"
    if done.others and not quiet:
        console.tell_sentence(
            f"{job} holds {len(done.others)} more from earlier commands, which count, too: "
            f"{_some([entry.location for entry in done.others])}; to leave one out, remove its folder "
            f"({done.others[0].folder})"
        )
    if not quiet:
        console.tell(f"{told}: {done.count('read')} read, {done.count('found')} found finished, {len(done.lost)} lost")
        last = f"when all shards are done: lorabench merge {job}" if is_share else f"next: lorabench summary {job}"
        console.tell(last)
    console.put(f"wrote {job}")
    if done.lost:
        names = _some([task.name for task, _ in done.lost])
        raise InputError(
            f"{len(done.lost)} of {len(done.outcomes)} inputs cannot be read ({names}); {job} holds the rest"
        )


def _some(names: Sequence[str]) -> str:
    """The first of some names."""
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _said_of_finished(job: Path) -> str:
    """What lies in a job that is interrupted."""
    from .analyze.job import folder

    finished = [path for path in folder.inputs_in(job) if folder.result_of(path).is_file()]
    return f"{job} holds {len(finished)} finished of its inputs, and the same command resumes with the others"


def _tell_lost(lost: Sequence[tuple[str, str]]) -> None:
    for name, text in lost[:_MOST_LINES]:
        console.tell_sentence(f"{name}: {text}")
    if len(lost) > _MOST_LINES:
        console.tell(f"and {len(lost) - _MOST_LINES} more")


def register(app: typer.Typer) -> None:
    """Add the commands merge and split."""

    @app.command(cls=cli_help.Command, epilog=cli_help.examples("merge"), no_args_is_help=True)
    def merge(
        job: Annotated[Path, typer.Argument(metavar="JOB", help="A folder that `lorabench analyze -o JOB/` made.")],
        force: Annotated[bool, typer.Option("--force", help="Merge even if nothing changed.")] = False,
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Leave out the progress.")] = False,
    ) -> None:
        """Put the results of a job's inputs together.

        So that ranks can be compared. Needed after `lorabench analyze --shard`; other executors do it themselves. Can
        be repeated at any time. Upgrades a folder that an earlier version made.
        """
        from .analyze.job import job as jobs

        with bar.shown(quiet) as progress:
            merged = jobs.merge(job, progress, force=force)
        console.put(f"wrote {job}")
        if merged.lost:
            _tell_lost(merged.lost)
            raise InputError(
                f"{len(merged.lost)} of {merged.read_cnt + len(merged.lost)} inputs could not be read (see `lorabench "
                f"summary {job}`); {job} holds the rest"
            )

    @app.command(cls=cli_help.Command, epilog=cli_help.examples("split"), no_args_is_help=True)
    def split(
        report: Annotated[Path, typer.Argument(metavar="REPORT", help="An nsys report or its sqlite export.")],
        output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the ranks' files.")],
        force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Leave out the progress.")] = False,
    ) -> None:
        """Make a separate input for each rank in an nsys report.

        nsys around torchrun records all processes of a node in one file. Once split, each is an input of its own, so
        they are shown side by side and can be compared. Those without GPU work are left out.
        """
        from .analyze.read import nsys_split

        with bar.shown(quiet) as progress:
            made = nsys_split.split(report, output, progress, force=force)
        for path, process in made:
            what = f"process {process.pid}, GPU {process.first_device}, {process.gpu_op_cnt:,} GPU operations"
            console.put(f"wrote {path}: {what}")
        if not quiet:
            console.tell(f"next: lorabench analyze {shlex.quote(str(output))}")
