"""Ranges "step N" around the steps that a schedule keeps: N counts the script's optimizer steps from 1, in every cycle.

A recording of one step holds one end of an optimizer step, so that where it began, and which one it is, would be lost.
Where optimizers take turns they are around each turn, with a schedule and without: no end of an optimizer ends one.
A range opens where the clock lets a step begin. It closes behind the step's last optimizer, if the step before had as
many, and else where the next step begins: what follows the training is in no step.
"""

import threading
from typing import Any, Callable

import torch.autograd.profiler as torch_profiler

from .process import Process
from .steps import Steps


class Numbered:
    """Opens and closes them, made before the recorder: a range ends before its recording does."""

    def __init__(self, process: Process, clock: Steps):
        self._clock = clock
        self._is_wanted: Callable[[], bool] = lambda: False
        self._range: Any = None
        self._thread = 0
        clock.on_optimizers.append(self._close)
        clock.on_step.append(lambda _: self._close())
        clock.on_fork.append(self._forget)
        process.at_end(self._close)

    def begin(self, is_wanted: Callable[[], bool]) -> None:
        """Open ranges, behind what the recorder does at safe points, where they are recorded and wanted."""
        self._is_wanted = is_wanted
        self._clock.safe_points.append(self._open)

    def _open(self) -> None:
        if self._range is None and self._clock.begins_turn and self._is_wanted():
            self._range, self._thread = torch_profiler.record_function(f"step {self._clock.count + 1}"), _here()
            self._range.__enter__()

    def _close(self) -> None:
        found, self._range = self._range, None
        if found is not None and self._thread == _here():
            found.__exit__(None, None, None)

    def _forget(self) -> None:
        """A forked child has none of its own open."""
        self._range = None


def _here() -> int:
    return threading.get_ident()
