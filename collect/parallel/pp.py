"""Pipeline parallel by torch.distributed.pipelining: each rank has some layers, micro-batches follow each other.

torch's schedules know no adapters and no unequal lengths. So a stage is told which rows of the batch a micro-batch has
(for dropout), the loss is that of the last stage and weighted by the tokens of the whole batch, and shapes are given
for each length instead of found out by a run of their own. How long they wait for messages is named, too.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleZBVZeroBubble,
)

from ..instruments.ledger import Ledger
from ..instruments.ranges import annotate
from ..settings import parallelism
from ..workload import models
from ..workload.data import Batch
from ..workload.step import MicroStep
from .sharing import RankTrainer
from .stages import Stage, cut

_SCHEDULES: dict[str, Any] = {
    "gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B, "zbv": ScheduleZBVZeroBubble,
}  # fmt: skip


class StagedTrainer(RankTrainer):
    """A trainer whose model is a part of the layers (pp, lorapp)."""

    def _spread(self) -> None:
        super()._spread()
        whole = self.model.get_base_model()
        self.balance = parallelism.balance(self.spec, whole.config.num_hidden_layers)
        self.dtype = models.choose_dtype(self.spec, self.device)
        self.micro_cnt = parallelism.micro_batch_cnt(self.spec)
        self.model = cut(whole, self.balance, self._numbers(), self.loss)
        self.base = self.model  # what the other stages have goes

    def _numbers(self) -> list[int]:
        """Which of the stages this rank has."""
        return [self.rank.number]

    @property
    def stages(self) -> list[Stage]:
        """This rank's stages."""
        return list(self.model.stages)

    def annotate(self) -> ExitStack:
        """Ranges around the modules of each stage, by the names that they have in the whole model."""
        put = ExitStack()
        for stage in self.stages:
            put.enter_context(annotate(stage, self.spec.range_depth, root=""))
        put.enter_context(annotate(self.loss, self.spec.range_depth, root="loss"))
        return put

    def ledger(self) -> Ledger:
        """What storages are for; inputs come in by the stages."""
        return Ledger([self.model, *self.stages, self.loss], list(self.optimizers.values()))

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """A stage of norm and head alone has nothing to train."""
        return {a.name: self._optimizer(a) for a in self.adapters if self.parameters(a)}

    def weights(self, batch: Batch, parts: int, weight: float) -> torch.Tensor:
        """What each part's mean loss counts in that of an optimizer step, in which the batch has this weight."""
        rows = batch.rows // parts
        counts = [batch.part(n * rows, (n + 1) * rows).loss_cnt() for n in range(parts)]
        return torch.tensor([count / max(1, sum(counts)) * weight for count in counts])


