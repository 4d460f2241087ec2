"""What the storages of a script's models are for, in the memory pass: weights, gradients, the optimizer's state.

The ledger takes stock when the training begins and sees gradients and states as they come. It keeps no model and no
optimizer alive.
"""

import weakref
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import torch

from .process import Process
from .start import LEDGER
from .steps import Steps


class Purposes:
    """Watches the models that optimizers train, from the first step of each on."""

    def __init__(self, process: Process, clock: Steps, is_recording: Callable[[], bool]):
        self._process, self._is_recording = process, is_recording
        self._found: "List[Tuple[weakref.ref[Any], weakref.ref[Any]]]" = []
        self._ledgers: List[Any] = []
        clock.safe_points.append(self._begin)
        clock.on_step.append(self._stepped)
        clock.on_fork.append(self._ledgers.clear)
        process.at_end(self._write)

    def found(self, model: torch.nn.Module, optimizer: Any) -> None:
        """A model that an optimizer got; it may still move to a device."""
        self._found.append((weakref.ref(model), weakref.ref(optimizer)))

    def _begin(self) -> None:
        """Take stock of what was found: what was allocated while nothing was recorded is nobody's."""
        found, self._found = self._found, []
        if not found or not self._is_recording():
            return
        with self._process.surviving("what memory is for is guessed"):
            from ...instruments.ledger import Ledger

            for model, optimizers in _by_model(found):
                ledger = Ledger([model], optimizers, with_saved=False, with_inputs=False, is_begun=True)
                self._ledgers.append(ledger.__enter__())
                ledger.let_go()

    def _stepped(self, _: int) -> None:
        """What comes behind the recording is in no trace."""
        if not self._is_recording():
            for ledger in self._ledgers:
                ledger.__exit__()

    def _write(self) -> None:
        if self._ledgers:
            first, *others = self._ledgers
            for other in others:
                first.add(other)
            first.write(Path(self._process.path(LEDGER)))


def _by_model(found: "List[Tuple[weakref.ref[Any], weakref.ref[Any]]]") -> "List[Tuple[Any, List[Any]]]":
    """The models that are still there, and the optimizers of each: they may be as many as its parameters."""
    by_model: "Dict[int, Tuple[Any, List[Any]]]" = {}
    for model, optimizer in ((model(), optimizer()) for model, optimizer in found):
        if model is not None and optimizer is not None:
            by_model.setdefault(id(model), (model, []))[1].append(optimizer)
    return list(by_model.values())
