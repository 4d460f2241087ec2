"""One pass of a run in a process of its own: what nsys wraps, and what may die without taking the session along.

    python -m lorabench.collect.run.child REQUEST.json

The request holds the spec, the pass and where to leave things; the result is a JSON file beside it. Lines that begin
with "lorabench: " on stdout tell the session how far it is. In process mode the pass starts a worker for each adapter,
with --parallel for each rank, and lets all begin their measured steps together.
"""

import errno
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import modules, rundir
from ...errors import LorabenchError, UsageError
from ..processes.rank_environment import environment
from ..settings import parallelism
from ..settings.spec import RunSpec, from_dict
from . import kept_steps, packages, rank_results, workers

READY, GO = "lorabench: ready", "go"
_OF_DEVICE = ("device_used_bytes", "nvml_used_bytes")  # by whatever process
_PATIENCE_S = 5  # for ranks to write what they recorded when another has died


@dataclass(frozen=True)
class Request:
    """What a child is asked to do."""

    spec: RunSpec
    pass_name: str
    folder: Path
    worker: int | None  # in process mode the adapter, with --parallel the rank; None for who starts these

    @property
    def suffix(self) -> str:
        """Between a file's name and its ending, so that workers do not write the same file."""
        return "" if self.worker is None else f"-{self.who}"

    @property
    def is_rank(self) -> bool:
        """Whether it is one of several processes that train together."""
        return self.spec.parallel != parallelism.NONE

    @property
    def who(self) -> str:
        """Which of several processes it is for."""
        return f"{'rank' if self.is_rank else 'adapter_'}{self.worker}"

    @property
    def meeting(self) -> Path:
        """The file by which ranks find each other."""
        return self.folder / f".meeting-{self.pass_name}"

    @property
    def result_path(self) -> Path:
        """Where the result goes."""
        return self.folder / f".result-{self.pass_name}{self.suffix}.json"

    @property
    def path(self) -> Path:
        """Where the request itself lies."""
        return self.folder / f".request-{self.pass_name}{self.suffix}.json"

    def save(self) -> Path:
        """Write the request for the child."""
        values = {
            "spec": self.spec.as_dict(), "pass": self.pass_name, "folder": str(self.folder), "worker": self.worker
        }  # fmt: skip
        self.path.write_text(json.dumps(values), encoding="utf-8")
        return self.path

    @classmethod
    def load(cls, path: Path) -> "Request":
        """Read it in the child."""
        values = json.loads(path.read_text("utf-8"))
        return cls(from_dict(values["spec"]), values["pass"], Path(values["folder"]), values["worker"])


def command(request: Request) -> list[str]:
    """The command line of a child."""
    return modules.command("lorabench.collect.run.child", str(request.save()))


def main() -> None:
    """Run one pass, write its result; the exit code is 0 when the result says ok."""
    request = Request.load(Path(sys.argv[1]))
    try:
        result = _launch_workers(request) if _is_parent(request) else _measure(request)
        diverged = result["diverged"]
        result |= {"status": rundir.FAILED, "message": diverged} if diverged else {"status": rundir.OK}
    except Exception as error:
        result = {"status": rundir.OOM if _is_out_of_memory(error) else rundir.FAILED, "message": _message(error)}
        if not isinstance(error, LorabenchError) and not _is_unwritable(error):
            traceback.print_exc()
    try:
        request.result_path.write_text(json.dumps(result), encoding="utf-8")
    except OSError as error:
        sys.exit(_message(error))  # without "lorabench: ", which only says how far it is
    sys.exit(0 if result["status"] == rundir.OK else 1)


def _is_parent(request: Request) -> bool:
    return request.worker is None and (request.is_rank or request.spec.peft_mode == "process")


def _is_out_of_memory(error: Exception) -> bool:
    import torch

    if _is_unwritable(error):
        return False
    words = str(error)
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in words


