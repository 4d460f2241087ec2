"""The training loop: data, forward, backward, optimizer, for one adapter or for all of them at once.

It knows no profiler: phases are named by a function that is given to it, by default span().
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ...errors import UsageError
from ..batch_lora.dropout import Clock
from ..batch_lora.wrapping import BatchLora, losses
from ..instruments.ledger import Ledger
from ..instruments.ranges import annotate
from ..instruments.spans import span
from ..settings.spec import AdapterSpec, RunSpec
from . import adapters, models, packing
from .data import Batch, Source, joined
from .kinds import kind_of

_WHOLE = "model"  # stands for the adapter in full fine-tuning

Phase = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Task:
    """One optimizer step of one adapter, or of all in batch mode."""

    step: int
    adapters: tuple[AdapterSpec, ...]

    @property
    def name(self) -> str:
        """The adapters' names, joined."""
        return "+".join(a.name for a in self.adapters)


@dataclass
class Done:
    """What a task computed: losses still on the device, and (computed, non-padding, trained) tokens by adapter."""

    task: Task
    losses: torch.Tensor
    tokens: dict[str, tuple[int, int, int]]
    computed_cnt: int  # with the padding of the union batch
    longest: int  # length of its sequences, padding included; of packed ones as a token meets them on average
    own_cnt: int  # of the computed ones those that this process computed
    phase_ns: dict[str, int] = field(default_factory=dict)  # of a rank: how long each phase took


@dataclass(frozen=True)
class MicroStep:
    """What one forward and backward is about: so many rows of each adapter, padded to the longest.

    `shares` are how much of each adapter's batch this process has: 1, unless it shares the batch with others.
    """

    adapters: list[AdapterSpec]
    batch: Batch
    rows: list[int]
    shares: list[float]
    is_last: bool  # before the optimizer