class Pipeline(StagedTrainer):
    """See the module."""

    def __init__(self, *arguments: Any, **options: Any):
        self._made: dict[tuple[int, int], Any] = {}
        super().__init__(*arguments, **options)

    def _numbers(self) -> list[int]:
        number, last = self.rank.number, parallelism.stage_cnt(self.spec) - 1
        if self.spec.pp_schedule == "zbv":  # there and back again: the first rank has the first and the last stage
            return [number, last - number]
        return list(range(number, last + 1, self.rank.cnt))

    def _micro_step(self, micro: MicroStep) -> torch.Tensor:
        (adapter,), (weight,) = micro.adapters, micro.weights
        with self.phase("h2d"):
            batch = micro.batch.to(self.device)
        weights = self.weights(micro.batch, self.micro_cnt, weight).to(self.device)
        rows = batch.rows // self.micro_cnt
        losses: list[torch.Tensor] = []
        self._adapter, self._rows = adapter.name, rows
        with self._sharing(micro.adapters, micro.rows):
            schedule = self._schedule(rows, batch.input_ids.shape[1])
            tokens = (batch.input_ids,) if any(stage.has_embedding for stage in self.stages) else ()
            # a schedule asks for a target, and gives it to the loss
            with _messages_in_phases(self.phase):
                schedule.step(
                    *tokens, target=batch.labels, losses=losses, return_outputs=False,
                    attention_mask=batch.attention_mask, labels=batch.labels, weight=weights,
                )  # fmt: skip
        self.clock.first_rows.clear()
        total = torch.zeros(1, device=self.device)
        for loss in losses:  # of the last stage: other ranks have none
            total += loss.detach() / weight if weight else loss.detach()
        return total

    def _schedule(self, rows: int, length: int) -> Any:
        """The schedule for micro-batches of this shape."""
        if (rows, length) not in self._made:
            parts = [self._part(n, s, rows, length) for n, s in zip(self._numbers(), self.stages, strict=True)]
            kind = _SCHEDULES[self.spec.pp_schedule]
            is_one = self.spec.pp_schedule in ("gpipe", "1f1b")
            self._made[rows, length] = kind(
                parts[0] if is_one else parts, self.micro_cnt, loss_fn=_given, scale_grads=False
            )
        return self._made[rows, length]

    def _part(self, number: int, stage: Stage, rows: int, length: int) -> "_Part":
        hidden = torch.empty(rows, length, stage.config.hidden_size, dtype=self.dtype, device="meta").requires_grad_()
        tokens = torch.empty(rows, length, dtype=torch.int64, device="meta")
        loss = torch.empty((), device="meta").requires_grad_()
        return _Part(
            self, stage, number, parallelism.stage_cnt(self.spec), self.device,
            input_args=tokens if stage.has_embedding else hidden, output_args=loss if stage.is_last else hidden,
        )  # fmt: skip

    @contextmanager
    def around(self, phase: str, chunk: int) -> Iterator[None]:
        """A phase of one micro-batch; a recomputation in its backward is one of the same rows."""
        self.clock.first_rows[self._adapter] = chunk * self._rows
        with self.phase(phase):
            yield


class _Part(PipelineStage):
    """A stage as torch sees it, its work in phases."""

    def __init__(self, trainer: Pipeline, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._trainer = trainer

    def forward_one_chunk(self, fwd_chunk_id: int, *arguments: Any, **options: Any) -> Any:
        with self._trainer.around("forward", fwd_chunk_id):
            return super().forward_one_chunk(fwd_chunk_id, *arguments, **options)

    def backward_one_chunk(self, bwd_chunk_id: int, *arguments: Any, **options: Any) -> Any:
        with self._trainer.around("backward", bwd_chunk_id):
            return super().backward_one_chunk(bwd_chunk_id, *arguments, **options)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *arguments: Any, **options: Any) -> Any:
        with self._trainer.around("backward", bwd_chunk_id):
            return super().backward_weight_one_chunk(bwd_chunk_id, *arguments, **options)


class _Messages(list[Any]):
    """What torch's schedules wait for at once, in this phase."""

    phase: str


@contextmanager
def _messages_in_phases(phase: Callable[[str], AbstractContextManager[None]]) -> Iterator[None]:
    """Inside, torch's schedules begin messages and wait for them in a phase: recv where any is received, else send.

    With gloo to begin takes time, too: up to 19 ms a call, beside other work on two cores.
    """
    module: Any = schedules
    begin, wait = module._batch_p2p, module._wait_batch_p2p

    def begun(operations: list[Any], *options: Any, **named: Any) -> _Messages:
        what = "recv" if any(operation.op is not dist.isend for operation in operations) else "send"
        with phase(what) if operations else nullcontext():
            messages = _Messages(begin(operations, *options, **named))
        messages.phase = what
        return messages

    def waited(messages: _Messages) -> None:
        if messages:
            with phase(messages.phase):
                wait(messages)

    module._batch_p2p, module._wait_batch_p2p = begun, waited
    try:
        yield
    finally:
        module._batch_p2p, module._wait_batch_p2p = begin, wait


def _given(loss: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """What the last stage gives is the loss."""
    return loss
