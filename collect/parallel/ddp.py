"""Data parallel by DistributedDataParallel: each rank has the whole model and averages the adapters' gradients.

Where adapters take turns, each has a wrapper of its own around the same module, which knows its parameters alone.
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..workload import adapters
from ..workload.data import Batch
from ..workload.step import MicroStep
from .sharing import SharedRows

_ALL = ""  # the wrapper for all adapters at once


class DataParallel(SharedRows):
    """See the module."""

    def _spread(self) -> None:
        super()._spread()
        if self.batch_lora is not None or not self.spec.has_adapters:
            self._wrapped = {_ALL: self._wrap([p for p in self.model.parameters() if p.requires_grad])}
        else:
            own = {a.name: list(adapters.parameters_of(self.model, a.name).values()) for a in self.adapters}
            self._wrapped = {name: self._wrap(parameters) for name, parameters in own.items()}

    def _wrap(self, trained: list[nn.Parameter]) -> DistributedDataParallel:
        kept = {id(p) for p in trained}
        ignored = [name for name, p in self.model.named_parameters() if id(p) not in kept]
        constants = [name for name, _ in self.model.named_buffers()]
        self.model._ddp_params_and_buffers_to_ignore = [*ignored, *constants]
        # reentrant checkpointing runs a backward inside the backward: only a static graph is known beforehand
        return DistributedDataParallel(self.model, static_graph=self.spec.reentrant)

    def _micro_step(self, micro: MicroStep) -> torch.Tensor:
        self._current = self._wrapped.get(_ALL) or self._wrapped[micro.adapters[0].name]
        with nullcontext() if micro.is_last else self._current.no_sync():
            return super()._micro_step(micro)

    def _call(self, batch: Batch) -> Any:
        return self._current(**batch.inputs())
