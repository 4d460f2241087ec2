"""The clock of a process: where its optimizer steps end, without a synchronization, and how many tokens each took.

A step ends with the last optimizer step before something else of a step begins (data, forward, backward): so optimizers
of several adapters are one step, and what lies between two steps (logging, evaluation) belongs to the later one.
Of optimizers that take turns (turns.py) each step is written down, and a whole turn counts as one.
"""

import os
import time
from typing import Any, Callable, Dict, FrozenSet, List, Set

from . import turns
from .process import Process

SUFFIX = ".steps"


class Steps:
    """Counts steps and writes each down as it ends: what a crash leaves is still there."""

    def __init__(self, process: Process, turn: int = 1):
        """turn: how many steps a turn has, where an earlier pass saw that."""
        self.count = 0
        self.turn = turn
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
        self._backwards = self._optimizers = 0
        self._unlearned = [0, 0]  # forwards of this step, and of the next one, from which nothing is learned
        self._forget_turns()
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

    def _forget_turns(self) -> None:
        self._in_turn = self._optimizers_before = 0  # optimizers that stepped in this turn, and in the one before
        self._stepped: Set[int] = set()  # the keys of those of this step
        self._numbers: Dict[FrozenSet[int], int] = {frozenset(): turns.UNKNOWN}
        self._keys: List[int] = []  # of the last steps
        self.single_cnt = 0  # steps of one optimizer, of which a turn has several
        self._may_turn = True  # that no turn was seen yet says nothing

    @property
    def begins_turn(self) -> bool:
        """Whether what comes next begins a step, and is not the next part of a turn."""
        return self.single_cnt % self.turn == 0

    @property
    def steps_named(self) -> str:
        """What is counted."""
        return "turns of the optimizers" if self.turn > 1 else "optimizer steps"

    def begin_optimizer(self, key: int = 1) -> None:
        """An optimizer is about to step; in a loop of which nothing else was seen a step begins here."""
        if not self._process.is_own:
            self._begin_forked()
        if self._began_ns is None:
            self._run_safe_points()
            self._began_ns = time.perf_counter_ns()
        self._optimizers += 1
        self._in_turn += 1
        self._stepped.add(key)

    def end_optimizer(self) -> None:
        """An optimizer has stepped: the step ends here, unless another one does before something else begins."""
        self._ended_ns = time.perf_counter_ns()
        if self._optimizers and self._in_turn == self._optimizers_before:
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

    def add_unlearned(self) -> None:
        """Count a forward from which nothing is learned; behind an optimizer that is none of the step that it ended."""
        self._unlearned[self._ended_ns is not None] += 1

    def add_mask(self, token_cnt: int, real_cnt: int, longest_cnt: int) -> None:
        """Count tokens of an attention mask: all, those that are no padding, and if the longest sequence had none."""
        masked = self._masked
        self._masked = masked[0] + token_cnt, masked[1] + real_cnt, masked[2] + longest_cnt

    def restart(self) -> None:
        """What was done since the last step (a trace was written) is not the script's: begin with what comes next."""
        self._began_ns = None

    def leave_out(self, spent_ns: int) -> None:
        """So much of what comes before the next step's end is not the script's."""
        if self._began_ns is not None:
            self._began_ns += spent_ns

    def _close(self) -> None:
        start, end = self._began_ns, self._ended_ns
        if self._file is None:
            self._file = os.open(self._process.path(SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        key = self._numbers.setdefault(frozenset(self._stepped), len(self._numbers))
        counted = [self._tokens, self._waited_ns, self._batches, self._workers, *self._masked]
        counted += [self._backwards, self._optimizers, key, self._unlearned[0]]
        os.write(self._file, b",".join(b"%d" % n for n in (start or 0, (end or 0) - (start or 0), *counted)) + b"\n")
        self._began_ns, self._ended_ns, self._tokens = end, None, 0
        self._waited_ns = self._batches = 0
        self._masked = (0, 0, 0)
        self._backwards = self._optimizers = 0
        self._unlearned = [self._unlearned[1], 0]
        self._stepped.clear()
        self._note_turn(key)
        if not self.begins_turn:
            return
        self.count += 1
        self._optimizers_before, self._in_turn = self._in_turn, 0
        for function in self.on_step:
            function(self.count)

    def _note_turn(self, key: int) -> None:
        """Turns begin when the first optimizer steps again behind another; they end when it was another's turn."""
        self.single_cnt += 1
        self._keys = [*self._keys[-turns.MOST :], key]
        if self.turn > 1:
            if len(self._keys) > self.turn and not turns.is_same(key, self._keys[-1 - self.turn]):
                self.turn, self._may_turn = 1, False
        elif self._may_turn and key == self._keys[0] and len(set(self._keys) - {turns.UNKNOWN}) > 1:
            self.turn, self.count = self.single_cnt - 1, 1
        self._may_turn &= len(self._keys) == self.single_cnt

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
        self._backwards = self._optimizers = 0
        self._unlearned = [0, 0]
        self._forget_turns()
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