class _Loss(nn.Module):
    """The loss as a module, so that its backward has a range, too."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        if labels.ndim == 1:
            return F.cross_entropy(logits.float(), labels)[None]
        return losses(logits, labels, rows)


class Trainer:
    """A model, its adapters, their data and optimizers.

    What begins with an underscore and says so is for the kinds of collect/parallel/ to override.
    """

    replica_cnt = 1  # how many processes share a batch, whose gradients are averaged

    def __init__(self, spec: RunSpec, device: torch.device, only: int | None = None, with_ranges: bool = True):
        """Build everything. `only` is the number of the one adapter to train (process mode).

        with_ranges puts the hooks of ranges on the modules; without them nothing is in the way of a time to quote.
        """
        self.spec, self.device = spec, device
        self.clock = Clock(spec.seed)
        self.kind = kind_of(spec)
        self.adapters = spec.adapters() or [_whole(spec)]
        if only is not None:
            self.adapters = [self.adapters[only]]
        self.base: Any = models.build(spec, device)
        if spec.packing:
            if models.is_classifier(self.base):
                raise UsageError(f"--packing is for language models; {spec.model} is a classifier")
            packing.check(self.base, device)
        self.model: Any = self.base
        if spec.method != "full":
            self.model = adapters.attach(self.base, spec, self.adapters, self.clock)
        self.batch_lora: BatchLora | None = None
        if spec.peft_mode == "batch":
            self.batch_lora = BatchLora(self.model, spec.batch_operator, spec.graph_pruning, self.clock)
        self.loss = _Loss()
        self._spread()
        self._compile()
        if with_ranges:
            self.annotate()
        self._streams = self._open_streams()
        self.optimizers = self._optimizers()
        self._active: str | None = None
        self.phase: Phase = span
        self.behind_micro_step: Callable[[], None] = lambda: None

    def _spread(self) -> None:
        """Put the model on several devices; here it stays on its own. To be overridden."""

    def _compile(self) -> None:
        self.is_compiled = self.spec.is_compiled
        if self.is_compiled:
            self.model = torch.compile(self.model)

    def annotate(self) -> ExitStack:
        """Put ranges around the modules until the result is closed; compiled graphs have none."""
        put = ExitStack()
        if not self.is_compiled:
            inner = self.model.get_base_model() if self.spec.method != "full" else self.model
            put.enter_context(annotate(inner, self.spec.range_depth, root=""))
            put.enter_context(annotate(self.loss, self.spec.range_depth, root="loss"))
        return put

    def ledger(self) -> Ledger:
        """What the storages of the model, its gradients, optimizers and inputs are for."""
        model = getattr(self.model, "_orig_mod", self.model)
        return Ledger([model, self.loss], list(self.optimizers.values()), with_saved=not self.is_compiled)

    def _open_streams(self) -> dict[str, Any]:
        classes = self.base.config.num_labels if models.is_classifier(self.base) else None
        source = Source(self.spec, self.base.config.vocab_size, classes, models.load_tokenizer(self.spec))
        self.notes = source.notes
        return {a.name: source.stream(a.name, a.batch_size) for a in self.adapters}

    def named_parameters(self, adapter: AdapterSpec) -> dict[str, nn.Parameter]:
        """What the adapter trains, by name."""
        if self.spec.method == "full":
            return dict(self.base.named_parameters())
        return adapters.parameters_of(self.model, adapter.name)

    def adapter_flop(self) -> dict[str, tuple[int, int]]:
        """FLOP of a token's forward through each adapter: with weights that are frozen, and that are trained."""
        if self.spec.method == "full":
            return {}
        return {a.name: self.kind.flop(self._peft(), a) for a in self.adapters}

    def parameters(self, adapter: AdapterSpec) -> list[nn.Parameter]:
        """What the adapter trains."""
        return list(self.named_parameters(adapter).values())

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """One for each adapter. To be overridden."""
        return {a.name: self._optimizer(a) for a in self.adapters}

    def _optimizer(self, adapter: AdapterSpec) -> torch.optim.Optimizer:
        if own := self.kind.optimizer(self.model, adapter):
            return own
        kinds: dict[str, Any] = {
            "adamw": torch.optim.AdamW, "adafactor": torch.optim.Adafactor, "sgd": torch.optim.SGD
        }  # fmt: skip
        made: torch.optim.Optimizer = kinds[self.spec.optimizer](self._groups(adapter), lr=adapter.learning_rate)
        return made

    def _groups(self, adapter: AdapterSpec) -> list[Any]:
        """What its optimizer gets. To be overridden."""
        return self.kind.groups(self.named_parameters(adapter), adapter.learning_rate)

    def iterations(self, first: int, count: int) -> Iterator[list[Task]]:
        """The tasks of steps first … first + count - 1, grouped as a profiler counts steps."""
        steps = range(first, first + count)
        if self.spec.peft_mode == "seq":
            yield from ([Task(step, (a,))] for a in self.adapters for step in steps)
        elif self.batch_lora is not None:
            yield from ([Task(step, tuple(self.adapters))] for step in steps)
        else:
            yield from ([Task(step, (a,)) for a in self.adapters] for step in steps)

    def run(self, task: Task) -> Done:
        """One optimizer step of the task's adapters, gradients accumulated over their micro steps."""
        with span("step", task.step):
            total = torch.zeros(len(task.adapters), device=self.device)
            tokens = {a.name: (0, 0, 0) for a in task.adapters}
            computed = longest = 0
            micro_cnt = max(a.grad_accum for a in task.adapters)
            for micro in range(micro_cnt):
                taking_part = [a for a in task.adapters if micro < a.grad_accum]
                with self.phase("data"):
                    batches = [self._streams[a.name].next() for a in taking_part]
                    own = [self._own(batch) for batch in batches]
                    union = joined(own)
                    union = union.pinned() if self.device.type == "cuda" else union
                for a, b in zip(taking_part, batches, strict=True):
                    before = tokens[a.name]
                    x, y, z = b.tokens()
                    tokens[a.name] = before[0] + x, before[1] + y, before[2] + z
                computed += union.input_ids.numel() * self.replica_cnt
                longest = max(longest, union.looked_at())
                shares = [_share(o, b) for o, b in zip(own, batches, strict=True)]
                is_last = micro == micro_cnt - 1
                found = self._micro_step(MicroStep(taking_part, union, [o.rows for o in own], shares, is_last))
                places = [task.adapters.index(a) for a in taking_part]
                self.behind_micro_step()
                total[places] += found.detach() / found.new_tensor([a.grad_accum for a in taking_part])
            with self.phase("optimizer"):
                for a in task.adapters:
                    if (optimizer := self.optimizers.get(a.name)) is None:
                        continue
                    optimizer.step()
                    self.kind.stepped(self._peft(), a, task.step)
                    optimizer.zero_grad(set_to_none=True)
        return Done(task, total, tokens, computed, longest, computed // self.replica_cnt)

    def _own(self, batch: Batch) -> Batch:
        """What this process computes of an adapter's batch: all of it. To be overridden."""
        return batch

    def _micro_step(self, micro: MicroStep) -> torch.Tensor:
        """Forward and backward of one batch; the loss of each adapter, or this process's share of it.

        To be overridden.
        """
        with self.phase("h2d"):
            batch = micro.batch.to(self.device)
        with self._sharing(micro.adapters, micro.rows):
            with self.phase("forward"):
                logits = self._call(batch).logits
                found: torch.Tensor = self.loss(logits, batch.labels, micro.rows)
                del logits
                if micro.shares != [1.0] * len(micro.shares):
                    found = found * found.new_tensor(micro.shares)
                share = found.new_tensor([self.replica_cnt / a.grad_accum for a in micro.adapters])
                loss = (found * share).sum()
                if (penalty := self.kind.penalty(self._peft(), micro.adapters[0])) is not None:
                    loss = loss + penalty * share.mean()
            with self.phase("backward"):
                loss.backward()
        return found

    def _call(self, batch: Batch) -> Any:
        """The model's output. To be overridden."""
        return self.model(**batch.inputs())

    def _sharing(self, taking_part: list[AdapterSpec], rows: list[int]) -> AbstractContextManager[None]:
        """Make the adapters active that the next forward trains."""
        if self.batch_lora is not None:
            return self.batch_lora.union([a.name for a in taking_part], rows, self.device)
        (adapter,) = taking_part
        if self.spec.method != "full" and adapter.name != self._active:
            self._activate(adapter)
            self._active = adapter.name
        self.clock.advance(adapter.name)
        return nullcontext()

    def _activate(self, adapter: AdapterSpec) -> None:
        """Make the next forwards use an adapter. To be overridden."""
        self._peft().set_adapter(adapter.name)
        self.kind.activated(self._peft(), adapter)

    def _peft(self) -> Any:
        """The model as PEFT knows it, compiled or not."""
        return getattr(self.model, "_orig_mod", self.model)


def _share(own: Batch, whole: Batch) -> float:
    return 1.0 if own is whole else own.loss_cnt() / max(1, whole.loss_cnt())


def _whole(spec: RunSpec) -> AdapterSpec:
    return AdapterSpec(_WHOLE, 0, 0.0, 0.0, (), spec.learning_rate[0], spec.batch_size[0], spec.grad_accum[0])
