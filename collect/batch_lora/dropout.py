"""Dropout whose mask follows from who, when and where, not from what was drawn before.

PyTorch draws masks from one stream of random numbers, so a mask depends on everything drawn earlier, on the padding
and on who shares the batch. Here a mask is a hash of (adapter, its micro step, layer, row, position, feature): an
adapter sees the same masks alone and in any union batch, and a recomputation in the backward sees them again without
their having been kept. It takes as many launches for many adapters as for one: a single one on a GPU (drop_kernel.py);
elsewhere torch's operators give the same numbers.
"""

import os
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

_MASK32 = 0xFFFFFFFF
_KNOWN = 64  # tensors of row keys that a clock remembers
ODD = 0x7FEB352D, 0x846CA68B  # constants of a public 32-bit hash with low bias (Wellons, "lowbias32")


def signed(value: int) -> int:
    """A number as the signed 32-bit integer with the same bits."""
    value &= _MASK32
    return value - (1 << 32) if value >> 31 else value


def mixed(value: int) -> int:
    """A 32-bit hash of an integer."""
    value &= _MASK32
    for odd, shift in ((ODD[0], 15), (ODD[1], 16)):
        value = (value ^ (value >> shift)) * odd & _MASK32
    return value ^ (value >> 16)


def _mix(value: torch.Tensor) -> torch.Tensor:
    """The same idea on int32 tensors, in place; their arithmetic shift costs a bit and nothing else."""
    value ^= value >> 15
    value *= signed(ODD[0])
    value ^= value >> 16
    value *= signed(ODD[1])
    return value


@dataclass
class Clock:
    """Which micro step each adapter is in; shared by all dropout layers of a model."""

    seed: int = 0
    micro_steps: dict[str, int] = field(default_factory=dict)
    first_rows: dict[str, int] = field(default_factory=dict)  # of the batch, where others have those before it
    _known: dict[Any, torch.Tensor] = field(default_factory=dict, repr=False)
    _held: dict[Any, tuple[torch.Tensor, Any]] = field(default_factory=dict, repr=False)

    def advance(self, adapter: str) -> None:
        """Begin the adapter's next micro step, before its forward."""
        self.micro_steps[adapter] = self.micro_steps.get(adapter, -1) + 1

    def key(self, adapter: str) -> int:
        """A number for the adapter's present micro step."""
        name = zlib.crc32(adapter.encode())
        return mixed(mixed(mixed(self.seed) ^ name) + self.micro_steps.get(adapter, 0))

    def hold(self, adapters: Sequence[str], rows: Sequence[int], device: torch.device) -> None:
        """Give the keys of these adapters' rows in the same tensor from now on, whatever their micro steps."""
        device = _numbered(device)
        place = torch.empty(sum(rows), dtype=torch.int32, device=device)
        self._held.setdefault((tuple(adapters), tuple(rows), device), (place, None))

    def row_keys(self, adapters: Sequence[str], rows: Sequence[int], device: torch.device) -> torch.Tensor:
        """One int32 for each row of a union batch; all layers of a micro step get the same tensor."""
        device = _numbered(device)
        keys = [self.key(name) for name in adapters]
        first = [self.first_rows.get(name, 0) for name in adapters]
        asked = (tuple(keys), tuple(rows), tuple(first), device)
        where = (tuple(adapters), tuple(rows), device)
        if where in self._held:
            place, now = self._held[where]
            if now != asked:
                place.copy_(row_keys(keys, rows, device, first), non_blocking=True)
                self._held[where] = place, asked
            return place
        if asked not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[asked] = row_keys(keys, rows, device, first)
        return self._known[asked]


def _numbered(device: torch.device) -> torch.device:
    """The device as tensors on it have it: 'cuda' and 'cuda:0' are the same place, and not equal."""
    is_whole = device.type != "cuda" or device.index is not None
    return device if is_whole else torch.device("cuda", torch.cuda.current_device())


def on(device: torch.device, values: torch.Tensor) -> torch.Tensor:
    """The values on a device; a GPU gets them without the CPU waiting for what it still has to do."""
    if device.type != "cuda" or torch.compiler.is_compiling():  # inductor has no pin_memory
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def row_keys(keys: Sequence[int], rows: Sequence[int], device: torch.device, first: Sequence[int] = ()) -> torch.Tensor:
    """One int32 for each row of a union batch: adapters' keys, each repeated for its rows and told apart by row.

    `first` is the number of each adapter's first row, 0 unless other devices have those before it.
    """
    begun = first or [0] * len(keys)
    values = [
        signed(mixed(key ^ mixed(start + row + 1)))
        for key, count, start in zip(keys, rows, begun, strict=True)
        for row in range(count)
    ]
    return on(device, torch.tensor(values, dtype=torch.int32))


