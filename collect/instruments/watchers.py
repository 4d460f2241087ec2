"""Who watches the measured steps: nobody, nsys, torch.profiler, or torch.profiler with memory.

All have the same methods, so that the loop has no `if profiling`.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from ... import rundir
from ...errors import CorruptInputError
from ..settings import parallelism
from ..settings.spec import RunSpec
from . import trace_file
from .ledger import Ledger

# What multiplies matrices on its own; aten::linear and aten::matmul call these.
_MATRIX_PRODUCTS = frozenset(
    f"aten::{name}"
    for name in (
        "mm",
        "addmm",
        "addmm_",
        "bmm",
        "baddbmm",
        "baddbmm_",
        "_grouped_mm",
        "_int_mm",
        "_scaled_mm",
        "addbmm",
    )
)
_LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "hipLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunch")


class Nobody:
    """The timing pass: nothing but the clock."""

    has_run_range = True

    def window(self) -> AbstractContextManager[Any]:
        """Around all measured steps."""
        return nullcontext()

    def step(self) -> None:
        """Called behind each measured step, or behind each of its micro batches, as the settings say."""

    def counts_per_step(self) -> dict[str, float] | None:
        """Matrix products and kernel launches in a step; None for who does not count."""
        return None


class Nsys(Nobody):
    """Tells nsys where the measured steps begin and end (--capture-range=cudaProfilerApi)."""

    def __init__(self, device: torch.device):
        self._device = device

    def window(self) -> AbstractContextManager[Any]:
        """cudaProfilerStart and cudaProfilerStop; nothing without a GPU, where nsys records from the start."""
        return _CudaWindow() if self._device.type == "cuda" else nullcontext()


class _CudaWindow:
    def __enter__(self) -> None:
        torch.cuda.profiler.start()

    def __exit__(self, *_: object) -> None:
        torch.cuda.profiler.stop()


class TorchProfiler(Nobody):
    """torch.profiler with the run's schedule: a trace, a table of operators and, if asked, stacks for each cycle."""

    def __init__(self, spec: RunSpec, device: torch.device, folder: Path, suffix: str, with_memory: bool = False):
        self._folder, self._suffix, self._with_memory = folder, suffix, with_memory
        self._cuda = device.type == "cuda"
        self._is_gloo = spec.parallel != parallelism.NONE and not self._cuda
        # all measured steps in one trace need no schedule, and then torch opens no ProfilerStep ranges across ours
        self._per_step = spec.profiled_per_step
        self._is_simple = spec.schedule() == (0, 0, spec.steps * self._per_step, 1)
        self.has_run_range = self._is_simple
        self._with_stack = spec.with_stack  # frames are ten times the other events: only for who asks
        wait, warmup, self._active, self._repeat = spec.schedule()
        self._idle, self._length = wait + warmup, wait + warmup + self._active
        self._cycle = self._step_cnt = self._kept_cnt = 0
        self._kept_at: int | None = None  # the number of steps when a cycle was kept last
        self._totals = {"matrix_product_cnt": 0, "kernel_launch_cnt": 0}
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self._cuda:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler = torch.profiler.profile(
            activities=activities,
            schedule=None
            if self._is_simple
            else torch.profiler.schedule(wait=wait, warmup=warmup, active=self._active, repeat=self._repeat),
            on_trace_ready=self._keep,
            # gloo says what its collectives move by their shapes alone
            record_shapes=spec.with_shapes or (self._is_gloo and not with_memory),
            profile_memory=with_memory,
            with_stack=self._with_stack,
            experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True) if self._with_stack else None,
        )

    def window(self) -> AbstractContextManager[Any]:
        """The profiler itself."""
        return self._profiler

    def step(self) -> None:
        """Advance the schedule, if there is one."""
        self._step_cnt += 1
        if not self._is_simple:
            self._profiler.step()

    def _keep(self, profiler: Any) -> None:
        names = Counter(event.name() for event in profiler.profiler.kineto_results.events())
        if self._step_cnt == self._kept_at and not any("::" in name for name in names):
            return  # torch begins another cycle behind the last step: no operators, at most frames of Python
        self._kept_at = self._step_cnt
        self._cycle += 1
        self._kept_cnt += max(0, self._step_cnt % self._length - self._idle) or self._active
        for name, count in names.items():
            if name in _MATRIX_PRODUCTS:
                self._totals["matrix_product_cnt"] += count
            elif name.startswith(_LAUNCHES):
                self._totals["kernel_launch_cnt"] += count
        name = "memory" if self._with_memory else "trace"
        cycle = f"-{self._cycle}" if self._repeat != 1 else ""
        trace = self._folder / f"{name}{self._suffix}{cycle}.json.gz"
        trace_file.export(profiler, trace)
        check_trace(trace)
        if self._with_memory:  # averages are made of a Python object for each event
            return
        averages = profiler.key_averages()
        sort = "device_time_total" if self._cuda else "cpu_time_total"
        table = averages.table(sort_by=f"self_{sort}", row_limit=100, max_name_column_width=80)
        (self._folder / f"key_averages{self._suffix}{cycle}.txt").write_text(table + "\n", encoding="utf-8")
        write_averages(self._folder / f"key_averages{self._suffix}{cycle}.csv", averages)
        if self._with_stack:
            metric = "self_device_time_total" if self._cuda else "self_cpu_time_total"
            profiler.export_stacks(str(self._folder / f"stacks{self._suffix}{cycle}.txt"), metric)

    def counts_per_step(self) -> dict[str, float] | None:
        """Matrix products and kernel launches in a step, as the profiler saw them."""
        kept = self._kept_cnt / self._per_step
        return {name: total / kept for name, total in self._totals.items()} if kept else None


