"""Profiles any command with the passes that apply to it: `lorabench collect -- python train.py …`.

timing runs it as it is. nsys wraps it. torch and memory need Python: the script is then run inside torch.profiler, as
`python script.py` would run it. Ranges come from the script's own calls of lorabench.span() and lorabench.annotate().
"""

from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import ToolError
from ...progress import Progress
from ..processes import nsys_profile, provenance
from ..processes.supervision import Ended, run
from ..run.passes import NSYS_STEM, Passes, State, into_directory

TRACES = {"torch": "trace.json.gz", "memory": "memory.json.gz"}


def collect_command(
    command: list[str], passes: tuple[str, ...], path: Path, timeout_s: float, force: bool = False,
    listener: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a command once for each pass and leave the run directory `path`; returns its manifest.

    Raises what passes.into_directory() raises.
    """

    def run_pass(name: str, folder: Path) -> tuple[State, None]:
        return _run_pass(name, command, folder, timeout_s), None

    def describe(directory: rundir.RunDirectory, passes: Passes) -> dict[str, Any]:
        directory.write_json(rundir.SUMMARY, {"command": command, "pass_wall_s": passes.walls})
        return {"command": command, "provenance": provenance.of_run(passes.started)}

    return into_directory(path, force, passes, listener, None, run_pass, describe)


def _run_pass(name: str, command: list[str], folder: Path, timeout_s: float) -> State:
    """How the command ended in one pass."""
    log = folder / rundir.LOGS / f"{name}.log"
    environment = provenance.environment_of_command(name == "nsys")
    if name == "nsys":
        return _under_nsys(command, environment, folder, log, timeout_s)
    words = command if name == "timing" else _inside_profile(name, command, folder)
    if words is None:
        return {"status": rundir.SKIPPED, "message": f"{command[0]} is not a Python: torch.profiler runs inside one"}
    try:
        return _judge(run(words, environment, log, timeout_s, _unheard))
    except ToolError as error:
        return {"status": rundir.FAILED, "message": str(error)}


def _unheard(line: str) -> None:
    """The command's output is in the log."""


def _under_nsys(command: list[str], environment: dict[str, str], folder: Path, log: Path, timeout_s: float) -> State:
    try:
        done = nsys_profile.profile(command, environment, folder / NSYS_STEM, log, timeout_s, _unheard, False)
    except ToolError as error:
        return {"status": rundir.SKIPPED, "message": str(error)}
    state = _judge(done.ended)
    if state["status"] == rundir.OK and done.report is None:
        return {"status": rundir.SKIPPED, "message": "nsys left no report"}
    return state


def _judge(ended: Ended) -> State:
    return {"status": rundir.FAILED if ended.code else rundir.OK, "message": ended.reason if ended.code else None}


def _inside_profile(name: str, command: list[str], folder: Path) -> list[str] | None:
    """The command with its script run by script.py; None for anything but `python script|-m module`."""
    if not Path(command[0]).name.startswith("python") or len(command) < 2:
        return None
    if command[1].startswith("-") and command[1] != "-m":
        return None
    return [command[0], "-m", "lorabench.collect.scripts.script", name, str(folder / TRACES[name]), *command[1:]]
