"""LoRA pipeline parallel (mLoRA): stages of a pipeline that micro-batches of different adapters keep busy.

An own loop over the order of lorapp_order.py, with a send for each message and a receive that was asked for beforehand.
Steps follow each other without a flush: a stage that is done with an adapter's step may begin the next one while others
still compute this one, up to the last step that was announced by iterations().

No dead lock without overlap, where each send is waited for: as many receives are asked for as micro-batches can be
under way, so whatever a neighbour sends has been asked for.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from ..instruments.spans import span
from ..workload.data import Batch
from ..workload.step import Done, Task, weights_of
from .lorapp_order import BACKWARD, FORWARD, Action, Item, order, sent
from .pp import StagedTrainer
from .sharing import choose_adapter

Tokens = tuple[int, int, int]


@dataclass
class _Step:
    """The batch of an adapter's step, cut into micro-batches, and what came of it."""

    parts: list[Batch]  # on the device
    weights: torch.Tensor
    tokens: Tokens
    computed_cnt: int
    longest: int
    loss: torch.Tensor


@dataclass
class _Flight:
    """A micro-batch between its forward and its backward."""

    given: torch.Tensor
    result: torch.Tensor


@dataclass
class _Inbox:
    """Messages from one neighbour, in the order in which it sends them; so many are asked for beforehand."""

    peer: int
    group: Any
    waiting: deque[Item]
    asked: dict[Item, tuple[torch.Tensor, Any]] = field(default_factory=dict)