@dataclass(frozen=True)
class Rates:
    """How likely rows are to lose a value: one entry for each row, or one for all.

    limit: int32, a value stays where its hash is at least that. gain: float64, what the values that stay are
    multiplied with.
    """

    limit: torch.Tensor
    gain: torch.Tensor

    @classmethod
    def of(cls, rates: Sequence[float], device: torch.device) -> "Rates":
        """From probabilities of dropping."""
        limits = [max(-(2**31), min(2**31 - 1, round(rate * 2**32) - 2**31)) for rate in rates]
        return cls(
            on(device, torch.tensor(limits, dtype=torch.int32)),
            on(device, torch.tensor([1 / (1 - rate) if rate < 1 else 0.0 for rate in rates], dtype=torch.float64)),
        )

    def rows(self, start: int, stop: int) -> "Rates":
        """Those of some of the rows."""
        return Rates(self.limit[start:stop], self.gain[start:stop]) if len(self.limit) > 1 else self


def _constants(layer: int, first_feature: int) -> tuple[int, int]:
    """The layer's two numbers in the hash; features are counted from `first_feature` on."""
    return signed(mixed(layer)), signed(mixed(layer + 1) + first_feature * ODD[0])


def keep(row_key: torch.Tensor, layer: int, shape: torch.Size, rates: Rates, first_feature: int = 0) -> torch.Tensor:
    """The mask of a [rows, …, features] tensor: True where a value stays."""
    first, second = _constants(layer, first_feature)
    positions = shape[1:-1].numel()
    device = row_key.device
    position = torch.arange(positions, dtype=torch.int32, device=device)
    feature = torch.arange(shape[-1], dtype=torch.int32, device=device)
    where = _mix(row_key[:, None] ^ (position[None, :] * signed(ODD[1]) + first))
    value = where[:, :, None] ^ _mix(feature * signed(ODD[0]) + second)
    value = _mix(value).view(shape)
    return value >= rates.limit.view(-1, *[1] * (len(shape) - 1))


def drop(
    tensors: Sequence[torch.Tensor], row_key: torch.Tensor, layer: int, rates: Rates, first_feature: int = 0
) -> list[torch.Tensor]:
    """[rows, …, features] tensors of one shape after the same dropout; not to be differentiated."""
    if has_kernel(tensors[0]):
        from . import drop_kernel

        return [drop_kernel.drop(x, row_key, *_constants(layer, first_feature), rates) for x in tensors]
    kept = keep(row_key, layer, tensors[0].shape, rates, first_feature)
    return [_multiplied(x, kept, rates) for x in tensors]


def dropped(x: torch.Tensor, row_key: torch.Tensor, layer: int, rates: Rates, first_feature: int = 0) -> torch.Tensor:
    """The same for one tensor, to be differentiated."""
    if has_kernel(x):
        result: torch.Tensor = _Drop.apply(x, row_key, layer, rates, first_feature)  # type: ignore[no-untyped-call]
        return result
    return _multiplied(x, keep(row_key, layer, x.shape, rates, first_feature), rates)


def _multiplied(x: torch.Tensor, kept: torch.Tensor, rates: Rates) -> torch.Tensor:
    exact = torch.promote_types(x.dtype, torch.float32)  # a gain in bfloat16 would be off by 0.2 %
    return (x * (kept * rates.gain.to(exact).view(-1, *[1] * (x.ndim - 1)))).to(x.dtype)


class _Drop(torch.autograd.Function):
    """See dropped(): the mask is made again in the backward instead of being kept."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, row_key: torch.Tensor, layer: int, rates: Rates, first_feature: int
    ) -> torch.Tensor:
        ctx.how = row_key, layer, rates, first_feature
        return drop((x,), *ctx.how)[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return drop(grads, *ctx.how)[0], None, None, None, None


def has_kernel(x: torch.Tensor) -> bool:
    """Whether one kernel does it; inductor fuses torch's operators by itself."""
    fits = x.is_cuda and x.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return fits and _can_compile() and not torch.compiler.is_compiling()


@cache
def _can_compile() -> bool:
    """Whether Triton is here, which comes with torch for CUDA, and the C compiler that it needs."""
    compilers = (os.environ.get("CC", "gcc"), "gcc", "clang")
    return find_spec("triton") is not None and any(shutil.which(name) for name in compilers)


class ReplayedDropout(nn.Module):
    """Takes the place of nn.Dropout in PEFT's lora_dropout, for one adapter trained alone."""

    def __init__(self, rate: float, adapter: str, layer: int, clock: Clock):
        super().__init__()
        self.p, self.adapter, self.layer, self.clock = rate, adapter, layer, clock
        self.first_feature = 0  # of its input, where other devices have those before it
        self._rates: dict[torch.device, Rates] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x with a share of its values zeroed and the others scaled up; x itself outside training."""
        if not self.training or self.p == 0:
            return x
        if x.device not in self._rates:
            self._rates[x.device] = Rates.of([self.p], x.device)
        keys = self.clock.row_keys([self.adapter], [len(x)], x.device)
        return dropped(x, keys, self.layer, self._rates[x.device], self.first_feature)

    def extra_repr(self) -> str:
        """What print() shows."""
        return f"p={self.p}, adapter={self.adapter}"
