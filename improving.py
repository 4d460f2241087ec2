"""Improves a run: collect measures, analyze predicts, and this brings them together."""

import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import rundir
from .analyze.pipeline import analyze
from .analyze.predict import peaks, unprofiled
from .collect.improve import loading, measured, memory_model, rounds, shown
from .collect.improve.candidates import TIME, Candidate
from .collect.improve.laboratory import OF_TORCH, Recorded, Runs, without_profiler
from .collect.improve.measured import Failure, Measured
from .collect.improve.memory_model import Peak
from .collect.improve.rounds import Asked, Course, Prediction, Row
from .collect.improve.shown import Shown
from .collect.settings import parallelism
from .collect.settings.spec import RunSpec, from_dict
from .errors import InputError, OutputError, RunError, UsageError
from .progress import Progress, Silent

STATE = "improve.json"
_OF_ROUND = re.compile(r"\d\d-")  # what folders of runs begin with
_LEAST_STEPS = 3
_UNKNOWN = unprofiled.Prediction(None)


def spec_of(run: Path) -> RunSpec:
    """The settings of a run that collect trained. Raises InputError, UsageError for one that cannot be improved."""
    manifest = rundir.read_manifest(run)
    if "spec" not in manifest:
        raise InputError(f"{run} is a run of a command, whose settings lorabench cannot change")
    timing = manifest.get("passes", {}).get("timing")
    if timing is not None and timing["status"] != rundir.OK:
        raise InputError(
            f"{run} has no whole timing pass to start from: it is {timing['status']} ({timing['message']}); "
            "collect it again"
        )
    spec = from_dict(manifest["spec"])
    if spec.epochs:
        raise UsageError("improve counts steps; runs in epochs (--task sst2) were not tried with it")
    if spec.parallel != parallelism.NONE:
        raise UsageError("improve was not tried with runs on several devices (--parallel)")
    if spec.steps < _LEAST_STEPS:
        raise UsageError(
            f"{run} measured {spec.steps} steps, of which no spread is known; collect it with --steps 5 or more"
        )
    return spec


def is_command(run: Path) -> bool:
    """Whether a run is of somebody's own command. Raises InputError for what is no directory."""
    if not run.is_dir():
        what = "is a file" if run.exists() else "is not there"
        raise InputError(f"{run} {what}; improve takes a run directory of `lorabench collect`")
    return "command" in rundir.read_manifest(run) and "spec" not in rundir.read_manifest(run)


@dataclass(frozen=True)
class Plan:
    """What `lorabench improve` was asked for."""

    run: Path
    folder: Path
    asked: Asked
    budget_s: float | None = None
    memory_bytes: float | None = None  # what adapters have to fit into
    workers: int | None = None  # to predict so many of the loader, instead of as many as it needs
    is_forced: bool = False  # measure again what the folder holds


def laboratory(plan: Plan, listener: Progress) -> Runs:
    """What measures and predicts."""
    goal = plan.asked.goal
    predict = predictor(plan.workers)
    return Runs(plan.run, spec_of(plan.run), plan.folder, goal, predict, peak_bytes, plan.budget_s, listener)


def improve(plan: Plan, listener: Progress) -> tuple[Course, Shown | None]:
    """Make rounds; the folder holds what was measured and asked. Raises UsageError where it holds something else."""
    lab = laboratory(plan, listener)
    about = {"goal": plan.asked.goal, "allow_numerics": plan.asked.allow_numerics}
    is_cleared = plan.is_forced and (plan.folder / STATE).is_file()
    if is_cleared:
        _clear(plan)
    _begin(plan.folder, about, lab.spec, is_cleared)
    course = rounds.improve(lab.spec, plan.asked, lab)
    winner = _winner(lab, course)
    peak = None if winner is None or plan.asked.goal == TIME else peak_of(winner)
    return course, shown.show(course, plan.asked.goal, peak, lab, plan.memory_bytes)


def _winner(lab: Runs, course: Course) -> Path | None:
    """The run with all passes of the settings that won; None where it fails."""
    try:
        return lab.recorded(course.spec).path
    except RunError:
        return None


