"""What trainers of all kinds of parallelism share: choosing an adapter, a part of each batch, clocks of phases.

Invariant: what ranks report as loss are shares that add up to the loss of one process that does it all. The models
of LoRA fine-tuning have no dropout of their own; in those that do (DistilBERT) it is drawn by each rank for itself.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ..instruments.spans import span
from ..settings import parallelism
from ..settings.spec import AdapterSpec, RunSpec
from ..workload import adapters, models
from ..workload.data import Batch
from ..workload.step import Done, Task
from ..workload.training import Trainer
from .ranks import Rank


class Stopwatch:
    """Opens the ranges of phases and adds up how long each took: on a GPU between events of its stream."""

    def __init__(self, device: torch.device):
        self._is_gpu = device.type == "cuda"
        self._ns: dict[str, int] = {}
        self._events: list[tuple[str, Any, Any]] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What happens inside is named, and counted."""
        start = self._now()
        with span(name):
            yield
        self._add(name, start, self._now())

    def take(self) -> dict[str, int]:
        """Nanoseconds of each phase since the last call."""
        for name, start, stop in self._events:
            stop.synchronize()
            self._ns[name] = self._ns.get(name, 0) + int(start.elapsed_time(stop) * 1e6)
        taken, self._ns, self._events = self._ns, {}, []
        return taken

    def _now(self) -> Any:
        if not self._is_gpu:
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _add(self, name: str, start: Any, stop: Any) -> None:
        if self._is_gpu:
            self._events.append((name, start, stop))
        else:
            self._ns[name] = self._ns.get(name, 0) + stop - start


class RankTrainer(Trainer):
    """A trainer that is one of several. Each draws the same batches; what it does with them its kind says."""

    def __init__(self, spec: RunSpec, rank: Rank, with_ranges: bool = True):
        self.rank = rank
        super().__init__(spec, rank.device, None, with_ranges)
        torch.manual_seed(spec.seed + rank.number)  # for dropout of the base, of which ranks draw masks of their own
        self.watch = Stopwatch(rank.device)
        self.phase = self.watch.phase

    def _spread(self) -> None:
        """Let all adapters be trained all the time, and check that the model can be cut."""
        config = self.base.config.to_dict()
        parallelism.check_shape(self.spec, models.is_classifier(self.base), config)
        for adapter in self.adapters if self.spec.has_adapters else ():
            for parameter in adapters.parameters_of(self.model, adapter.name).values():
                parameter.requires_grad_(True)

    def _activate(self, adapter: AdapterSpec) -> None:
        """Without peft.set_adapter, which would stop the others' parameters from having gradients.

        FSDP's unsharded parameters keep the flag that they were made with, DDP's reducer its list of parameters, and
        a pipeline has adapters between forward and backward.
        """
        choose_adapter(self.model, adapter.name)

    def run(self, task: Task) -> Done:
        """One optimizer step, and how long its phases took."""
        self.watch.take()
        done = super().run(task)
        done.phase_ns = self.watch.take()
        return done


class SharedRows(RankTrainer):
    """Each rank has an equal part of every adapter's sequences (ddp, fsdp)."""

    def _spread(self) -> None:
        super()._spread()
        self.replica_cnt = self.rank.cnt
        self.clock.first_rows = {a.name: self.rank.number * (a.batch_size // self.rank.cnt) for a in self.adapters}

    def _own(self, batch: Batch) -> Batch:
        rows = batch.rows // self.rank.cnt
        return batch.part(self.rank.number * rows, (self.rank.number + 1) * rows)


def choose_adapter(model: nn.Module, adapter: str) -> None:
    """Make the adapter the one that forwards use; who needs gradients stays as it is."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    for module in model.modules():
        if isinstance(module, BaseTunerLayer | AuxiliaryTrainingWrapper):
            module._active_adapter = [adapter]
