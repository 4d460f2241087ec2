"""`with lorabench.profile("run"):` records a part of a script with torch.profiler and leaves a run directory.

Without a schedule all that is inside is recorded. With one the steps that it leaves alone are timed: no profiler is
attached there, so that the run directory has both, and what the profiler costs.

Under `lorabench collect -- COMMAND` it does nothing: each pass records the process already, by the hook.
"""

import atexit
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from ... import rundir
from ...errors import UsageError
from ..processes import provenance
from . import measured
from .gathered import Step
from .hook import start

_HOOK = "_lorabench.collect.scripts.hook.start"  # loaded where `lorabench collect --` records this process
_ASIDE = (
    "lorabench: lorabench.profile({path!r}) records nothing and writes no folder here: `lorabench collect` records "
    "the process\n"
)
_IDLE, _RECORDING = "timing", "torch"  # the passes that steps count as
Schedule = Callable[[int], Any]
_open: "list[Profiling]" = []  # the one of this process


class Profiling:
    """What lorabench.profile() returns; see there."""

    def __init__(
        self, path: Path, schedule: "Schedule | dict[str, int] | None" = None, model: Any = None,
        memory: bool = False, stacks: bool = False, force: bool = False,
    ):  # fmt: skip
        self.path = path
        self._schedule = _made(schedule) if isinstance(schedule, dict) else schedule
        self._model, self._memory, self._stacks, self._force = model, memory, stacks, force
        self._rank, self._world = _rank()
        self._steps: dict[str, list[Step]] = {_IDLE: [], _RECORDING: []}
        self._traces: list[Path] = []
        self._number = 0
        self._is_open = False
        self._is_aside = _HOOK in sys.modules
        self._annotation: Any = None

    def __enter__(self) -> "Profiling":
        if self._is_open:
            raise UsageError("this lorabench.profile() is open already; make another one")
        if _open:
            raise UsageError(f"a lorabench.profile() to {_open[0].path} is open, and torch has one profiler at a time")
        if self._is_aside:
            self._step_aside()
        else:
            self._begin()
        self._is_open = True
        _open.append(self)
        atexit.register(self._close_at_exit)
        self._began_ns = time.perf_counter_ns()
        return self

    @property
    def is_aside(self) -> bool:
        """Whether `lorabench collect` records this process, so that nothing is done here."""
        return self._is_aside

    def _step_aside(self) -> None:
        """Leave the recording to the hook, and ranges too unless the script opens its own."""
        if self._rank == 0:
            sys.stderr.write(_ASIDE.format(path=str(self.path)))
        if start.OWN_SPANS in sys.modules:
            self._annotate()
        else:
            sys.modules[_HOOK].imports[0].call(start.OWN_SPANS, lambda _: self._annotate() if self._is_open else None)

    def _annotate(self) -> None:
        if self._model is not None:
            from ..instruments.ranges import annotate

            self._annotation = annotate(self._model)

    def _begin(self) -> None:
        self._started = provenance.now()
        if self._rank == 0:
            self._directory = rundir.RunDirectory(self.path, self._force, ("path", "force=True"))
            self._folder = self._directory.partial
        else:
            self._folder = self.path.with_name(f".{self.path.name}.rank{self._rank}")
            self._folder.mkdir(parents=True, exist_ok=True)
        self._annotate()
        self._profiler: Any = torch.profiler.profile(
            schedule=self._schedule, on_trace_ready=self._keep, record_shapes=True, profile_memory=self._memory,
            with_stack=self._stacks, acc_events=True,
            experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True) if self._stacks else None,
        )  # fmt: skip
        self._profiler.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(_words(error))

    def _close_at_exit(self) -> None:
        """When the process ends while this is open, as in a callback whose training failed."""
        self.close(_words(getattr(sys, "last_value", None)))  # the exception that nobody caught

    def step(self) -> None:
        """Call at the end of each training step: it counts, and the schedule goes on."""
        if self._is_aside:
            return
        now = time.perf_counter_ns()
        name = self._pass_of(self._number)
        if name is not None:
            self._steps[name].append(Step(self._began_ns, now - self._began_ns, 0, number=self._number))
        self._number += 1
        if self._schedule is not None:
            self._profiler.step()
        self._began_ns = time.perf_counter_ns()

    def _pass_of(self, number: int) -> str | None:
        """Which pass a step counts as; None for warm-up of the profiler."""
        if self._schedule is None:
            return _RECORDING
        action = self._schedule(number)
        if action is torch.profiler.ProfilerAction.NONE:
            return _IDLE
        return None if action is torch.profiler.ProfilerAction.WARMUP else _RECORDING

    def _keep(self, profiler: Any) -> None:
        rank = f"-rank{self._rank}" if self._world > 1 else ""
        cycle = f"-{len(self._traces) + 1}" if self._schedule is not None else ""
        path = self._folder / f"{'memory' if self._memory else 'trace'}{rank}{cycle}.json.gz"
        profiler.export_chrome_trace(str(path))
        self._traces.append(path)

    def close(self, error: str | None = None) -> None:
        """Write the run directory, unless it was written; at the latest when the process ends."""
        if not self._is_open:
            return
        self._is_open = False
        _open.remove(self)
        atexit.unregister(self._close_at_exit)
        try:
            if not self._is_aside:
                self._profiler.__exit__(None, None, None)
        finally:
            if self._annotation is not None:
                self._annotation.remove()
            if not self._is_aside:
                self._finish(error)

    def _finish(self, error: str | None) -> None:
        """Rank 0 takes the traces of the others, once they are written; after an error it does not wait for them."""
        if self._world > 1 and error is None and torch.distributed.is_initialized():
            torch.distributed.barrier()
        if self._rank != 0:
            return
        for other in range(1, self._world):
            folder = self.path.with_name(f".{self.path.name}.rank{other}")
            if folder.is_dir():
                for path in folder.iterdir():
                    path.rename(self._folder / path.name)
                folder.rmdir()
        self._describe(error)

    def _describe(self, error: str | None) -> None:
        state: dict[str, Any] = {"status": rundir.OK if error is None else rundir.FAILED, "message": error}
        if not self._traces and error is None:
            said = "the schedule recorded no step; call .step() at the end of each, and train for more of them"
            state = {"status": rundir.SKIPPED, "message": said}
            warnings.warn(f"{self.path}: {said}", stacklevel=2)
        device = {"type": "cuda" if torch.cuda.is_initialized() else "cpu"}
        results = {
            name: {"steps": steps, "device": device, "memory": {}, "processes": []}
            for name, steps in self._steps.items()
            if steps
        }
        if text := measured.steps_csv(results):
            (self._directory.partial / rundir.STEPS).write_text(text, encoding="utf-8")
        self._directory.write_json(rundir.SUMMARY, measured.summarise([], results, {}))
        self._directory.finish(
            {
                "status": rundir.OK if error is None else rundir.FAILED, "message": error,
                "passes": {"memory" if self._memory else "torch": state}, "command": [],
                "provenance": provenance.of_run(self._started),
            }
        )  # fmt: skip


def _made(schedule: dict[str, int]) -> Schedule:
    try:
        made: Schedule = torch.profiler.schedule(**schedule)
    except (TypeError, AssertionError, ValueError) as error:
        raise UsageError(
            f"schedule {schedule}: {error}; as torch.profiler.schedule: wait, warmup and active, repeat, skip_first"
        ) from error
    return made


def _words(error: BaseException | None) -> str | None:
    return f"{type(error).__name__}: {error}".splitlines()[0] if error is not None else None


def _rank() -> tuple[int, int]:
    """This process's rank and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
