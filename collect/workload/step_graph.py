"""Forward and backward of a step recorded as a CUDA graph, which the CPU launches as one.

    a shape of batch    first time      second time             later
    CPU                 launch, launch… record, then replay     copy the batch, the dropout's keys; replay
    GPU                 kernels         (nothing while          the same kernels at the same addresses
                                         recording) kernels

A graph knows addresses, not tensors: what changes from step to step (the batch, the keys of dropout) is copied into the
tensors that it was recorded with, and gradients appear in those that the recorded backward wrote.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...errors import UsageError
from ..batch_lora.dropout import Clock
from ..instruments.spans import span
from ..settings.spec import RunSpec
from .data import Batch
from .models import is_classifier

BUCKET_TOKENS = 128  # sequences are padded to multiples, so that a few graphs serve all lengths
MOST_GRAPHS = 32  # each keeps its batch and, unless adapters are stacked, its gradients; activations share one pool
_ATTENTION = "lorabench_causal"
Compute = Callable[[Batch], torch.Tensor]


@dataclass(frozen=True)
class _Recorded:
    """A graph with the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    losses: torch.Tensor
    gradients: list[tuple[nn.Parameter, torch.Tensor]]


class StepGraphs:
    """The graphs of a run, one for each shape of batch and set of adapters.

    parameters: what is trained and gets new gradients in each step; after a call they are those of the batch. What
    else recorded kernels read must stay where it is. notes: gets a line where something is launched call by call.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], clock: Clock, device: torch.device, notes: list[str]):
        self._parameters, self._clock, self._device, self._notes = list(parameters), clock, device, notes
        self._recorded: dict[Any, _Recorded | None] = {}
        self._pool: Any = None
        self._is_off = self._is_full = False

    def run(self, names: Sequence[str], rows: Sequence[int], batch: Batch, compute: Compute) -> torch.Tensor:
        """The losses of `compute(batch)`, which runs forward and backward of a batch on the device."""
        key = (tuple(names), tuple(rows), tuple(batch.input_ids.shape))
        if self._is_off or key not in self._recorded:
            if not self._is_off:
                self._remember(key)
            return compute(batch)
        self._clock.row_keys(names, rows, self._device)  # which fills the tensor that recorded kernels read
        found = self._recorded[key]
        if found is None:
            stream = torch.cuda.current_stream(self._device)
            try:
                found = self._recorded[key] = self._record(batch, compute)
            except (RuntimeError, ValueError, TypeError) as error:
                self._give_up(error, stream)
                return compute(batch)
        for place, tensor in zip(found.batch.tensors(), batch.tensors(), strict=True):
            place.copy_(tensor, non_blocking=True)
        with span("graph"):
            found.graph.replay()
        for parameter, gradient in found.gradients:
            parameter.grad = gradient
        return found.losses.clone()

    def _remember(self, key: Any) -> None:
        """Record the next batch of this shape, if there is room for another graph."""
        if len(self._recorded) < MOST_GRAPHS:
            self._recorded[key] = None
            self._clock.hold(key[0], key[1], self._device)
        elif not self._is_full:
            self._is_full = True
            self._notes.append(
                f"--cuda-graph: {MOST_GRAPHS} shapes of batches are recorded; others are launched call by call"
            )

    def _give_up(self, error: Exception, stream: Any) -> None:
        """Go on without graphs: let go of their memory, and leave the stream that was recorded."""
        self._is_off = True
        torch.cuda.set_stream(stream)
        torch.cuda.synchronize(self._device)
        for parameter in self._parameters:
            parameter.grad = None
        self._recorded.clear()
        self._pool = None
        torch.cuda.empty_cache()
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        self._notes.append(f"--cuda-graph: the step cannot be recorded ({first}); launched call by call")

    def _record(self, batch: Batch, compute: Compute) -> _Recorded:
        for parameter in self._parameters:
            parameter.grad = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            losses = compute(batch).detach()
        self._pool = self._pool or graph.pool()
        return _Recorded(graph, batch, losses, [(p, p.grad) for p in self._parameters if p.grad is not None])


def attend_causally(model: Any) -> None:
    """Have a decoder attend to what is before a token by sdpa's own causal mask, whatever is padded behind it.

    Batches are padded on the right, so what a token may see is the same; a mask as a tensor, which transformers makes
    while a graph is recorded, would keep sdpa from its fastest kernels.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    AttentionInterface.register(_ATTENTION, sdpa_attention_forward)
    AttentionMaskInterface.register(_ATTENTION, _no_mask)
    model.set_attn_implementation(_ATTENTION)


def _no_mask(*_: Any, **__: Any) -> None:
    return None


def require_gpu(device: torch.device) -> None:
    """Raise UsageError on a device that has no graphs."""
    if device.type != "cuda":
        raise UsageError("--cuda-graph is about launching work on a GPU, and this run has none; leave it out")


def check(base: Any, spec: RunSpec, device: torch.device, batch: Batch | None) -> None:
    """Make a model ready to be recorded, with the batch of --batch if there is one.

    Raises UsageError where a run's steps cannot be.
    """
    require_gpu(device)
    if why := why_not(base):
        raise UsageError(f"--cuda-graph is not possible with {spec.model}: {why}")
    if batch is not None and bool((batch.attention_mask.diff(dim=1) > 0).any()):
        raise UsageError("--cuda-graph is for batches padded on the right, and --batch has padding before a token")
    attend_causally(base)


def why_not(model: nn.Module) -> str:
    """Why the steps of a model cannot be recorded; empty if they can."""
    config: Any = getattr(model, "config", None)
    if is_classifier(model):
        return "it is for decoders that learn next tokens"
    kinds = set(getattr(config, "layer_types", None) or ())
    if kinds - {"full_attention"} or (not kinds and getattr(config, "sliding_window", None)):
        return "its layers see a window of the tokens, which needs a mask"
    has_dropout = any(isinstance(m, nn.Dropout) and m.p > 0 for m in model.modules())
    if has_dropout or float(getattr(config, "attention_dropout", 0.0)) > 0:
        return "it has dropout of its own, which a recomputation must repeat"
    return ""
