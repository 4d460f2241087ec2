"""Edits by hand of a script that collect ran: what each would save, and what came of those that were made."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import rundir
from .analyze.pipeline import analyze
from .analyze.predict import unprofiled
from .collect.improve import edits, loading
from .collect.scripts import command
from .errors import InputError, UsageError
from .improving import is_command
from .reports.answer import step_text
from .sql import literal

COLUMNS = (
    "edit", "write", "framework", "alters", "saving_frac", "at_most_frac", "step_ns", "left_frac", "is_made",
    "is_changed",
)  # fmt: skip
_WORTH_FRAC = 0.01
_GONE_FRAC = 0.25  # of what an edit would have saved so much may be left in a trace that changed there
# in one step alone it is what ran there for the first time
_IS_RECOMPILED = """
    select count(distinct step.step_id) > 1
    from _compiling as compiling
    join _steady_time as steady using (source_id)
    asof join _step as step on step.source_id = compiling.source_id and step.start_ns <= compiling.start_ns
    where compiling.what = 'compiled' and compiling.start_ns between steady.start_ns and steady.end_ns"""
_UNKNOWN = unprofiled.Prediction(None)


@dataclass(frozen=True)
class Edited:
    """The edits as rows, the steps of both runs, and the two scripts where they are not one."""

    rows: list[dict[str, Any]]
    before_ns: float
    after_ns: float
    scripts: tuple[str, ...] = ()


def edited(run: Path, after: Path | None = None) -> Edited:
    """The edits of a command's script with what each would save of a step; with `after` what is left of it there.

    All shares are of a step of `run`. Edits that are made already, or that save next to nothing, are left out. Raises
    InputError without a timing pass or a trace.
    """
    if after is not None and not is_command(after):
        raise UsageError(f"{after} is a run that collect trained, and {run} one of a script: --after takes its like")
    summary = rundir.read_summary(run)
    framework = edits.framework_of(summary.get("frameworks") or ())
    has_gpu = (summary.get("device") or {}).get("type") == "cuda"
    now = None if after is None else _of_script(after, rundir.read_summary(after), has_gpu)
    before = _of_script(run, summary, has_gpu, 0 if now is None else now.seen.worker_cnt or 0)
    rows = []
    for edit in edits.possible(before.seen):
        saving, at_most = before.savings(edit)
        if edit.needs_range and saving is None:
            continue
        if at_most is not None and at_most >= 1:  # recorded steps that are too unlike those without a profiler
            at_most = None
        is_worth = max(saving or 0.0, at_most or 0.0) >= _WORTH_FRAC or (saving is None and at_most is None)
        row: dict[str, Any] = {
            "edit": edit.name, "write": edit.written(framework, before.seen), "framework": framework,
            "alters": edit.alters, "saving_frac": saving, "at_most_frac": at_most, "step_ns": before.step_ns,
        } | _came_of_it(edit, before, now)  # fmt: skip
        if is_worth or row["is_made"]:
            rows.append(row)
    rows.sort(key=_promise)
    return Edited(rows, before.step_ns, (now or before).step_ns, () if after is None else _unlike(run, after))


def _promise(row: dict[str, Any]) -> tuple[int, float]:
    """What is predicted comes before what is only bounded, and that before what nobody knows."""
    if row["saving_frac"] is not None:
        return 0, -row["saving_frac"]
    return (2, 0.0) if row["at_most_frac"] is None else (1, -row["at_most_frac"])


def _unlike(run: Path, after: Path) -> tuple[str, ...]:
    """The scripts of two runs where they are called differently."""
    names = [command.title(rundir.read_manifest(path)["command"]) for path in (run, after)]
    return () if names[0] == names[1] else tuple(names)


@dataclass(frozen=True)
class _Script:
    """A command's run: its step, and what each change would leave of it."""

    step_ns: float  # the median, of very uneven steps the mean
    seen: edits.Seen
    left: dict[str, unprofiled.Prediction]

    def still(self, edit: edits.Edit) -> float:
        """What is left to save by an edit that was made, as far as it is known: its workers may be too few."""
        frac = self.left.get(edit.predicted_by(self.seen), _UNKNOWN).frac
        return 0.0 if frac is None else 1 - frac

    def savings(self, edit: edits.Edit) -> tuple[float | None, float | None]:
        """What an edit would save of the step, and what it saves at most; None where nobody knows."""
        if not edit.is_for(self.seen):
            return 0.0, None
        texts = edit.predicted_by(self.seen), edit.bounded_by(self.seen)
        predicted, bound = (self.left.get(text, _UNKNOWN).frac for text in texts)
        return None if predicted is None else 1 - predicted, None if bound is None else 1 - bound


def _came_of_it(edit: edits.Edit, before: _Script, now: _Script | None) -> dict[str, Any]:
    """Whether an edit was made, as far as that is known, else whether the trace changed there; what is left to save."""
    found: dict[str, Any] = {"left_frac": None, "is_made": None, "is_changed": None}
    if now is None:
        return found
    saving = before.savings(edit)[0]
    found["is_made"] = edit.is_made(before.seen, now.seen)
    if saving is not None and saving >= _WORTH_FRAC:
        # a place that is gone saves nothing more
        found["left_frac"] = now.still(edit) * now.step_ns / before.step_ns
        found["is_changed"] = found["left_frac"] <= _GONE_FRAC * saving
    return found


