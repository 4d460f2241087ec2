"""Profiles any command with the passes that apply to it: `lorabench collect -- python train.py …`.

timing runs it as it is. nsys wraps it. torch and memory need Python: the script is then run inside torch.profiler, as
`python script.py` would run it. Ranges come from the script's own calls of lorabench.span() and lorabench.annotate().
"""

import time
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import Interrupted, RunError, ToolError
from ...progress import Progress, Silent
from ...vocabulary import PASSES
from ..processes import nsys_profile, provenance
from ..processes.supervision import Ended, run
from ..run.session import NSYS_STEM, Passes

TRACES = {"torch": "trace.json.gz", "memory": "memory.json.gz"}


def collect_command(
    command: list[str], passes: tuple[str, ...], path: Path, timeout_s: float, force: bool = False,
    listener: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a command once for each pass and leave the run directory `path`; returns its manifest.

    Raises UsageError when the directory exists, RunError when the command failed in a pass.
    """
    directory = rundir.RunDirectory(path, force)
    run_passes = Passes(started=provenance.now())
    try:
        for name in (p for p in PASSES if p in passes):
            (listener or Silent()).step(f"pass {name}")
            start = time.monotonic()
            run_passes.states[name] = {"status": rundir.CANCELLED, "message": "interrupted"}  # unless it ends
            run_passes.states[name] = _run_pass(name, command, directory.partial, timeout_s)
            run_passes.walls[name] = round(time.monotonic() - start, 3)
            if run_passes.status != rundir.OK:
                break
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; what was measured is in {path}") from error
    finally:
        manifest = _finish(directory, command, run_passes)
    if run_passes.status != rundir.OK:
        raise RunError(f"{run_passes.message}; the run is kept in {path}, its output in {path / rundir.LOGS}")
    return manifest


def _run_pass(name: str, command: list[str], folder: Path, timeout_s: float) -> dict[str, Any]:
    """How the command ended in one pass."""
    log = folder / rundir.LOGS / f"{name}.log"
    environment = provenance.environment_of_command(name == "nsys")
    if name == "nsys":
        return _under_nsys(command, environment, folder, log, timeout_s)
    words = command if name == "timing" else _inside_profile(name, command, folder)
    if words is None:
        return {"status": rundir.SKIPPED, "message": f"{command[0]} is no Python: torch.profiler runs inside one"}
    try:
        return _judge(run(words, environment, log, timeout_s, _unheard))
    except ToolError as error:
        return {"status": rundir.FAILED, "message": str(error)}


def _unheard(line: str) -> None:
    """The command's output is in the log."""


def _under_nsys(
    command: list[str], environment: dict[str, str], folder: Path, log: Path, timeout_s: float
) -> dict[str, Any]:
    try:
        done = nsys_profile.profile(command, environment, folder / NSYS_STEM, log, timeout_s, _unheard, False)
    except ToolError as error:
        return {"status": rundir.SKIPPED, "message": str(error)}
    state = _judge(done.ended)
    if state["status"] == rundir.OK and done.report is None:
        return {"status": rundir.SKIPPED, "message": "nsys left no report"}
    return state


def _judge(ended: Ended) -> dict[str, Any]:
    return {"status": rundir.FAILED if ended.code else rundir.OK, "message": ended.reason if ended.code else None}


def _inside_profile(name: str, command: list[str], folder: Path) -> list[str] | None:
    """The command with the script run by lorabench.collect.script; None for anything but `python script|-m module`."""
    if not Path(command[0]).name.startswith("python") or len(command) < 2:
        return None
    if command[1].startswith("-") and command[1] != "-m":
        return None
    return [command[0], "-m", "lorabench.collect.scripts.script", name, str(folder / TRACES[name]), *command[1:]]


def _finish(directory: rundir.RunDirectory, command: list[str], passes: Passes) -> dict[str, Any]:
    directory.write_json(rundir.SUMMARY, {"command": command, "pass_wall_s": passes.walls})
    manifest = {
        "status": passes.status,
        "message": passes.message,
        "command": command,
        "passes": passes.states,
        "provenance": provenance.of_run(passes.started),
    }
    directory.finish(manifest)
    return manifest