def outlook(plan: Plan, listener: Progress) -> tuple[Measured, list[Row]]:
    """What the run measured and what each change is predicted to make of it; nothing is run."""
    lab = laboratory(plan, listener)
    lab.may_run = False
    now = measured.of_run(plan.run)
    if isinstance(now, Failure):
        raise InputError(f"{plan.run} did not end well: {now.message}")
    if plan.asked.goal != TIME:
        now = dataclasses.replace(now, peak_bytes=peak_bytes(plan.run))
    return now, rounds.outlook(lab.spec, now, plan.asked, lab, set())


_RESULTS = (STATE, "improve.csv", "improve.html", "run.toml")


def _clear(plan: Plan) -> None:
    """Remove what an improvement left in its folder, and nothing else. Raises UsageError where its run is in it."""
    if plan.folder.resolve() in plan.run.resolve().parents:
        raise UsageError(f"--force: {plan.run} lies in {plan.folder}, which would be removed; choose another -o")
    try:
        for path in plan.folder.iterdir():
            if _OF_ROUND.match(path.name) and (path / rundir.MANIFEST).is_file():
                shutil.rmtree(path)
        for name in _RESULTS:
            (plan.folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot clear {plan.folder}: {error.strerror}") from error


def _begin(folder: Path, about: dict[str, Any], spec: RunSpec, is_cleared: bool) -> None:
    """Note what the folder is for, or find that it is for this."""
    path = folder / STATE
    if path.is_file():
        try:
            known = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged: {str(error)[:200]}") from error
        if {key: known.get(key) for key in about} != about or not spec.is_written_as(known.get("spec")):
            numerics = " --allow-numerics" if known.get("allow_numerics") else ""
            what = (
                f"--goal {known.get('goal')}{numerics}" if spec.is_written_as(known.get("spec")) else "of another run"
            )
            raise UsageError(
                f"{folder} holds another improvement ({what}); choose another -o, or replace it with --force"
            )
        return
    if folder.exists() and not is_cleared and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an improvement; choose another -o")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({"format": rundir.FORMAT, **about, "spec": spec.as_dict()}, indent=2) + "\n", encoding="utf-8"
        )
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def predictor(workers: int | None = None) -> Callable[[Recorded, Sequence[Candidate]], list[Prediction]]:
    """What predicts from a run's recordings: steps by replay, memory by what its peak is made of.

    `workers` are as many as a loader is to have, instead of as many as it needs.
    """

    def predict(recorded: Recorded, candidates: Sequence[Candidate]) -> list[Prediction]:
        steps, spec = _steps(recorded, candidates), recorded.spec
        has_memory = any(recorded.path.glob(rundir.MEMORY_TRACES))
        peak = peak_of(recorded.path) if has_memory else None
        found = []
        for candidate in candidates:
            by_replay = steps.get(candidate.predicted_by, _UNKNOWN)
            bound = steps.get(candidate.bounded_by, _UNKNOWN)
            more = None if peak is None else memory_model.more_bytes(candidate.memory, peak, spec)
            found.append(Prediction(by_replay.frac, bound.frac, more, by_replay.why))
        replayed = steps.get("prefetch={data}", _UNKNOWN).frac
        summary = rundir.read_summary(recorded.timing)
        found = [_bounded(p, c, summary) for p, c in zip(found, candidates, strict=True)]
        load = loading.measured(summary, spec.loader_workers, recorded.step_ns, replayed)
        if load is None or not recorded.task_ns:
            return found
        taken = loading.TAKEN_NS * max(spec.grad_accum) / recorded.task_ns
        both = zip(candidates, found, strict=True)
        return [_fed(p, load) if not c.is_loading else _loaded(load, taken, workers) for c, p in both]

    return predict


def _bounded(prediction: Prediction, candidate: Candidate, summary: dict[str, Any]) -> Prediction:
    """A bound by what the optimizer takes, without a GPU as the timing pass measured it.

    A profiler makes a CPU's steps several times as long, and not all of it alike.
    """
    part = summary.get("optimizer_frac")
    if candidate.bounded_by != "skip=optimizer" or part is None or _has_gpu(summary):
        return prediction
    return dataclasses.replace(prediction, bound_frac=1 - part)


