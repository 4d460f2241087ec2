"""Measures by runs of `collect`, each in a folder of its own, and predicts from the recordings of what was kept last.

A measurement that is there already, of exactly these settings, is not made again: so an improvement that was
interrupted goes on where it was, and arrives where it would have.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import rundir
from ...errors import InputError, Interrupted, LorabenchError, RunError
from ...progress import Prefixed, Progress, Silent
from ..run import preflight, session
from ..settings.spec import RunSpec
from . import candidates, measured
from .candidates import TIME, Candidate
from .measured import Failure, Measured
from .rounds import Prediction

TIMING, MEMORY_PASS = "timing", "memory"
_RECORDING = ("nsys", "torch")
_PASSES = "-passes"

Runner = Callable[[RunSpec, Path, bool, Progress], Any]


@dataclass(frozen=True)
class Recorded:
    """A run with recordings: where it is, its settings, its fastest task without a profiler.

    `timing` is the run with these settings that others on the machine disturbed least, `step_ns` its median step.
    """

    path: Path
    spec: RunSpec
    task_ns: float
    step_ns: float
    timing: Path


@dataclass
class Runs:
    """A laboratory: the run to improve, the folder of the others, what is wanted."""

    run: Path
    spec: RunSpec
    folder: Path
    goal: str
    predict_from: Callable[[Recorded, Sequence[Candidate]], list[Prediction]]
    peak_of: Callable[[Path], float | None]
    budget_s: float | None = None
    listener: Progress = field(default_factory=Silent)
    runner: Runner | None = None  # session.collect, unless somebody else runs
    may_run: bool = True  # else only what is there is read
    _recorded: dict[RunSpec, str] = field(default_factory=dict)  # names of what was measured
    _fastest: dict[RunSpec, list[tuple[float, Path]]] = field(default_factory=dict)  # the shortest median step of each

    def measure(self, spec: RunSpec, name: str) -> Measured | Failure:
        """A timing pass with these settings, and a memory pass where memory is what counts."""
        passes = (TIMING,) if self.goal == TIME else (TIMING, MEMORY_PASS)
        asked = dataclasses.replace(without_profiler(spec), profiler=passes)
        path = self.folder / name
        if (failure := self._collected(asked, path)) is not None:
            return failure
        found = measured.of_run(path)
        if isinstance(found, Failure):
            return found
        self._recorded.setdefault(spec, name)  # the first, whose recordings may be there
        self._fastest[spec] = [min([(found.median_ns, path), *self._fastest.get(spec, [])])]
        return found if self.goal == TIME else dataclasses.replace(found, peak_bytes=self.peak_of(path))

    def possible(self, spec: RunSpec) -> list[Candidate]:
        """The changes that apply."""
        summary = rundir.read_summary(self.run)
        has_gpu = (summary.get("device") or {}).get("type") == "cuda"
        dtype = measured.dtype_of(spec.as_dict(), summary)
        return candidates.possible(candidates.Setting(spec, dtype, has_gpu), self.goal)

    def predict(self, spec: RunSpec, wanted: Sequence[Candidate]) -> list[Prediction]:
        """What each would make of a run with these settings, by its recordings; they are made where there are none."""
        try:
            return self.predict_from(self.recorded(spec), wanted)
        except (InputError, RunError) as error:  # a trace that is damaged, a run that fails
            return [Prediction(note=str(error))] * len(wanted)

    def recorded(self, spec: RunSpec) -> Recorded:
        """A run with these settings and recordings: the one to improve, or one that is made. Raises RunError."""
        passes = self._passes()
        if spec == self.spec and {TIMING, *passes} <= set(self.spec.profiler):
            return self._read(self.run, spec)
        if not self.may_run:
            raise RunError(
                f"{self.run} has no recording to predict from; collect it with --profiler {','.join(passes)}"
            )
        name = self._recorded[spec]
        path = self.folder / f"{name}{_PASSES}"
        failure = self._collected(dataclasses.replace(spec, profiler=(TIMING, *passes)), path)
        if failure is not None:
            raise RunError(failure.message)
        return self._read(path, spec)

    def _read(self, path: Path, spec: RunSpec) -> Recorded:
        found = measured.of_run(path)
        runs = [(found.median_ns, path)] if isinstance(found, Measured) else []
        step_ns, timing = min([*runs, *self._fastest.get(spec, [])], default=(0.0, path))
        return Recorded(path, spec, measured.fastest_task(path), step_ns, timing)

    def _passes(self) -> tuple[str, ...]:
        """What predictions are made from: what the run was recorded with, and memory where that counts."""
        recording = tuple(name for name in self.spec.profiler if name in _RECORDING) or ("torch",)
        return recording if self.goal == TIME else (*recording, MEMORY_PASS)

    def is_spent(self) -> bool:
        """Whether another measurement as long as the last would go beyond the budget."""
        if self.budget_s is None:
            return False
        walls = [self._wall_s(self.folder / name) for name in self._recorded.values()]
        return self.spent_s() + max(walls, default=0.0) > self.budget_s

    def spent_s(self) -> float:
        """How long all runs in the folder took, those of an interrupted improvement included."""
        return sum(self._wall_s(path.parent) for path in self.folder.glob(f"*/{rundir.MANIFEST}"))

    def _wall_s(self, path: Path) -> float:
        with contextlib.suppress(InputError):
            return float(sum((rundir.read_summary(path).get("pass_wall_s") or {}).values()))
        return 0.0

    def _collected(self, spec: RunSpec, path: Path) -> Failure | None:
        """Make a run unless it is there; why it did not end well."""
        if not _is_finished(path, spec):
            try:
                preflight.check([spec])
                (self.runner or session.collect)(spec, path, path.exists(), Prefixed(self.listener, path.name))
            except RunError:
                pass  # the manifest says how it ended
            except Interrupted:  # of the user, not of this run
                raise
            except LorabenchError as error:
                if not (path / rundir.MANIFEST).is_file():
                    return Failure(rundir.FAILED, str(error))
                raise
        manifest = rundir.read_manifest(path)
        if manifest["status"] == rundir.OK:
            return None
        return Failure(manifest["status"], str(manifest["message"]))


def _is_finished(path: Path, spec: RunSpec) -> bool:
    """Whether a run of exactly this spec is there and came to an end, good or bad."""
    try:
        manifest = rundir.read_manifest(path)
    except InputError:
        return False
    ends = (rundir.OK, rundir.OOM, rundir.FAILED)
    return spec.with_whole_cycle().is_written_as(manifest.get("spec")) and manifest.get("status") in ends


def without_profiler(spec: RunSpec) -> RunSpec:
    """The settings with a timing pass alone, for which those of torch.profiler mean nothing."""
    plain: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(RunSpec) if f.name in OF_TORCH}
    return dataclasses.replace(spec, profiler=(TIMING,), **plain)


OF_TORCH = ("wait_steps", "warmup_steps", "active_steps", "repeat", "profiling_frequency", "profiler_step",
             "with_stack", "with_shapes")  # fmt: skip