def _of_script(run: Path, summary: dict[str, Any], has_gpu: bool, made_cnt: int = 0) -> _Script:
    """What a run's script would save; where its loader got `made_cnt` workers later, with these."""
    step = summary.get("step_wall_ns") or {}
    if not step.get("p50") and summary.get("command") == []:
        raise InputError(
            f"{run} has no steps without a profiler: give lorabench.profile() a schedule whose wait leaves some alone, "
            'as schedule={"wait": 5, "warmup": 1, "active": 3}, and call .step() at the end of each'
        )
    if not step.get("p50"):
        raise InputError(f"{run} has no steps of a timing pass; collect it with --profiler timing,torch")
    traces = sorted(run.glob("trace*.json.gz"))
    if (run / "run.sqlite").is_file() and has_gpu:
        traces = [run / "run.sqlite"]
    if not traces:
        raise InputError(f"{run} has no recording to predict from; collect it with --profiler timing,torch")
    has_16bit = has_gpu or summary.get("cpu_has_bfloat16") is not False
    seen = edits.Seen(
        has_gpu, _padding(summary), _micro_step_cnt(summary),
        is_16bit=summary.get("is_16bit"), has_16bit=has_16bit, rank_cnt=len(summary.get("processes") or ()),
    )  # fmt: skip
    seen = _with_loader(seen, summary.get("loader"), made_cnt)
    with analyze([traces[0]]) as database:
        is_there = [
            f"coalesce(bool_or(regexp_matches(text, {literal(p)})), false)" for p in (edits.FUSED, edits.COMPILED)
        ]
        ((is_fused, is_compiled),) = database.rows(f"select {', '.join(is_there)} from name")
        ((adapter_cnt,),) = database.rows("select count(distinct adapter) from _adapter_step")
        ((is_recompiled,),) = database.rows(_IS_RECOMPILED)
        seen = dataclasses.replace(
            seen, is_fused=is_fused, is_compiled=is_compiled, adapter_cnt=adapter_cnt, is_recompiled=is_recompiled
        )
        texts = {text for edit in edits.possible(seen) for text in (edit.predicted_by(seen), edit.bounded_by(seen))}
        asked = sorted(texts - {""})
        found = unprofiled.fractions(database, step["min"], [text.split() for text in asked])
    left = dict(zip(asked, found, strict=True))
    if (loader := summary.get("loader")) and not has_gpu:  # a GPU works while the CPU waits
        left = {text: _of_waiting(prediction, loader, step["min"]) for text, prediction in left.items()}
        load, taken = loading.of_script(loader), _taken(loader)
        # bounded where no core is left for a worker: all that is waited for beyond taking what is there
        frac = load.left(seen.workers, taken) if seen.has_spare_core else load.own + taken
        left[edits.PREFETCH] = unprofiled.Prediction(min(1.0, frac))
    step_ns = step_text.centre_ns({"mean_ns": step.get("mean") or step["p50"], "p50_ns": step["p50"]})
    return _Script(step_ns, seen, left)


def _of_waiting(prediction: unprofiled.Prediction, loader: dict[str, Any], fastest_ns: float) -> unprofiled.Prediction:
    """What is left of a usual step, which waits for input: a change saves of the rest what it saves of the fastest."""
    if prediction.frac is None or not loader.get("own_ns"):
        return prediction
    own_frac = max(0.0, 1 - loader["waited_ns"] / loader["step_ns"])
    saved = (1 - prediction.frac) * fastest_ns / loader["own_ns"]
    return unprofiled.Prediction(1 - min(1.0, saved) * own_frac)


def _with_loader(seen: edits.Seen, loader: dict[str, Any] | None, made_cnt: int) -> edits.Seen:
    """What is known of the loader: the workers that it has, and how many it got or is to get."""
    if not loader:
        return seen
    core_cnt, worker_cnt = int(loader.get("core_cnt") or 0), int(loader["worker_cnt"])
    workers = min(seen.workers, core_cnt or seen.workers)
    if not seen.has_gpu:
        workers = loading.of_script(loader).advised(_taken(loader), core_cnt)
    has_spare = not core_cnt or worker_cnt < core_cnt
    if made_cnt > worker_cnt:
        workers, has_spare = made_cnt, True
    return dataclasses.replace(seen, workers=workers, worker_cnt=worker_cnt, has_spare_core=has_spare)


def _taken(loader: dict[str, Any]) -> float:
    """The part of a step that taking its batches from workers takes."""
    return float(loader["batch_cnt"] * loading.TAKEN_NS / loader["step_ns"])


def _micro_step_cnt(summary: dict[str, Any]) -> int:
    return int(rundir.number_at(summary, "micro_step_cnt") or 0)


def _padding(summary: dict[str, Any]) -> dict[str, float]:
    """What the masks of a script's run told; empty where no mask was seen."""
    places = rundir.STEP_TOKENS, rundir.STEP_REAL_TOKENS, rundir.STEP_LONGEST_TOKENS
    counts = {place[-1]: rundir.number_at(summary, *place) for place in places}
    return {name: count for name, count in counts.items() if count} if all(counts.values()) else {}