class LoraPipeline(StagedTrainer):
    """See the module."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        everyone = list(range(self.rank.cnt))
        # a group for each direction: messages between two ranks in both directions must not wait for each other
        self._down, self._up = (dist.new_group(everyone) if self.rank.cnt > 1 else None for _ in range(2))
        self._stage = self.stages[0]
        self._actions: deque[Action] = deque()
        self._steps: dict[tuple[int, int], _Step] = {}
        self._updated: set[tuple[int, int]] = set()
        self._flights: dict[Item, _Flight] = {}
        self._sending: deque[tuple[Any, torch.Tensor]] = deque()
        self._inboxes: dict[str, _Inbox] = {}
        self._next_step = self._announced_cnt = 0
        self._depth = sum(self.micro_cnt * a.grad_accum for a in self.adapters)

    def iterations(self, first: int, count: int) -> Iterator[list[Task]]:
        """A task is a step of all adapters. The order of all steps is worked out here."""
        self._plan(count)
        yield from ([Task(step, tuple(self.adapters))] for step in range(first, first + count))

    def _plan(self, count: int) -> None:
        micro_cnts = [self.micro_cnt * a.grad_accum for a in self.adapters]
        ranks = order(self.rank.cnt, micro_cnts, self._announced_cnt, count)
        self._announced_cnt += count
        number = self.rank.number
        self._actions.extend(ranks[number])
        self._inboxes = {}
        if number > 0:
            self._inboxes[FORWARD] = _Inbox(number - 1, self._down, deque(sent(ranks[number - 1], FORWARD)))
        if number + 1 < self.rank.cnt:
            self._inboxes[BACKWARD] = _Inbox(number + 1, self._up, deque(sent(ranks[number + 1], BACKWARD)))

    def run(self, task: Task) -> Done:
        """Compute until this rank has updated all adapters of the step."""
        self.watch.take()
        wanted = [(n, self._next_step) for n in range(len(self.adapters))]
        with span("step", task.step):
            for inbox in self._inboxes.values():
                self._ask(inbox)
            while not self._updated.issuperset(wanted):
                self._act(self._actions.popleft())
            if not self._actions:
                self._finish_sending(0)
        self._next_step += 1
        self._updated.difference_update(wanted)
        steps = [self._steps.pop(key) for key in wanted]
        computed = sum(s.computed_cnt for s in steps)
        tokens = {a.name: s.tokens for a, s in zip(self.adapters, steps, strict=True)}
        losses = torch.stack([s.loss for s in steps])
        rows = sum(a.batch_size * a.grad_accum for a in self.adapters)
        longest = max(s.longest for s in steps)
        return Done(task, losses, tokens, computed, longest, rows, computed, self.watch.take())

    def _act(self, action: Action) -> None:
        item = action.item
        if action.kind == FORWARD:
            self._forward(item)
        elif action.kind == BACKWARD:
            self._backward(item)
        else:
            self._update(item)

    def _forward(self, item: Item) -> None:
        step = self._step(item)
        part = step.parts[item.micro]
        given = part.input_ids if self._stage.has_embedding else self._receive(FORWARD, item).requires_grad_()
        self._turn_to(item)
        with self.phase("forward"):
            result = self._stage(given, part.attention_mask, part.labels, step.weights[item.micro])
        self._flights[item] = _Flight(given, result)
        if self._stage.is_last:
            step.loss += result.detach()
        else:
            self._send(result.detach(), self.rank.number + 1, self._down)

    def _backward(self, item: Item) -> None:
        flight = self._flights.pop(item)
        gradient = None if self._stage.is_last else self._receive(BACKWARD, item)
        self._turn_to(item)
        with self.phase("backward"):
            flight.result.backward(gradient)
        if not self._stage.has_embedding:
            assert flight.given.grad is not None
            self._send(flight.given.grad, self.rank.number - 1, self._up)

    def _update(self, item: Item) -> None:
        optimizer = self.optimizers.get(self.adapters[item.adapter].name)
        if optimizer is not None:
            with self.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        self._updated.add((item.adapter, item.step))

    def _turn_to(self, item: Item) -> None:
        """Make the micro-batch's adapter and its dropout the present ones, also for a recomputation."""
        adapter = self.adapters[item.adapter]
        choose_adapter(self.model, adapter.name)
        accumulated, micro = divmod(item.micro, self.micro_cnt)
        self.clock.micro_steps[adapter.name] = item.step * adapter.grad_accum + accumulated
        self.clock.first_rows[adapter.name] = micro * (adapter.batch_size // self.micro_cnt)

    def _step(self, item: Item) -> _Step:
        """The batch of an item's step; all ranks draw the same."""
        key = item.adapter, item.step
        if key not in self._steps:
            self._steps[key] = self._draw(item.adapter)
        return self._steps[key]

    def _draw(self, number: int) -> _Step:
        adapter = self.adapters[number]
        with self.phase("data"):
            batches = [self._streams[adapter.name].next() for _ in range(adapter.grad_accum)]
            shares = weights_of([{adapter.name: batch.loss_cnt()} for batch in batches])
            weights = torch.cat(
                [self.weights(b, self.micro_cnt, own) for b, (own,) in zip(batches, shares, strict=True)]
            )
            x, y, z = (sum(counts) for counts in zip(*(batch.tokens() for batch in batches), strict=True))
        rows = adapter.batch_size // self.micro_cnt
        with self.phase("h2d"):
            moved = [batch.to(self.device) for batch in batches]
            weights = weights.to(self.device)
        parts = [batch.part(n * rows, (n + 1) * rows) for batch in moved for n in range(self.micro_cnt)]
        longest = max(batch.input_ids.shape[1] for batch in batches)
        return _Step(parts, weights, (x, y, z), x, longest, torch.zeros((), device=self.device))

    def _ask(self, inbox: _Inbox) -> None:
        """Ask for the next messages, as many as can be under way."""
        while inbox.waiting and len(inbox.asked) < self._depth:
            item = inbox.waiting.popleft()
            shape = (*self._step(item).parts[item.micro].input_ids.shape, self._stage.config.hidden_size)
            buffer = torch.empty(shape, dtype=self.dtype, device=self.device)
            with self._unseen():
                inbox.asked[item] = buffer, dist.irecv(buffer, inbox.peer, group=inbox.group)

    def _receive(self, kind: str, item: Item) -> torch.Tensor:
        inbox = self._inboxes[kind]
        buffer, work = inbox.asked.pop(item)
        with self.phase("recv"):
            work.wait()
        self._ask(inbox)
        return buffer

    def _send(self, tensor: torch.Tensor, peer: int, group: Any) -> None:
        tensor = tensor.contiguous()
        with self.phase("send"):
            with self._unseen():
                self._sending.append((dist.isend(tensor, peer, group=group), tensor))
            self._finish_sending(self._depth if self.spec.overlap else 0)

    @contextmanager
    def _unseen(self) -> Iterator[None]:
        """Inside, torch records nothing of gloo: its ranges last until a message is there, across all that is between.

        NCCL's are on the GPU's streams, and stay.
        """
        is_gloo = self.device.type == "cpu"
        if is_gloo:
            torch._C._autograd._enable_record_function(False)
        try:
            yield
        finally:
            if is_gloo:
                torch._C._autograd._enable_record_function(True)

    def _finish_sending(self, left: int) -> None:
        """Wait until no more than `left` messages are being sent; a tensor lives as long as its message."""
        while len(self._sending) > left:
            self._sending.popleft()[0].wait()
