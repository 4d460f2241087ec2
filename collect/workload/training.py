"""The training loop: data, forward, backward, optimizer, for one adapter or for all of them at once.

It knows no profiler: phases are named by a function that is given to it, by default span().
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import UsageError
from ..batch_lora.dropout import Clock, on
from ..batch_lora.stacked import Stack
from ..batch_lora.wrapping import BatchLora
from ..instruments.ledger import Ledger
from ..instruments.ranges import annotate
from ..instruments.spans import span
from ..settings.spec import AdapterSpec, RunSpec
from ..settings.tasks import SST2
from . import adapters, losses, models, optimizers, packing, saved_batch, sst2, step_graph
from .data import Batch, Source
from .evaluation import Evaluation, evaluate
from .kinds import kind_of
from .loader import Ahead, Loaded, Padded, late, load
from .step import Done, MicroStep, Piece, Task, micro_steps_of, tokens_of

_KNOWN_CONSTANTS = 256
_WHOLE = "model"  # stands for the adapter in full fine-tuning

Phase = Callable[[str], AbstractContextManager[None]]


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
        batch = self._saved_batch()
        if spec.has_adapters:
            self.model = adapters.attach(self.base, spec, self.adapters, self.clock)
        self.batch_lora: BatchLora | None = None
        if spec.peft_mode == "batch":
            self.batch_lora = BatchLora(self.model, spec.batch_operator, spec.graph_pruning, self.clock)
        self.stack = self._stack()
        self.loss = losses.make(spec, self.base, device)
        self._spread()
        self._compile()
        if with_ranges:
            self.annotate()
        self.total_steps = spec.warmup + spec.steps  # that the learning rate's schedule spans
        self.splits: sst2.Splits | None = None
        self.notes: list[str] = []
        self._streams = late(self._open_streams(batch), spec.batch_delay_ms)
        if models.is_configuration(spec.model):
            self.notes.append(f"--model {spec.model} is a configuration without weights: they are random")
        if spec.cuda_graph:
            self._streams = {n: Padded(s, step_graph.BUCKET_TOKENS) for n, s in self._streams.items()}
        self.optimizers = self._optimizers()
        self._active: str | None = None
        self.phase: Phase = span
        self.behind_micro_step: Callable[[], None] = lambda: None
        self.graphs: step_graph.StepGraphs | None = None
        if spec.cuda_graph:
            step_graph.check(self.base, spec, device, batch)
            if self.batch_lora is not None:
                self.batch_lora.keep_masks()
            self.graphs = step_graph.StepGraphs(self._recorded_parameters(), self.clock, device, self.notes)
        self._constants: dict[tuple[float, ...], torch.Tensor] = {}
        self._ahead = self._loader()  # processes, so behind all that may fail

    def _spread(self) -> None:
        """Put the model on several devices; here it stays on its own. To be overridden."""

    def _saved_batch(self) -> Batch | None:
        """The batch of --batch, which also says how many rows an adapter has; None where data are drawn."""
        if not self.spec.batch:
            return None
        config = self.base.config
        longest = getattr(config, "max_position_embeddings", None)
        batch = saved_batch.load(Path(self.spec.batch), config.vocab_size, self._class_cnt(), longest)
        self.adapters = [dataclasses.replace(a, batch_size=batch.rows) for a in self.adapters]
        return batch

    def _class_cnt(self) -> int | None:
        return self.base.config.num_labels if models.is_classifier(self.base) else None

    def _compile(self) -> None:
        self.is_compiled = self.spec.is_compiled
        if self.is_compiled:
            self.model = torch.compile(self.model)
        elif self.spec.compile == "parts":
            parts = models.without_adapters(self._peft())
            for part in parts:
                part.compile()
            if not parts:
                raise UsageError(f"--compile parts: {self.spec.model} has no modules without adapters that it knows")

    def _stack(self) -> Stack | None:
        """The adapters' weights in one tensor, if that was asked for."""
        if self.batch_lora is None or self.spec.adapter_storage != "stacked":
            return None
        own = next(p.dtype for p in self.model.parameters() if p.requires_grad)
        return self.batch_lora.stack(own if self.spec.autocast == "none" else getattr(torch, self.spec.autocast))

    def _recorded_parameters(self) -> list[nn.Parameter]:
        """What a recorded backward makes gradients of: not those of a stack, which stay where they are."""
        own = {id(p) for p in self.stack.parameters} if self.stack else set()
        trained = [p for a in self.adapters for p in self.parameters(a)]  # switching lets one adapter's be trained
        return [p for p in trained if id(p) not in own]

    def annotate(self) -> ExitStack:
        """Put ranges around the modules until the result is closed; compiled graphs have none."""
        put = ExitStack()
        if not self.is_compiled:
            inner = self.model.get_base_model() if self.spec.has_adapters else self.model
            put.enter_context(annotate(inner, self.spec.range_depth, root=""))
            put.enter_context(annotate(self.loss, self.spec.range_depth, root="loss"))
        return put

    def ledger(self) -> Ledger:
        """What the storages of the model, its gradients, optimizers and inputs are for."""
        model = getattr(self.model, "_orig_mod", self.model)
        shared = self.stack.storages() if self.stack else []
        optimizers = list(dict.fromkeys(self.optimizers.values()))
        return Ledger([model, self.loss], optimizers, with_saved=not self.is_compiled, shared=shared)

    def _loader(self) -> Ahead | None:
        """The workers that make batches; None where the step makes its own."""
        spec = self.spec
        self._pins = spec.pin_memory and self.device.type == "cuda"
        if not spec.pin_memory and self.device.type != "cuda":
            raise UsageError("--no-pin-memory is about copies to a GPU, and this run has none: it would change nothing")
        return Ahead(self._streams, self._order(), spec.loader_workers, self._pins) if spec.loader_workers else None

    def _order(self) -> Iterator[tuple[str, ...]]:
        """Whose batches the micro steps take: of warm-up, of the measured steps, then of one step after another."""
        spec = self.spec
        parts = itertools.chain(
            (self.iterations(0, spec.warmup), self.iterations(spec.warmup, spec.steps)),
            (self.iterations(step, 1) for step in itertools.count(spec.warmup + spec.steps)),
        )
        for tasks in itertools.chain.from_iterable(parts):
            for task in tasks:
                yield from (tuple(a.name for a in taking_part) for taking_part in task.micro_steps())

    def load_ahead(self) -> None:
        """Have workers make batches before they are asked for, from now on."""
        if self._ahead is not None:
            self._ahead.go()

    def close(self) -> None:
        """End the workers."""
        if self._ahead is not None:
            self._ahead.close()

    def _load(self, adapters: Sequence[AdapterSpec]) -> Loaded:
        """What the next micro step of some adapters trains."""
        names = [a.name for a in adapters]
        if self._ahead is not None:
            return self._ahead.next(names)
        loaded = load(self._streams, names, self._own)
        return loaded.pin_memory() if self._pins else loaded

    def _open_streams(self, batch: Batch | None) -> dict[str, Any]:
        if batch is not None:
            return {a.name: saved_batch.SavedBatch(batch) for a in self.adapters}
        classes, (tokenizer, why_none) = self._class_cnt(), models.load_tokenizer(self.spec)
        if self.spec.task == SST2:
            if why_none:
                self.notes.append(f"--model {self.spec.model}: {why_none}, so words are numbered by lorabench")
            return self._open_epochs(tokenizer, classes or 0)
        source = Source(self.spec, self.base.config.vocab_size, classes, tokenizer, why_none)
        self.notes = source.notes
        return {a.name: source.stream(a.name, a.batch_size) for a in self.adapters}

    def _open_epochs(self, tokenizer: Any, classes: int) -> dict[str, Any]:
        (adapter,) = self.adapters
        splits = sst2.load(self.spec, tokenizer, self.base.config.vocab_size, classes)
        epochs = sst2.Epochs(
            splits, self.spec, adapter.name, adapter.batch_size, adapter.grad_accum, self.base.config.pad_token_id
        )
        self.splits, self.steps_per_epoch = splits, epochs.steps_per_epoch
        self.total_steps = self.spec.epochs * epochs.steps_per_epoch
        self.kind.counted(self._peft(), self.total_steps)
        return {adapter.name: epochs}

    def evaluate(self) -> Evaluation:
        """Loss and accuracy on the validation sentences of a task in epochs."""
        assert self.splits is not None
        (adapter,) = self.adapters
        padding = self.base.config.pad_token_id
        with self._autocast():
            return evaluate(self.model, self.splits.validation, adapter.batch_size, padding, self.device)

    def named_parameters(self, adapter: AdapterSpec) -> dict[str, nn.Parameter]:
        """What the adapter trains, by name."""
        if not self.spec.has_adapters:
            return dict(self.base.named_parameters())
        return adapters.parameters_of(self.model, adapter.name)

    def adapter_flop(self) -> dict[str, tuple[int, int]]:
        """FLOP of a token's forward through each adapter: with weights that are frozen, and that are trained."""
        if not self.spec.has_adapters:
            return {}
        return {a.name: self.kind.flop(self._peft(), a) for a in self.adapters}

    def parameters(self, adapter: AdapterSpec) -> list[nn.Parameter]:
        """What the adapter trains."""
        return list(self.named_parameters(adapter).values())

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """One for each adapter, or one that all have in common. To be overridden."""
        if self.stack is not None:
            groups = self.stack.groups([a.learning_rate for a in self.adapters])
            return dict.fromkeys(self.stack.names, optimizers.make(self.spec, groups, self.adapters[0].learning_rate))
        return {a.name: self._optimizer(a) for a in self.adapters}

    def _optimizer(self, adapter: AdapterSpec) -> torch.optim.Optimizer:
        if own := self.kind.optimizer(self.model, adapter):
            return own
        return optimizers.make(self.spec, self._groups(adapter), adapter.learning_rate)

    def _set_learning_rates(self, task: Task) -> None:
        spec = self.spec
        if spec.lr_schedule == "constant" and not spec.lr_warmup_steps:
            return
        factor = optimizers.rate_factor(spec.lr_schedule, spec.lr_warmup_steps, self.total_steps, task.step)
        for a in task.adapters:
            for group in self.optimizers[a.name].param_groups:
                group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor

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
            self._correct = torch.zeros((), dtype=torch.int64, device=self.device) if self.splits else None
            pieces, waited = [], 0
            for taking_part in task.micro_steps():
                start = time.perf_counter_ns()
                with self.phase("data"):
                    pieces.append(Piece(taking_part, self._load(taking_part)))
                waited += time.perf_counter_ns() - start
            for micro in micro_steps_of(pieces):
                found = self._micro_step(micro)
                self.behind_micro_step()
                share = found.detach() * self._constant(micro.weights, found)
                if len(micro.adapters) == len(task.adapters):
                    total += share
                else:
                    total[[task.adapters.index(a) for a in micro.adapters]] += share
            start = time.perf_counter_ns()
            with self.phase("optimizer"):
                self._set_learning_rates(task)
                self._let_optimizers_step(task)
            optimizer_ns = time.perf_counter_ns() - start
        loaded = [piece.loaded for piece in pieces]
        own_cnt = sum(one.batch.input_ids.numel() for one in loaded)
        return Done(
            task, total, tokens_of(pieces), own_cnt * self.replica_cnt, max(one.batch.looked_at() for one in loaded),
            sum(one.row_cnt for one in loaded), own_cnt, correct=self._correct, waited_ns=waited,
            made_ns=sum(one.made_ns for one in loaded), optimizer_ns=optimizer_ns,
        )  # fmt: skip

    def _let_optimizers_step(self, task: Task) -> None:
        """Let the optimizers of a task's adapters step, and forget the gradients."""
        if self.stack is not None:
            self.optimizers[task.adapters[0].name].step()
            self.stack.forget_gradients()
            return
        for a in task.adapters:
            if (optimizer := self.optimizers.get(a.name)) is None:
                continue
            optimizer.step()
            self.kind.stepped(self._peft(), a, task.step)
            optimizer.zero_grad(set_to_none=True)

    def _own(self, batch: Batch) -> Batch:
        """What this process computes of an adapter's batch: all of it. To be overridden."""
        return batch

    def _micro_step(self, micro: MicroStep) -> torch.Tensor:
        """Forward and backward of one batch; the loss of each adapter, or this process's share of it.

        To be overridden.
        """
        with self.phase("h2d"):
            batch = micro.batch.to(self.device, self._pins)
        with self._sharing(micro.adapters, micro.rows):
            if self.graphs is None:
                return self._compute(micro, batch)
            names = [a.name for a in micro.adapters]
            return self.graphs.run(names, micro.rows, batch, lambda batch: self._compute(micro, batch))

    def _compute(self, micro: MicroStep, batch: Batch) -> torch.Tensor:
        """Forward and backward of a batch that is on the device."""
        with self.phase("forward"), self._autocast():
            logits = self._call(batch).logits
            found: torch.Tensor = self.loss(logits, batch.labels, micro.rows)
            if self._correct is not None:
                self._correct += (logits.detach().argmax(-1) == batch.labels).sum()
            del logits
            if micro.shares != [1.0] * len(micro.shares):
                found = found * self._constant(micro.shares, found)
            share = self._constant([self.replica_cnt * weight for weight in micro.weights], found)
            loss = (found * share).sum()
            if (penalty := self.kind.penalty(self._peft(), micro.adapters[0])) is not None:
                loss = loss + penalty * share.mean()
        with self.phase("backward"):
            loss.backward()
        return found

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.spec.autocast == "none":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.spec.autocast))

    def _constant(self, values: Sequence[float], like: torch.Tensor) -> torch.Tensor:
        """Numbers on the device, the first ones copied there once: recorded kernels read them where they are."""
        key = tuple(values)
        if key in self._constants:
            return self._constants[key]
        made = on(like.device, torch.tensor(key, dtype=like.dtype))
        if len(self._constants) < _KNOWN_CONSTANTS:
            self._constants[key] = made
        return made

    def _call(self, batch: Batch) -> Any:
        """The model's output. To be overridden."""
        return self.model(**batch.inputs())

    def _sharing(self, taking_part: list[AdapterSpec], rows: list[int]) -> AbstractContextManager[None]:
        """Make the adapters active that the next forward trains."""
        if self.batch_lora is not None:
            return self.batch_lora.union([a.name for a in taking_part], rows, self.device)
        (adapter,) = taking_part
        if self.spec.has_adapters and adapter.name != self._active:
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


def _whole(spec: RunSpec) -> AdapterSpec:
    return AdapterSpec(_WHOLE, 0, 0.0, 0.0, (), spec.learning_rate[0], spec.batch_size[0], spec.grad_accum[0])