def _is_unwritable(error: Exception) -> bool:
    """A full disk, a quota, a limit on files: nothing that a traceback would explain."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def _message(error: Exception) -> str:
    """The error in a line, with what to do about it where that is known."""
    if isinstance(error, OSError) and _is_unwritable(error):
        where = f" to {error.filename}" if error.filename else ""
        return f"cannot write{where}: {error.strerror}; make room, or choose another -o (and TMPDIR)"
    first = next(iter(str(error).strip().splitlines()), "")
    if _is_out_of_memory(error):
        remedy = "try a smaller --batch-size or --seq-len, checkpointing, or --method qlora"
        return f"{workers.OUT_OF_MEMORY}{first}); {remedy}"
    return first if isinstance(error, LorabenchError) else f"{type(error).__name__}: {first}"


def _launch_workers(request: Request) -> dict[str, Any]:
    """A worker for each adapter or rank, all let go together. Raises LorabenchError when one fails."""
    spec = request.spec
    cnt = spec.devices if request.is_rank else spec.lora_cnt
    asked = [Request(spec, request.pass_name, request.folder, n) for n in range(cnt)]
    crew = [
        workers.Worker(w.who, command(w), w.result_path, environment(n, cnt) if request.is_rank else {})
        for n, w in enumerate(asked)
    ]
    try:
        workers.run(crew, READY, GO, _PATIENCE_S if request.is_rank else 0)
        results = [json.loads(w.result_path.read_text("utf-8")) for w in asked]
        return rank_results.merged(spec, results) if request.is_rank else _merged(results)
    finally:
        request.meeting.unlink(missing_ok=True)
        for worker in asked:
            worker.path.unlink(missing_ok=True)
            worker.result_path.unlink(missing_ok=True)


def _merged(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The workers' results as one: steps of all, memory and counts added up, of each its own adapter's arithmetic."""
    first = results[0]
    memory = {
        phase: {key: _together(key, [r["memory"][phase][key] for r in results]) for key in first["memory"][phase]}
        for phase in first["memory"]
    }
    own: dict[str, Any] = {}  # of the passes that have it
    if "arithmetic" in first:
        adapters = {
            part: {name: flop for r in results for name, flop in r["arithmetic"][part].items()}
            for part in ("adapter", "adapter_frozen")
        }
        own["arithmetic"] = first["arithmetic"] | adapters
    counts = first["counts"] and {k: sum(r["counts"][k] for r in results) for k in first["counts"]}
    ranges: dict[str, int] = {}
    for result in results:
        for path, count in result["ranges"].items():
            ranges[path] = ranges.get(path, 0) + count
    diverged = next((r["diverged"] for r in results if r["diverged"]), None)
    steps = [s for r in results for s in r["steps"]]
    found = {"steps": steps, "diverged": diverged, "memory": memory, "counts": counts, "ranges": ranges}
    return first | found | own


def _together(key: str, values: list[int | None]) -> int | None:
    """A kind of memory of processes that share a device: each has its own, but what is used of the device is of all."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return max(known) if key in _OF_DEVICE else sum(known)


def _measure(request: Request) -> dict[str, Any]:
    """Train the warm-up and the measured steps under the pass's watcher."""
    packages.load(request.spec)
    import torch

    from ..instruments import spans
    from ..processes import provenance
    from ..workload import models
    from . import extra_steps, measure

    if not os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
    spec = request.spec
    with _workplace(request) as (device, make_trainer):
        memory = measure.Memory(device, spec.cuda_graph)
        spans.pause(True)
        with memory.phase("load"):
            trainer = make_trainer()
        result: dict[str, Any]
        if spec.epochs and request.pass_name == "timing":
            result = _train_epochs(request, trainer, memory, device)
        else:
            warmed = [trainer.run(task) for tasks in trainer.iterations(0, spec.warmup) for task in tasks]
            measure.synchronize(device)
            if request.worker is not None:
                print(READY, flush=True)
                sys.stdin.readline()
            with memory.phase("steps"):
                steps, counts = _steps(request, trainer, device)
            result = {"warmed": [_row(0, 0, done) for done in warmed], "steps": steps, "counts": counts}
        result |= {"ranges": spans.opened(), "notes": trainer.notes}
        result["diverged"] = _diverged(result.pop("warmed") + result["steps"], str(models.choose_dtype(spec, device)))
        after = trainer.total_steps
        if request.pass_name == "timing":
            extra_steps.measure_phases(trainer, memory, after)
            result["ranges_frac"] = extra_steps.range_overhead(trainer, device, after + 1)
            result["arithmetic"] = extra_steps.arithmetic(trainer, device)
        about = provenance.of_device(device)
        return {**result, "memory": memory.phases, "device": about, "compiled": trainer.is_compiled}


@contextmanager
def _workplace(request: Request) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """The device of this process and what makes its trainer, among the other ranks if it is one."""
    spec, with_ranges = request.spec, request.pass_name != "timing"
    if request.is_rank:
        from ..parallel import kinds, ranks

        assert request.worker is not None
        with ranks.joined(spec, request.worker, request.meeting) as rank:
            yield rank.device, lambda: kinds.trainer(spec, rank, with_ranges)
        return
    import torch

    from ..workload import models
    from ..workload.training import Trainer

    device = models.choose_device(spec)
    if device.type == "cuda":  # what names no device means it: streams of graphs, caches, libraries
        torch.cuda.set_device(device)
    with ExitStack() as made:

        def make() -> Trainer:
            trainer = Trainer(spec, device, request.worker, with_ranges)
            made.callback(trainer.close)
            return trainer

        yield device, make