def _has_gpu(summary: dict[str, Any]) -> bool:
    return (summary.get("device") or {}).get("type") == "cuda"


def _loaded(load: loading.Input, taken: float, workers: int | None) -> Prediction:
    """The prediction of more workers of the loader."""
    count = workers or load.needed(taken)
    name = f"{count} loader worker{'s' if count > 1 else ''}"
    return Prediction(load.left(count, taken), settings={"loader_workers": count}, name=name)


def _fed(prediction: Prediction, load: loading.Input) -> Prediction:
    """A prediction of a step that needs no more input than the loader's workers make."""
    frac, bound = prediction.step_frac, prediction.bound_frac
    return dataclasses.replace(
        prediction, step_frac=None if frac is None else max(frac, load.least),
        bound_frac=None if bound is None else max(bound, load.least),
    )  # fmt: skip


def _steps(recorded: Recorded, candidates: Sequence[Candidate]) -> dict[str, unprofiled.Prediction]:
    """What each change that a trace can be asked for makes of the step."""
    asked = sorted({text for c in candidates for text in (c.predicted_by, c.bounded_by) if text})
    has_gpu = _has_gpu(rundir.read_summary(recorded.path))
    names = _TRACES if has_gpu else _TRACES[1:]  # nsys sees no operators, of which a CPU's time is
    trace = next((recorded.path / name for name in names if (recorded.path / name).is_file()), None)
    if trace is None or not asked:
        return {}
    return _left(trace, recorded.task_ns, asked)


def _left(trace: Path, step_ns: float, asked: Sequence[str]) -> dict[str, unprofiled.Prediction]:
    """What is left of a step with each of these: changes made together, with spaces between them."""
    with analyze([trace]) as database:
        found = unprofiled.fractions(database, step_ns, [text.split() for text in asked])
    return dict(zip(asked, found, strict=True))


_TRACES = ("run.sqlite", "trace.json.gz")


def peak_bytes(run: Path) -> float | None:
    """The peak of memory in a run's memory pass."""
    found = peak_of(run)
    return None if found is None else found.total


def peak_of(run: Path) -> Peak | None:
    """What is live at the peak of a run's memory pass; None without one."""
    traces = sorted(run.glob(rundir.MEMORY_TRACES))
    if not traces:
        return None
    with analyze([traces[0]]) as database:
        found = peaks.peak(database)
    return None if found is None else Peak(**found)


def compared(run: Path, after: Path) -> tuple[Measured, list[Row]]:
    """What was predicted from a run of the settings that another one has, beside what that measured.

    Raises UsageError where their settings differ by no change that is known, or where the work differs.
    """
    first, other = spec_of(run), spec_of(after)
    plain = [dataclasses.replace(without_profiler(spec), timeout_s=1) for spec in (first, other)]
    differing = {f.name for f in dataclasses.fields(RunSpec) if getattr(plain[0], f.name) != getattr(plain[1], f.name)}
    plan = Plan(run, run, Asked(TIME, 1, True), workers=other.loader_workers)
    now, rows = outlook(plan, Silent())
    row = next((row for row in rows if set(row.settings) >= differing and _makes(first, row, other)), None)
    if row is None:
        named = ", ".join(sorted(differing)).replace("_", "-") or "nothing"
        raise UsageError(f"{after} differs from {run} by {named}: no change that is predicted")
    found = measured.of_run(after)
    if isinstance(found, Failure):
        row.verdict, row.why = rounds.FAILED, found.message
    else:
        row.measured, row.round = found, 1
        row.verdict, row.why = rounds.judged(now, found, plan.asked, row.alters)
    return now, [row]


def _makes(first: RunSpec, row: Row, other: RunSpec) -> bool:
    changed = rounds.changed(first, row)
    return all(
        getattr(changed, f.name) == getattr(other, f.name) for f in dataclasses.fields(RunSpec)
        if f.name not in ("profiler", "timeout_s", *OF_TORCH)
    )  # fmt: skip
