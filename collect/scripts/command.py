"""Profiles any command with the passes that were asked for: `lorabench collect -- torchrun … train.py …`.

timing runs it as it is, but for a clock. nsys wraps it. In every pass each Python process of it loads the hook (hook/),
which finds steps, opens ranges of phases and modules, and records with torch.profiler in the passes torch and memory.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import ToolError, UsageError
from ..processes import nsys_profile, provenance
from ..processes.supervision import Ended, run
from ..run.passes import NSYS_STEM, Passes, State, into_directory
from ..settings.spec import RunSpec
from . import measured
from .gathered import TRACES, Gathered, is_piped, settle
from .hook import start

# What means something for a command of others; the rest of RunSpec says what lorabench itself trains.
SETTINGS = ("profiler", "timeout_s", "range_depth", "with_stack", "with_shapes", "wait_steps", "warmup_steps",
            "active_steps", "repeat", "profiling_frequency")  # fmt: skip
_SCHEDULE = SETTINGS[-5:]
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Interrupt)\b")  # what a traceback ends with
_OF_PROFILER = b"USDT:"
_GRACE_S = 30.0  # for writing a trace
_AGAIN = (
    "; pass {first} went well: if the command refuses what an earlier run left, like an output folder, --profiler "
    "{name} alone runs it once"
)
_UNDER = {"torch": "under torch.profiler", "nsys": "under nsys", "memory": "under torch.profiler with memory",
          "timing": "with a clock"}  # fmt: skip


@dataclass(frozen=True)
class Teller:
    """Where a line for the person goes, and the output of the command."""

    tell: Callable[[str], None]
    show: Callable[[bool, bytes], None]


def collect_command(
    command: list[str], spec: RunSpec, given: dict[str, Any], path: Path, force: bool, teller: Teller
) -> dict[str, Any]:
    """Run a command once for each pass and leave the run directory `path`; returns its manifest.

    `given` are the settings that somebody gave. Raises UsageError for one that means nothing here, and what
    passes.into_directory() raises.
    """
    check(given)
    check_passes(spec, given)
    schedule = _schedule(spec) if any(name in given for name in _SCHEDULE) else None
    ran: list[str] = []
    measured_by: dict[str, measured.Result] = {}  # by pass, also of one that is interrupted

    def run_pass(name: str, folder: Path) -> tuple[State, dict[str, Any] | None]:
        is_first = not ran
        ran.append(name)
        where = "" if is_first else f"; its output is in {rundir.LOGS}/{name}.log"
        teller.tell(f"pass {name}: {'runs' if is_first else 'runs again'} {_UNDER[name]}{where}")
        turn = max((found["turn"] for found in measured_by.values()), default=1)
        asked = {"pass": name, "schedule": schedule, "with_stack": spec.with_stack, "with_shapes": spec.with_shapes,
                 "depth": spec.range_depth, "turn": turn}  # fmt: skip
        show = _Quiet(teller.show) if is_first else None
        state, result = _run_pass(asked, command, folder, spec.timeout_s, show, measured_by)
        if not is_first and state.get("exit_code", 0) > 0:
            state["message"] += _AGAIN.format(name=name, first=ran[0])
        for note in state.get("notes", []):
            teller.tell(f"pass {name}: {note}")
        return state, result

    def describe(directory: rundir.RunDirectory, passes: Passes) -> dict[str, Any]:
        if text := measured.steps_csv(measured_by):
            (directory.partial / rundir.STEPS).write_text(text, encoding="utf-8")
        directory.write_json(rundir.SUMMARY, measured.summarise(command, measured_by, passes.walls))
        return {
            "command": command,
            "settings": {name: value for name, value in given.items() if name in SETTINGS},
            "provenance": provenance.of_run(passes.started),
        }

    return into_directory(path, force, spec.profiler, None, None, run_pass, describe)


def check(given: dict[str, Any]) -> None:
    """Raise UsageError for a setting that means nothing for a command of others."""
    vain = [f"--{name.replace('_', '-')}" for name in given if name.replace("-", "_") not in SETTINGS]
    if vain:
        raise UsageError(
            f"{', '.join(vain)}: lorabench does not train in `collect -- COMMAND`; say that to the command. Here "
            f"only these apply: {', '.join('--' + name.replace('_', '-') for name in SETTINGS)}"
        )


def check_passes(spec: RunSpec, given: dict[str, Any]) -> None:
    """Raise UsageError for a setting that none of the passes uses."""
    if "range_depth" in {name.replace("-", "_") for name in given} and spec.profiler == ("timing",):
        raise UsageError(
            "--range-depth: the timing pass opens no ranges in `collect -- COMMAND`; add torch, nsys or memory to "
            "--profiler, or leave it out"
        )


def title(command: list[str]) -> str:
    """What runs, in a word that can name a folder: the script, or the program."""
    scripts = [word for word in command[1:] if word.endswith(".py")]
    return Path(scripts[0] if scripts else command[0]).stem


def _schedule(spec: RunSpec) -> tuple[int, int, int, int]:
    """torch.profiler's wait, warmup, active and repeat, in optimizer steps."""
    active = spec.active_steps or 1
    wait = spec.profiling_frequency - spec.warmup_steps - active if spec.profiling_frequency else spec.wait_steps
    return wait, spec.warmup_steps, active, spec.repeat


