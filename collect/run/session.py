"""From a spec to a finished run directory: one pass after another, whatever happens to them."""

import json
import time
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import OutputError, ToolError
from ...progress import Progress, Silent
from ..processes import nsys_profile, provenance
from ..processes.supervision import Ended, run
from ..settings import parallelism
from ..settings.spec import RunSpec
from ..settings.tasks import SFT, SST2
from . import child, epoch_report, kept_steps, preflight, stats, summary, trackers
from .passes import NSYS_STEM, Passes, State, into_directory


def collect(spec: RunSpec, path: Path, force: bool = False, listener: Progress | None = None) -> dict[str, Any]:
    """Run all passes of a spec and leave the run directory `path`; returns its manifest.

    Raises what passes.into_directory() raises.
    """
    preflight.require_packages()
    spec = spec.with_whole_cycle()
    listener = listener or Silent()
    reports = epoch_report.place(spec, path, force) if spec.task == SST2 else None

    kept: dict[str, dict[str, Any]] = {}  # by pass, of those that came to no end
    rank_cnt = None if spec.parallel == parallelism.NONE else spec.devices

    def run_pass(name: str, folder: Path) -> tuple[State, dict[str, Any] | None]:
        result = None
        try:
            state, result = _run_pass(child.Request(spec, name, folder, None), listener)
        finally:  # also when it is interrupted
            steps = kept_steps.take(folder, name, rank_cnt)
            if result is None and steps is not None:
                kept[name] = steps
        return state, result

    def describe(directory: rundir.RunDirectory, passes: Passes) -> dict[str, Any]:
        return _describe(spec, directory, passes, kept)

    try:
        manifest = into_directory(path, force, spec.profiler, listener, _iteration_cnt(spec), run_pass, describe)
    except OSError as error:  # a full disk, most of all
        raise OutputError(
            f"cannot write the run {path}: {error.strerror or error}; make room, or another -o"
        ) from error
    if reports is not None:
        _report(path, reports, spec)
    return manifest


def _report(path: Path, reports: Path, spec: RunSpec) -> None:
    """What a finished run leaves besides. Raises OutputError; the run is whole anyway."""
    try:
        epoch_report.write(path, reports)
    except OSError as error:
        raise OutputError(
            f"the run is in {path}, but its report {reports} cannot be written: {error.strerror or error}; make room, "
            "or move what is in its place"
        ) from error
    trackers.tell(path, reports, spec)


def _iteration_cnt(spec: RunSpec) -> int | None:
    """Steps of a pass; None where only the data say how many there are."""
    if spec.epochs:
        return None
    return spec.steps * (spec.lora_cnt if spec.peft_mode in ("seq", "process") else 1)


def _run_pass(request: child.Request, listener: Progress) -> tuple[State, dict[str, Any] | None]:
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
    has_capture = _uses_gpu(spec) and spec.peft_mode != "process" and spec.parallel == parallelism.NONE
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


def _judge(ended: Ended, result: dict[str, Any] | None, note: str | None) -> tuple[State, dict[str, Any] | None]:
    if result is None:
        return {"status": rundir.FAILED, "message": ended.reason}, None
    if result["status"] != rundir.OK:
        state = {"status": result["status"], "message": result["message"]}
        return state, result if "steps" in result else None  # a run that diverged has measured something
    if note is not None:
        return {"status": rundir.SKIPPED, "message": note}, result
    return {"status": rundir.OK, "message": None}, result


def _describe(
    spec: RunSpec, directory: rundir.RunDirectory, passes: Passes, kept: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Write what was measured; returns what the manifest says of the run."""
    for left in directory.partial.glob(".re*-*.json"):
        left.unlink()
    if passes.results or kept:
        (directory.partial / rundir.STEPS).write_text(summary.steps_csv(passes.results | kept), encoding="utf-8")
    if passes.results:
        ranges = {n: r for n, r in passes.results.items() if n in ("torch", "nsys")}
        (directory.partial / rundir.RANGES).write_text(summary.ranges_csv(ranges), encoding="utf-8")
    timing = passes.results.get("timing", {})
    if timing.get("epochs"):
        (directory.partial / rundir.EPOCHS).write_text(summary.epochs_csv(timing["epochs"]), encoding="utf-8")
    if timing and spec.trainer == SFT:
        directory.write_json(rundir.STATS, stats.of(spec, timing))
    directory.write_json(rundir.SUMMARY, summary.summarise(spec, passes.results, passes.walls))
    return {
        "spec": spec.as_dict(),
        "provenance": {
            **provenance.of_run(passes.started),
            "device": next((r["device"] for r in passes.results.values()), None),
            "seed": spec.seed,
        },
    }


def default_path(title: str) -> Path:
    """Where a run goes when nobody says: a new folder under lorabench-runs, named by time and by what runs."""
    return Path("lorabench-runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{title}"
