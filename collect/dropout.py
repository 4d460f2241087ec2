"""Dropout whose mask follows from who, when and where, not from what was drawn before.

PyTorch draws masks from one stream of random numbers, so a mask depends on everything drawn earlier, on the padding
and on who shares the batch. Here a mask is a hash of (adapter, its micro step, layer, row, position, feature): an
adapter sees the same masks alone and in any union batch, and a recomputation in the backward sees them again without
their having been kept. It takes a constant number of launches however many adapters share the batch.
"""

import zlib
from dataclasses import dataclass, field

import torch
from torch import nn

_MASK32 = 0xFFFFFFFF
_ODD = 0x7FEB352D, 0x846CA68B  # constants of a public 32-bit hash with low bias (Wellons, "lowbias32")


def _signed(value: int) -> int:
    """A number as the signed 32-bit integer with the same bits."""
    value &= _MASK32
    return value - (1 << 32) if value >> 31 else value


def _mixed(value: int) -> int:
    """A 32-bit hash of an integer."""
    value &= _MASK32
    for odd, shift in ((_ODD[0], 15), (_ODD[1], 16)):
        value = (value ^ (value >> shift)) * odd & _MASK32
    return value ^ (value >> 16)


def _mix(value: torch.Tensor) -> torch.Tensor:
    """The same idea on int32 tensors, in place; their arithmetic shift costs a bit and nothing else."""
    value ^= value >> 15
    value *= _signed(_ODD[0])
    value ^= value >> 16
    value *= _signed(_ODD[1])
    return value


@dataclass
class Clock:
    """Which micro step each adapter is in; shared by all dropout layers of a model."""

    seed: int = 0
    micro_steps: dict[str, int] = field(default_factory=dict)

    def advance(self, adapter: str) -> None:
        """Begin the adapter's next micro step, before its forward."""
        self.micro_steps[adapter] = self.micro_steps.get(adapter, -1) + 1

    def key(self, adapter: str) -> int:
        """A number for the adapter's present micro step."""
        name = zlib.crc32(adapter.encode())
        return _mixed(_mixed(_mixed(self.seed) ^ name) + self.micro_steps.get(adapter, 0))


def row_keys(keys: list[int], rows: list[int], device: torch.device) -> torch.Tensor:
    """One int32 for each row of a union batch: adapters' keys, each repeated for its rows and told apart by row."""
    values = [
        _signed(_mixed(key ^ _mixed(row + 1))) for key, count in zip(keys, rows, strict=True) for row in range(count)
    ]
    return torch.tensor(values, dtype=torch.int32, device=device)


def keep(row_key: torch.Tensor, layer: int, shape: torch.Size, rate: float | torch.Tensor) -> torch.Tensor:
    """The mask of a [rows, …, features] tensor: True where a value stays.

    rate is the probability of dropping, one for all rows or a float64 tensor with one for each.
    """
    features, rows = shape[-1], shape[0]
    positions = shape[1:-1].numel()
    device = row_key.device
    position = torch.arange(positions, dtype=torch.int32, device=device)
    feature = torch.arange(features, dtype=torch.int32, device=device)
    where = _mix(row_key[:, None] ^ (position[None, :] * _signed(_ODD[1]) + _signed(_mixed(layer))))
    value = where[:, :, None] ^ _mix(feature * _signed(_ODD[0]) + _signed(_mixed(layer + 1)))
    value = _mix(value).view(shape)
    if isinstance(rate, torch.Tensor):
        limit = (rate * 2.0**32 - 2**31).round().clamp(-(2**31), 2**31 - 1).to(torch.int32)
        return value >= limit.view(rows, *[1] * (len(shape) - 1))
    return value >= max(-(2**31), min(2**31 - 1, round(rate * 2**32) - 2**31))


class ReplayedDropout(nn.Module):
    """Takes the place of nn.Dropout in PEFT's lora_dropout, for one adapter trained alone."""

    def __init__(self, rate: float, adapter: str, layer: int, clock: Clock):
        super().__init__()
        self.p, self.adapter, self.layer, self.clock = rate, adapter, layer, clock

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x with a share of its values zeroed and the others scaled up; x itself outside training."""
        if not self.training or self.p == 0:
            return x
        rows = row_keys([self.clock.key(self.adapter)], [len(x)], x.device)
        return x * keep(rows, self.layer, x.shape, self.p) * (1 / (1 - self.p))

    def extra_repr(self) -> str:
        """What print() shows."""
        return f"p={self.p}, adapter={self.adapter}"
