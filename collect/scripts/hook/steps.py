"""The clock of a process: where its optimizer steps end, without a synchronization, and how many tokens each took.

A step ends with the last optimizer step before something else of a step begins (data, forward, backward): so optimizers
of several adapters are one step, and what lies between two steps (logging, evaluation) belongs to the later one.
"""

import os
import time
from typing import Any, Callable, Dict, List

from .process import Process

SUFFIX = ".steps"


class Steps:
    """Counts steps and writes each down as it ends: what a crash leaves is still there."""

    def __init__(self, process: Process):
        self.count = 0
        self.safe_points: List[Callable[[], None]] = []  # called where no operator is open
        self.on_step: List[Callable[[int], None]] = []
        self.on_optimizers: List[Callable[[], None]] = []  # called when as many have stepped as in the step before
        self.on_fork: List[Callable[[], None]] = []
        self._process = process
        self._began_ns: int | None = None
        self._ended_ns: int | None = None
        self._tokens = 0
        self._waited_ns = self._batches = self._workers = 0
        self._masked = (0, 0, 0)
        self._backwards = self._optimizers = self._optimizers_before = 0
        self._file: int | None = None
        process.at_end(self._finish)

    def activity(self) -> None:
        """Something of a step begins."""
        if not self._process.is_own:
            self._begin_forked()
        self.settle()
        self._run_safe_points()
        if self._began_ns is None:
            self._began_ns = time.perf_counter_ns()

    def _run_safe_points(self) -> None:
        for function in self.safe_points:
            function()

    def begin_optimizer(self) -> None:
        """An optimizer is about to step; in a loop of which nothing else was seen a step begins here."""
        if not self._process.is_own:
            self._begin_forked()
        if self._began_ns is None:
            self._run_safe_points()
            self._began_ns = time.perf_counter_ns()
        self._optimizers += 1

    def end_optimizer(self) -> None:
        """An optimizer has stepped: the step ends here, unless another one does before something else begins."""
        self._ended_ns = time.perf_counter_ns()
        if self._optimizers and self._optimizers == self._optimizers_before:
            for function in self.on_optimizers:
                function()

    def settle(self) -> None:
        """A step that has ended is over, whatever comes next."""
        if self._ended_ns is not None:
            self._close()

    def add_tokens(self, count: int) -> None:
        """Count tokens that the model gets in the step."""
        self._tokens += count

    def add_batch(self, waited_ns: int, workers: int) -> None:
        """Count a batch of a loader with so many workers, and how long the step waited for it."""
        self._waited_ns += waited_ns
        self._batches += 1
        self._workers = workers

    def add_backward(self) -> None:
        """Count a backward: of a step that has several each belongs to a micro step, or to an optimizer of its own."""
        self._backwards += 1

    def add_mask(self, token_cnt: int, real_cnt: int, longest_cnt: int) -> None:
        """Count tokens of an attention mask: all, those that are no padding, and if the longest sequence had none."""
        masked = self._masked
        self._masked = masked[0] + token_cnt, masked[1] + real_cnt, masked[2] + longest_cnt

    def restart(self) -> None:
        """What was done since the last step (a trace was written) is not the script's: begin with what comes next."""
        self._began_ns = None

    def _close(self) -> None:
        start, end = self._began_ns, self._ended_ns
        self.count += 1
        if self._file is None:
            self._file = os.open(self._process.path(SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        counted = [self._tokens, self._waited_ns, self._batches, self._workers, *self._masked]
        counted += [self._backwards, self._optimizers]
        os.write(self._file, b",".join(b"%d" % n for n in (start or 0, (end or 0) - (start or 0), *counted)) + b"\n")
        self._began_ns, self._ended_ns, self._tokens = end, None, 0
        self._waited_ns = self._batches = 0
        self._masked = (0, 0, 0)
        self._optimizers_before = self._optimizers
        self._backwards = self._optimizers = 0
        for function in self.on_step:
            function(self.count)

    def _finish(self) -> None:
        self.on_step.clear()
        self.settle()
        self._process.record["step_cnt"] = self.count
        self._process.record.update(_used())

    def _begin_forked(self) -> None:
        """A forked child that trains is a process of its own; one that loads data never comes here."""
        self._process.begin()
        self.count, self._began_ns, self._ended_ns, self._tokens, self._file = 0, None, None, 0, None
        self._waited_ns = self._batches = 0
        self._masked = (0, 0, 0)
        self._backwards = self._optimizers = self._optimizers_before = 0
        for function in self.on_fork:
            function()


def _used() -> Dict[str, Any]:
    """The memory that the process needed, and its device."""
    import resource
    import sys

    torch = sys.modules["torch"]
    found: Dict[str, Any] = {
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "device": {"type": "cpu"},
    }
    if torch.cuda.is_initialized():
        device = torch.cuda.current_device()
        found["peak_allocated_bytes"] = torch.cuda.max_memory_allocated(device)
        found["peak_reserved_bytes"] = torch.cuda.max_memory_reserved(device)
        found["device"] = {"type": "cuda", "name": torch.cuda.get_device_name(device)}
    return found