class MemoryWatcher(TorchProfiler):
    """The memory pass: every allocation, what each is for and, on a GPU, the history of torch's allocator."""

    def __init__(self, spec: RunSpec, device: torch.device, folder: Path, suffix: str, ledger: Ledger):
        super().__init__(spec, device, folder, suffix, with_memory=True)
        self._ledger = ledger

    @contextmanager
    def window(self) -> Iterator[None]:
        """The profiler and the ledger, with the allocator's history around them on a GPU."""
        history = _WithSnapshot(self._folder / f"snapshot{self._suffix}.pickle") if self._cuda else nullcontext()
        try:
            with history, self._profiler, self._ledger:
                yield
        finally:  # running out of memory is what this pass is there to explain
            self._ledger.write(self._folder / rundir.LEDGER.format(self._suffix))


class _WithSnapshot:
    def __init__(self, path: Path):
        self._path = path

    def __enter__(self) -> None:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000)

    def __exit__(self, *_: object) -> None:
        torch.cuda.memory._dump_snapshot(str(self._path))
        torch.cuda.memory._record_memory_history(enabled=None)


def write_averages(path: Path, averages: Any) -> None:
    """torch's key averages as CSV: one row for each operator, times in microseconds."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ("name", "count", "self_cpu_us", "cpu_us", "self_device_us", "device_us", "self_cpu_bytes",
             "self_device_bytes", "input_shapes")
        )  # fmt: skip
        for e in sorted(averages, key=lambda e: -(e.self_device_time_total or e.self_cpu_time_total)):
            writer.writerow(
                (e.key, e.count, e.self_cpu_time_total, e.cpu_time_total, e.self_device_time_total, e.device_time_total,
                 e.self_cpu_memory_usage, e.self_device_memory_usage, e.input_shapes or "")
            )  # fmt: skip


def check_trace(path: Path) -> None:
    """Read a trace that was just written: some pairs of Python and torch write stacks as invalid JSON.

    Raises CorruptInputError with what to do.
    """
    problem = trace_file.problem(path)
    if problem is not None:
        raise CorruptInputError(
            f"torch.profiler wrote a trace that is not JSON ({problem}); `lorabench analyze` salvages what it can of "
            "it; run again without --with-stack for a whole one"
        )