def _train_epochs(request: Request, trainer: Any, memory: Any, device: Any) -> dict[str, Any]:
    """All steps of all epochs, of which the first are warm-up, and what each epoch came to."""
    from . import epochs

    warmup = trainer.spec.warmup
    if trainer.total_steps <= warmup:
        raise UsageError(f"--warmup {warmup} leaves none of the {trainer.total_steps} steps of all epochs; lower it")

    keep = kept_steps.writer(request.folder, request.pass_name, request.suffix)

    def run(task: Any) -> tuple[int, int, Any]:
        done = _timed(trainer, task, device)
        if task.step >= warmup:
            keep([_row(*done)])
        _tell_step(task.step + 1)
        return done

    trainer.load_ahead()
    every, entries = epochs.train(trainer, memory, run)
    rows = [_row(*step) for step in every]
    about = {
        "train_cnt": len(trainer.splits.train), "validation_cnt": len(trainer.splits.validation),
        "validation": trainer.splits.held_out, "steps_per_epoch": trainer.steps_per_epoch,
    }  # fmt: skip
    return {"warmed": rows[:warmup], "steps": rows[warmup:], "counts": None, "epochs": entries, "sentences": about}


def _timed(trainer: Any, task: Any, device: Any) -> tuple[int, int, Any]:
    """Do a task between two synchronizations: when it began, how long it took, what it computed."""
    from . import measure

    measure.synchronize(device)
    start = time.perf_counter_ns()
    done = trainer.run(task)
    measure.synchronize(device)
    return start, time.perf_counter_ns() - start, done


def _tell_step(number: int) -> None:
    print(f"lorabench: step {number}", flush=True)


def _steps(request: Request, trainer: Any, device: Any) -> tuple[list[dict[str, Any]], dict[str, float] | None]:
    """The measured steps, one row for each task, and what the watcher counted."""
    from ..instruments import spans

    spec = request.spec
    watcher = _watcher(request, trainer, device)
    is_micro = spec.profiler_step == "micro"
    if is_micro:
        trainer.behind_micro_step = watcher.step
    rows: list[dict[str, Any]] = []
    measured: list[tuple[int, int, Any]] = []
    keep = kept_steps.writer(request.folder, request.pass_name, request.suffix)
    trainer.load_ahead()
    with watcher.window():
        spans.pause(False)
        with spans.span("run") if watcher.has_run_range else nullcontext():
            for number, tasks in enumerate(trainer.iterations(spec.warmup, spec.steps)):
                measured += [_timed(trainer, task, device) for task in tasks]
                if request.pass_name == "timing":  # under a profiler asking for losses would be in what it records
                    keep(_rows(measured, rows))
                if not is_micro:
                    watcher.step()
                if not (request.is_rank and request.worker):
                    _tell_step(number + 1)
        spans.pause(True)
    trainer.behind_micro_step = _nothing
    _rows(measured, rows)
    return rows, watcher.counts_per_step()


def _rows(measured: list[tuple[int, int, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the rows of what was measured since; returns them."""
    new = [_row(*step) for step in measured[len(rows) :]]
    rows += new
    return new


def _nothing() -> None:
    """Behind micro batches that nobody counts."""


def _watcher(request: Request, trainer: Any, device: Any) -> Any:
    from ..instruments import watchers

    spec, folder, suffix = request.spec, request.folder, request.suffix
    if request.pass_name == "torch":
        return watchers.TorchProfiler(spec, device, folder, suffix)
    if request.pass_name == "memory":
        return watchers.MemoryWatcher(spec, device, folder, suffix, trainer.ledger())
    return watchers.Nsys(device) if request.pass_name == "nsys" else watchers.Nobody()


def _row(start: int, wall: int, done: Any) -> dict[str, Any]:
    names = [a.name for a in done.task.adapters]
    return {
        "step": done.task.step, "adapters": names, "start_ns": start, "wall_ns": wall,
        "losses": dict(zip(names, done.losses.tolist(), strict=True)), "tokens": done.tokens,
        "computed_cnt": done.computed_cnt, "longest": done.longest, "own_cnt": done.own_cnt, "rows": done.rows,
        "phase_ns": done.phase_ns, "waited_ns": done.waited_ns, "made_ns": done.made_ns,
        "optimizer_ns": done.optimizer_ns,
    }  # fmt: skip


def _diverged(rows: list[dict[str, Any]], dtype: str) -> str | None:
    """The first loss that is no number, in words; None if all are."""
    for row in rows:
        for name, loss in row["losses"].items():
            if not math.isfinite(loss):
                return f"training diverged: the loss of {name} is {loss} at step {row['step']}; {_remedy(dtype)}"
    return None


def _remedy(dtype: str) -> str:
    """What to try against losses that are no numbers: not what the run has already."""
    others = {"torch.float16": "bfloat16 or float32", "torch.bfloat16": "float32"}.get(dtype)
    return "try a lower --learning-rate" + (f", or --dtype {others}" if others else "")


if __name__ == "__main__":
    main()