def _run_pass(
    asked: dict[str, Any], command: list[str], folder: Path, timeout_s: float,
    show: Callable[[bool, bytes], None] | None, measured_by: dict[str, measured.Result],
) -> tuple[State, measured.Result | None]:  # fmt: skip
    """How the command ended in one pass, and what the hooks measured; that goes to `measured_by` however it ends."""
    name: str = asked["pass"]
    hook = folder / f".hook-{name}"
    hook.mkdir()
    (hook / start.SETTINGS).write_text(json.dumps(asked), encoding="utf-8")
    log = folder / rundir.LOGS / f"{name}.log"
    environment = _environment(name, hook.absolute())
    trace_cnt = None
    try:
        if name == "nsys":
            state = _under_nsys(command, environment, folder, log, timeout_s, show or _unseen)
        else:
            state = _judge(run(command, environment, log, timeout_s, _unheard, show or _unseen, _GRACE_S))
    except ToolError as error:
        state = {"status": rundir.SKIPPED if name == "nsys" else rundir.FAILED, "message": str(error)}
    finally:  # what was recorded before an interruption is kept, too
        gathered = Gathered(hook)
        if name in TRACES:
            trace_cnt = gathered.take_traces(name, folder)
        result = measured.of_pass(gathered)
        if result is not None:
            measured_by[name] = result
        shutil.rmtree(hook, ignore_errors=True)
    if state["status"] == rundir.FAILED and gathered.error and state.get("exit_code", 0) > 0:
        state["message"] = f"it ended with exit code {state['exit_code']}: {gathered.error}{_of_stdin(gathered.error)}"
    return settle(state, gathered, trace_cnt, name == "timing" and result is None), result


def _of_stdin(error: str) -> str:
    """What to do where a command found nothing to read: a pipe can be read once, and there are several passes."""
    if not error.startswith("EOFError") or not is_piped():
        return ""
    return " (a pipe is not handed on, as each pass reads it from its start: give a file, < FILE)"


def _environment(name: str, hook: Path) -> dict[str, str]:
    """The command's environment with the hook in it."""
    found = provenance.environment_of_command(name == "nsys")
    path = str(Path(start.__file__).resolve().parent / "path")
    found["PYTHONPATH"] = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))
    return found | {"LORABENCH_HOOK": str(hook)}


class _Quiet:
    """Shows all but the lines in which torch's profiler says when it runs: they are not the command's."""

    def __init__(self, show: Callable[[bool, bytes], None]):
        self._show = show
        self._held = {False: b"", True: b""}  # what may become such a line

    def __call__(self, is_error: bool, data: bytes) -> None:
        is_end = not data
        *lines, rest = (self._held[is_error] + data).split(b"\n")
        kept = b"".join(line + b"\n" for line in lines if not line.startswith(_OF_PROFILER))
        is_held = rest.startswith(_OF_PROFILER) or (_OF_PROFILER.startswith(rest) and not is_end)
        self._held[is_error] = rest if is_held else b""
        if kept or not is_held:
            self._show(is_error, kept + (b"" if is_held else rest))


def _unheard(line: str) -> None:
    """The command's output is in the log."""


def _unseen(is_error: bool, data: bytes) -> None:
    """The command's output is in the log."""


def _under_nsys(
    command: list[str], environment: dict[str, str], folder: Path, log: Path, timeout_s: float,
    show: Callable[[bool, bytes], None],
) -> State:  # fmt: skip
    done = nsys_profile.profile(command, environment, folder / NSYS_STEM, log, timeout_s, _unheard, False, show)
    state = _judge(done.ended)
    if state["status"] == rundir.OK and done.report is None:
        return {"status": rundir.SKIPPED, "message": "nsys left no report"}
    if state["status"] == rundir.OK and done.exported and not nsys_profile.has_events(done.exported):
        return {"status": rundir.SKIPPED, "message": "nsys recorded neither ranges nor CUDA calls"}
    return state


def _judge(ended: Ended) -> State:
    if ended.code or ended.timed_out:
        message = ended.reason
        is_reason = not ended.last_words or _EXCEPTION.match(ended.last_words)
        if ended.code > 0 and not ended.timed_out and not is_reason:  # it may be a warning at its start
            message = f"it ended with exit code {ended.code}; its last words on stderr: {ended.last_words}"
        return {"status": rundir.FAILED, "message": message, "exit_code": ended.code}
    return {"status": rundir.OK, "message": None}
