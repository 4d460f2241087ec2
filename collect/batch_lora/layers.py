"""PEFT's LoRA layers in a model: which there are, and dropout in them that can be replayed."""

import zlib
from typing import Any

from torch import nn

from .dropout import Clock, ReplayedDropout


def lora_layers(model: nn.Module) -> dict[str, Any]:
    """PEFT's LoRA layers by name, in the order of the names: who quantizes a model may put its layers in another."""
    from peft.tuners.lora import LoraLayer

    return dict(sorted((n, m) for n, m in model.named_modules() if isinstance(m, LoraLayer)))


def layer_key(name: str) -> int:
    """A number for a layer's name."""
    return zlib.crc32(name.encode())


def replay_dropout(model: nn.Module, clock: Clock) -> None:
    """Put ReplayedDropout in the place of each adapter's nn.Dropout; layers are told apart by their names."""
    for name, layer in list(model.named_modules()):
        for kind in ("lora_dropout", "vera_dropout"):
            dropouts: Any = getattr(layer, kind, {})
            for adapter, dropout in list(dropouts.items()):
                if isinstance(dropout, nn.Dropout) and dropout.p > 0:
                    dropouts[adapter] = ReplayedDropout(dropout.p, adapter, layer_key(name), clock)
