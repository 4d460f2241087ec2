"""The loss of next tokens without all logits at once: the model's head is left to the loss.

Logits of a long text are the largest tensor of a fine-tuning: tokens x words, and as much again for their gradient.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ...errors import UsageError
from ..batch_lora.wrapping import arithmetic_dtype, mean_by_adapter
from ..settings.spec import CHUNK_TOKENS
from .data import IGNORED

_SCALES = ("final_logit_softcapping", "logits_scaling", "logit_scale", "lm_head_multiplier")


class HeadLoss(nn.Module):
    """Loss of each adapter from the hidden states of its tokens, by `kind`: chunked or cut."""

    def __init__(self, model: Any, kind: str):
        """Take the head out of the model's forward, which gives hidden states from now on; its weights stay in place.

        Raises UsageError for a model that does more with its head than one product.
        """
        super().__init__()
        head: Any = model.get_output_embeddings()
        scaled = [name for name in _SCALES if getattr(model.config, name, None) not in (None, 1, 1.0)]
        if type(head) is not nn.Linear or scaled:
            why = f"its logits are changed by {scaled[0]}" if scaled else f"its head is a {type(head).__name__}"
            raise UsageError(f"--loss {kind} is not possible with this model: {why}; use --loss full")
        vars(head)["forward"] = _unchanged  # an attribute of this module alone
        self._head = [head]  # in a list: its weights are the model's, not the loss'
        self._each = _cut if kind == "cut" else _chunked

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """As losses() of logits."""
        (head,) = self._head
        width = hidden.shape[-1]
        each = self._each(hidden[:, :-1].reshape(-1, width), head, labels[:, 1:].reshape(-1))
        return mean_by_adapter(each.view(len(labels), -1), labels, rows, IGNORED)


def _unchanged(hidden: torch.Tensor) -> torch.Tensor:
    return hidden


def _chunked(hidden: torch.Tensor, head: nn.Linear, targets: torch.Tensor) -> torch.Tensor:
    # autocast would cast in the forward alone, and the backward computes the same products again
    kind = arithmetic_dtype(hidden, head.weight)
    weight, bias = head.weight.to(kind), None if head.bias is None else head.bias.to(kind)
    each: torch.Tensor = ChunkedCrossEntropy.apply(hidden.to(kind), weight, bias, targets, CHUNK_TOKENS)  # type: ignore[no-untyped-call]
    return each


def _cut(hidden: torch.Tensor, head: nn.Linear, targets: torch.Tensor) -> torch.Tensor:
    from cut_cross_entropy import linear_cross_entropy

    each: torch.Tensor = linear_cross_entropy(
        hidden, head.weight, targets, bias=head.bias, ignore_index=IGNORED, reduction="none"
    )
    return each


class ChunkedCrossEntropy(torch.autograd.Function):
    """Cross-entropy of each token from hidden states and the head's weights, some tokens at a time.

        hidden [tokens, width] ──┐ of a chunk                kept: a number for each token, log(sum(exp(logits)))
        weight [words, width] ───┴─► logits ─► loss          backward: the chunk's logits again, softmax - one-hot

    Exact: the same sums as cross_entropy of float32 logits. Targets that are IGNORED have the loss 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        chunk: int,
    ) -> torch.Tensor:
        """The loss of each token, float32."""
        each, sums = [], []
        for states, wanted in zip(hidden.split(chunk), targets.split(chunk), strict=True):
            logits = F.linear(states, weight, bias).float()
            sums.append(logits.logsumexp(-1))
            is_used = wanted != IGNORED
            own = logits.gather(1, wanted.clamp(min=0)[:, None])[:, 0]
            each.append((sums[-1] - own).where(is_used, 0.0))
        ctx.save_for_backward(hidden, weight, bias, targets, torch.cat(sums))
        ctx.chunk = chunk
        return torch.cat(each)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Gradients of hidden states and, where they are trained, of weight and bias."""
        (gradient,) = gradients
        hidden, weight, bias, targets, sums = ctx.saved_tensors
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        of_hidden = torch.empty_like(hidden) if needs_hidden else None
        of_weight = torch.zeros_like(weight, dtype=torch.float32) if needs_weight else None
        of_bias = torch.zeros_like(bias, dtype=torch.float32) if needs_bias else None
        for first in range(0, len(hidden), ctx.chunk):
            here = slice(first, first + ctx.chunk)
            wanted = targets[here]
            logits = F.linear(hidden[here], weight, bias).float()
            slope = (logits - sums[here, None]).exp_()
            slope.scatter_add_(1, wanted.clamp(min=0)[:, None], torch.full_like(slope[:, :1], -1.0))
            slope *= (gradient[here] * (wanted != IGNORED))[:, None]
            slope = slope.to(hidden.dtype)
            if of_hidden is not None:
                of_hidden[here] = slope @ weight
            if of_weight is not None:
                of_weight += slope.T @ hidden[here]
            if of_bias is not None:
                of_bias += slope.sum(0)
        return (
            of_hidden,
            None if of_weight is None else of_weight.to(weight.dtype),
            None if of_bias is None else of_bias.to(bias.dtype),
            None,
            None,
        )
