"""From a spec to a finished run directory: one pass after another, whatever happens to them."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import Interrupted, RunError, ToolError
from ...progress import Progress, Silent
from ...vocabulary import PASSES
from ..processes import nsys_profile, provenance
from ..processes.supervision import Ended, run
from ..settings.spec import RunSpec
from . import child, preflight, summary

NSYS_STEM = "run"


@dataclass
class Passes:
    """How the passes of a run went, and what those that went well measured."""

    started: str
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    walls: dict[str, float] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """The worst of them."""
        found = [s["status"] for s in self.states.values()]
        return next((s for s in (rundir.CANCELLED, rundir.OOM, rundir.FAILED) if s in found), rundir.OK)

    @property
    def message(self) -> str | None:
        """The words of the first pass that did not go well."""
        fine = (rundir.OK, rundir.SKIPPED)
        return next((f"pass {n}: {s['message']}" for n, s in self.states.items() if s["status"] not in fine), None)


def collect(spec: RunSpec, path: Path, force: bool = False, listener: Progress | None = None) -> dict[str, Any]:
    """Run all passes of a spec and leave the run directory `path`; returns its manifest.

    Raises UsageError when the directory exists, RunError when a pass failed or ran out of memory, and
    Interrupted: the directory is finished in all of these cases but the first, and says how it ended.
    """
    preflight.require_packages()
    spec = spec.with_whole_cycle()
    directory = rundir.RunDirectory(path, force)
    passes = Passes(started=provenance.now())
    try:
        _run_passes(spec, directory.partial, passes, listener or Silent())
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; what was measured is in {path}") from error
    finally:
        manifest = _finish(spec, directory, passes)
    if passes.status != rundir.OK:
        raise RunError(f"{passes.message}; the run is kept in {path}, its output in {path / rundir.LOGS}")
    return manifest


def _run_passes(spec: RunSpec, folder: Path, passes: Passes, listener: Progress) -> None:
    """Each pass in turn until one fails; when memory ran out the memory pass is still run, to say what it went into."""
    for name in sorted(spec.profiler, key=PASSES.index):
        if passes.status != rundir.OK and (passes.status, name) != (rundir.OOM, "memory"):
            continue
        listener.step(f"pass {name}", _iteration_cnt(spec))
        start = time.monotonic()
        passes.states[name] = {"status": rundir.CANCELLED, "message": "interrupted"}  # unless it comes to an end
        state, result = _run_pass(child.Request(spec, name, folder, None), listener)
        passes.walls[name] = round(time.monotonic() - start, 3)
        passes.states[name] = state
        if result is not None:
            passes.results[name] = result


def _iteration_cnt(spec: RunSpec) -> int:
    return spec.steps * (spec.lora_cnt if spec.peft_mode in ("seq", "process") else 1)


def _run_pass(request: child.Request, listener: Progress) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """How one pass ended, and its result when it ended well."""
    log = request.folder / rundir.LOGS / f"{request.pass_name}.log"

    def heard(line: str) -> None:
        if line.startswith("lorabench: step"):
            listener.advance(1)

    command = child.command(request)
    environment = provenance.environment(request.pass_name == "nsys")
    note: str | None = None
    try:
        if request.pass_name == "nsys":
            ended, note = _under_nsys(request, command, environment, log, heard)
        else:
            ended = run(command, environment, log, request.spec.timeout_s, heard)
    except ToolError as error:
        if request.pass_name == "nsys":
            return {"status": rundir.SKIPPED, "message": str(error)}, _take_result(request)
        return {"status": rundir.FAILED, "message": str(error)}, None
    finally:
        request.path.unlink(missing_ok=True)
    return _judge(ended, _take_result(request), note)


def _under_nsys(
    request: child.Request, command: list[str], environment: dict[str, str], log: Path, heard: Any
) -> tuple[Ended, str | None]:
    spec = request.spec
    # several processes would each begin and end the one capture
    has_capture = _uses_gpu(spec) and spec.peft_mode != "process"
    done = nsys_profile.profile(
        command, environment, request.folder / NSYS_STEM, log, spec.timeout_s, heard, has_capture
    )
    return done.ended, None if done.report else "nsys left no report"


def _uses_gpu(spec: RunSpec) -> bool:
    """Whether the run will use a GPU, without loading torch here."""
    return spec.device != "cpu" and (spec.device.startswith("cuda") or provenance.driver() is not None)


def _take_result(request: child.Request) -> dict[str, Any] | None:
    try:
        result: dict[str, Any] = json.loads(request.result_path.read_text("utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    request.result_path.unlink()
    return result


def _judge(
    ended: Ended, result: dict[str, Any] | None, note: str | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    if result is None:
        return {"status": rundir.FAILED, "message": ended.reason}, None
    if result["status"] != rundir.OK:
        return {"status": result["status"], "message": result["message"]}, None
    if note is not None:
        return {"status": rundir.SKIPPED, "message": note}, result
    return {"status": rundir.OK, "message": None}, result


def _finish(spec: RunSpec, directory: rundir.RunDirectory, passes: Passes) -> dict[str, Any]:
    """Write what is known and give the directory its name."""
    for left in directory.partial.glob(".re*-*.json"):
        left.unlink()
    if passes.results:
        (directory.partial / rundir.STEPS).write_text(summary.steps_csv(passes.results), encoding="utf-8")
        ranges = {n: r for n, r in passes.results.items() if n in ("torch", "nsys")}
        (directory.partial / rundir.RANGES).write_text(summary.ranges_csv(ranges), encoding="utf-8")
    directory.write_json(rundir.SUMMARY, summary.summarise(spec, passes.results, passes.walls))
    manifest = {
        "status": passes.status,
        "message": passes.message,
        "spec": spec.as_dict(),
        "passes": passes.states,
        "provenance": {
            **provenance.of_run(passes.started),
            "device": next((r["device"] for r in passes.results.values()), None),
            "seed": spec.seed,
        },
    }
    directory.finish(manifest)
    return manifest


def default_path(title: str) -> Path:
    """Where a run goes when nobody says: a new folder under lorabench-runs, named by time and by what runs."""
    return Path("lorabench-runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{title}"
