"""Cuts a decoder into the stages of a pipeline: embedding, layers, norm and head are its parts, in this order.

A stage is the model's own code over fewer layers: what it lacks passes its input on. So names of modules, of ranges and
of dropout stay those of the whole model.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .fsdp import decoder_layers

Loss = Callable[[torch.Tensor, torch.Tensor, Sequence[int]], torch.Tensor]


class Elsewhere(nn.Identity):
    """Stands for a part that another stage has."""

    def forward(self, input: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        """The input as it came."""
        return input


class Stage(nn.Module):
    """Consecutive parts of a decoder. The first one takes tokens, the last one gives the loss, not its logits."""

    def __init__(self, whole: Any, first: int, stop: int, loss: Loss | None):
        super().__init__()
        layers = decoder_layers(whole)
        self.config = whole.config
        self.has_embedding, self.is_last = first == 0, loss is not None
        self.layer_cnt = sum(first <= n + 1 < stop for n in range(len(layers)))
        self.model = copy.copy(whole.model)  # shares its parts, until they are put elsewhere
        self.model._modules = dict(whole.model._modules)
        self.model.layers = nn.ModuleList(
            layer if first <= number + 1 < stop else Elsewhere() for number, layer in enumerate(layers)
        )
        if not self.has_embedding:
            self.model.embed_tokens = Elsewhere()
        if not first <= len(layers) + 1 < stop:
            self.model.norm = Elsewhere()
        self.lm_head = whole.lm_head if stop == len(layers) + 3 else Elsewhere()
        self._loss = [loss]  # in a list: it is not a part of this module

    def forward(
        self, x: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        """Hidden states of what came in; of the last stage the loss, times the share that the rows have of a batch."""
        inputs = {"input_ids" if self.has_embedding else "inputs_embeds": x}
        hidden: torch.Tensor = self.lm_head(self.model(**inputs, attention_mask=attention_mask).last_hidden_state)
        (loss,) = self._loss
        return hidden if loss is None else (loss(hidden, labels, [len(labels)]) * weight).sum()


class Stages(nn.Module):
    """The stages of one rank, as the model that it has."""

    def __init__(self, config: Any, stages: Sequence[Stage]):
        super().__init__()
        self.config = config
        self.stages = nn.ModuleList(stages)


def cut(whole: Any, balance: Sequence[int], numbers: Sequence[int], loss: Loss) -> Stages:
    """The stages of these numbers; `balance` says how many parts each of all stages has."""
    borders = [sum(balance[:n]) for n in range(len(balance) + 1)]
    last = len(balance) - 1
    made = [Stage(whole, borders[n], borders[n + 1], loss if n == last else None) for n in numbers]
    return Stages(whole.config, made)
